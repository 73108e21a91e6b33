#!/usr/bin/env python3
"""Holds the text of the repository's files against what CONTRIBUTING.md promises a reader.

    check_text.py [ROOT]

Errors: a source or script that is not ASCII, or ends without a newline; a C++ header whose first
line does not say what it holds. Warnings (exit 0): a line of C++ over 100 columns, a header over 150
lines, a source file over 500.
"""
import pathlib
import subprocess
import sys

SOURCES = {".h", ".cc", ".py", ".sh", ".cmake", ".txt"}
LONGEST = {".h": 150, ".cc": 500}
COLUMNS = 100


def repository_files(root):
    listed = subprocess.run(["git", "-C", str(root), "ls-files", "-z", "--cached", "--others",
                             "--exclude-standard"], capture_output=True)
    if listed.returncode == 0:
        return sorted(root / n for n in set(listed.stdout.decode().split("\0")) if n)
    return sorted(p for p in root.rglob("*") if "build" not in p.relative_to(root).parts)


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[1])
    root = root.resolve()
    errors, warnings, count = [], [], 0
    for path in repository_files(root):
        relative = path.relative_to(root)
        named = path.suffix in SOURCES or path.name == "Makefile" or relative.as_posix() == ".ci/run"
        if not named or not path.is_file() or "testdata" in relative.parts:
            continue
        count += 1
        data = path.read_bytes()
        for number, line in enumerate(data.split(b"\n"), 1):
            if any(byte > 126 for byte in line):
                errors.append("%s:%d: not ASCII" % (relative, number))
            if path.suffix in LONGEST and len(line) > COLUMNS:
                warnings.append("%s:%d: %d columns, aim at %d"
                                % (relative, number, len(line), COLUMNS))
        if data and not data.endswith(b"\n"):
            errors.append("%s: no newline at the end" % relative)
        if path.suffix == ".h" and not data.startswith(b"// "):
            errors.append("%s:1: the first line does not say what the header holds" % relative)
        if path.suffix in LONGEST:
            lines = data.count(b"\n")
            # Tables of test cases grow long without getting harder to read.
            if lines > LONGEST[path.suffix] and not path.name.endswith("_test.cc"):
                warnings.append("%s: %d lines, aim at %d" % (relative, lines, LONGEST[path.suffix]))
    for line in warnings:
        print("warning: " + line)
    for line in errors:
        print("error: " + line)
    print("%d files read, %d warnings, %d errors" % (count, len(warnings), len(errors)))
    return 1 if errors or not count else 0


if __name__ == "__main__":
    sys.exit(main())
