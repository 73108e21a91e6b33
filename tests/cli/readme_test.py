"""Runs the commands of README.md's console blocks and compares what they print with what it shows.

    readme_test.py            check
    readme_test.py --write    put today's output into README.md, where it shows no "..." line

In a block, "$ " starts a command, the lines below it are its output (both streams), and a line "..."
stands for any lines. Commands run in the repository's root, as a reader's would.
"""
import os
import re
import subprocess
import sys
import unittest

import program

README = program.ROOT / "README.md"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands_of(block):
    """[(command, output lines)]."""
    parts = []
    for line in block.splitlines():
        if line.startswith("$ "):
            parts.append((line[2:], []))
        else:
            parts[-1][1].append(line)
    return parts


def run(command):
    done = subprocess.run(["bash", "-c", command], cwd=program.ROOT, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, timeout=240,
                          env={k: v for k, v in os.environ.items() if not k.startswith("MAKE")})
    # Where the reader's clone lies is not ours to know.
    text = re.sub(r"(?<!\S)%s/" % re.escape(str(program.ROOT)), "/home/you/shardkit/", done.stdout)
    return [line.rstrip() for line in text.splitlines()]


def matches(shown, printed):
    pattern = "".join(r"(.*\n)*?" if line == "..." else re.escape(line) + "\n" for line in shown)
    return re.fullmatch(pattern, "".join(line + "\n" for line in printed)) is not None


class ReadmeTest(unittest.TestCase):
    maxDiff = None

    def test_commands_print_what_is_shown(self):
        if program.PROGRAM != str(program.ROOT / "build" / "shardkit"):
            self.skipTest("the README speaks of build/shardkit; this is %s" % program.PROGRAM)
        blocks = BLOCK.findall(README.read_text())
        self.assertGreaterEqual(len(blocks), 3)
        for block in blocks:
            for command, shown in commands_of(block):
                with self.subTest(command=command):
                    printed = run(command)
                    if not matches(shown, printed):
                        self.assertEqual("\n".join(printed), "\n".join(shown))

    def test_make_targets_that_it_names_exist(self):
        named = set(re.findall(r"(?:`|^\$ )make ([a-z]+)", README.read_text(), re.MULTILINE))
        self.assertGreaterEqual(named, {"build", "demo", "test", "interop"})
        makefile = (program.ROOT / "Makefile").read_text()
        for target in named:
            self.assertRegex(makefile, r"(?m)^%s:" % target)

    def test_matching(self):
        self.assertTrue(matches(["a", "...", "d"], ["a", "b", "c", "d"]))
        self.assertTrue(matches(["...", "a"], ["a"]))
        self.assertFalse(matches(["a", "...", "d"], ["a", "b"]))
        self.assertFalse(matches(["a"], ["a", "b"]))


def write():
    def renewed(match):
        lines = []
        for command, shown in commands_of(match.group(1)):
            printed = run(command)
            lines += ["$ " + command] + (shown if "..." in shown else printed)
        return "```console\n%s\n```" % "\n".join(lines)

    README.write_text(BLOCK.sub(renewed, README.read_text()))


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write()
    else:
        unittest.main()
