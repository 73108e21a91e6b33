#!/usr/bin/env python3
"""Holds every source file against the rules that keep the rooms apart.

    check_layers.py [ROOT]

- A room includes itself and the rooms that tools/layers.txt names for it, nothing else.
- `testing` is for tests, benchmarks and fuzz targets; cli/ and tests/ may include every room.
- A header of an external library stands only in its room, and only in .cc files.
- No library source prints, ends the process or throws.

Exits 1 and prints "file:line: rule" for every line that breaks one.
"""
import pathlib
import re
import sys

# External headers: the rooms, or folders of rooms (or "cli"), that may include them, and whether a
# header file may.
EVERYWHERE = None
EXTERNAL = [
    (re.compile(r"nlohmann/"), {"json"}, False),
    (re.compile(r"hwy/"), {"tensor"}, False),
    (re.compile(r"Eigen/"), {"tensor"}, False),
    (re.compile(r"libdeflate\.h$"), {"zip"}, False),
    (re.compile(r"xxh(ash|_x86dispatch)\.h$"), {"transfer"}, False),
    (re.compile(r"gloo/"), {"collective/gloo"}, False),
    (re.compile(r"curl/"), {"hub/curl"}, False),
    (re.compile(r"openssl/"), {"hub/curl"}, False),
    (re.compile(r"CLI/"), {"cli"}, False),
    (re.compile(r"fmt/"), EVERYWHERE, False),
    (re.compile(r"tl/expected\.hpp$"), {"base"}, True),
]
TEST_ONLY = re.compile(r"(gtest|gmock|benchmark)/")
# Names with a folder that come with the compiler or the operating system.
SYSTEM_FOLDER = re.compile(r"(sys|linux|netinet|arpa|net)/")

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')
FORBIDDEN = re.compile(
    r"std::(cout|cerr|clog)\b|\bfmt::print(ln)?\s*\(|\b(printf|fprintf|vprintf|vfprintf|dprintf|puts"
    r"|fputs|putchar|perror)\s*\(|\b(abort|exit|_exit|_Exit|quick_exit|terminate)\s*\(|\bthrow\b")
TEST_FILE = re.compile(r"(_(test|bench|fuzz)\.cc|_test_util\.h)$")
# Result::value() throws by its contract: it is for scripts and tests, which have no caller to tell.
MAY_THROW = "src/shardkit/base/result.h"


def read_layers(path):
    layers = {}
    for line in path.read_text().splitlines():
        match = re.match(r"([a-z_]+):(.*)$", line)
        if match:
            layers[match.group(1)] = set(match.group(2).split())
    return layers


def without_comments_and_strings(text):
    """The same lines with comments blanked and literals emptied."""
    token = re.compile(
        r'R"([^()\\ ]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/'
        r"|'(?:\\.|[^'\\\n])'", re.S)

    def blank(match):
        kept = "\n" * match.group(0).count("\n")
        return kept if match.group(0).startswith("/") else '""' + kept

    return token.sub(blank, text)


class Checker:
    def __init__(self, root):
        self.root = root
        self.layers = read_layers(root / "tools" / "layers.txt")
        self.wrong = []
        self.files = 0

    def complain(self, path, line, rule):
        self.wrong.append("%s:%d: %s" % (path.relative_to(self.root), line, rule))

    def check_layer_list(self):
        """The list itself: a room may only name rooms above it, so there is no cycle."""
        seen = set()
        path = self.root / "tools" / "layers.txt"
        for room, allowed in self.layers.items():
            for other in sorted(allowed - seen):
                self.complain(path, 1, "%s names %s, which does not stand above it" % (room, other))
            seen.add(room)

    def check_room_include(self, path, line, room, is_test, target):
        if target == "testing":
            if room != "testing" and not is_test:
                self.complain(path, line, "only tests, benchmarks and fuzz targets may include "
                              "shardkit/testing")
        elif target not in self.layers:
            self.complain(path, line, "no room is called %s" % target)
        elif room in self.layers and target != room and target not in self.layers[room]:
            self.complain(path, line, "%s may not include %s (tools/layers.txt)" % (room, target))

    def check_external_include(self, path, line, room, is_test, name):
        if TEST_ONLY.match(name):
            if not is_test and room != "testing":
                self.complain(path, line, "only tests may include <%s>" % name)
            return
        for pattern, rooms, in_headers in EXTERNAL:
            if pattern.match(name):
                # A test may look at a library to compare with it.
                folder = path.parent.relative_to(self.root).as_posix()
                places = {room, folder.replace("src/shardkit/", "", 1)}
                if rooms is not EVERYWHERE and not places & rooms and not is_test:
                    self.complain(path, line, "<%s> belongs to %s" % (name, ", ".join(sorted(rooms))))
                if path.suffix == ".h" and not in_headers:
                    self.complain(path, line, "<%s> may stand only in .cc files" % name)
                return
        if name.startswith("cli/"):
            if room not in ("cli", "tests"):
                self.complain(path, line, "a room may not include the program's %s" % name)
            return
        if "/" in name and not SYSTEM_FOLDER.match(name):
            self.complain(path, line, "<%s> is of no library that tools/check_layers.py knows" % name)

    def check_file(self, path, room):
        """`room` is a folder under src/shardkit, or "cli" or "tests"."""
        self.files += 1
        text = path.read_text(encoding="utf-8")
        is_test = bool(TEST_FILE.search(path.name)) or room == "tests"
        for number, line in enumerate(text.splitlines(), 1):
            include = INCLUDE.match(line)
            if not include:
                continue
            name = include.group(1)
            if name.startswith("shardkit/"):
                if name.count("/") < 2:
                    self.complain(path, number, "a shardkit header is shardkit/ROOM/NAME.h")
                else:
                    self.check_room_include(path, number, room, is_test, name.split("/")[1])
            else:
                self.check_external_include(path, number, room, is_test, name)
        if room in self.layers and not is_test:
            for number, line in enumerate(without_comments_and_strings(text).splitlines(), 1):
                found = FORBIDDEN.search(line)
                if found and found.group(0) == "throw":
                    found = None if path == self.root / MAY_THROW else found
                if found:
                    self.complain(path, number, "the library never prints, ends the process or "
                                  "throws: %s" % found.group(0).strip())

    def run(self):
        self.check_layer_list()
        source = self.root / "src" / "shardkit"
        for path in sorted(source.rglob("*")):
            if path.suffix not in (".h", ".cc"):
                continue
            room = path.relative_to(source).parts[0]
            if room not in self.layers and room != "testing":
                self.complain(path, 1, "the room %s is not in tools/layers.txt" % room)
            self.check_file(path, room)
        for folder in ("cli", "tests"):
            for path in sorted((self.root / folder).rglob("*")):
                if path.suffix in (".h", ".cc"):
                    self.check_file(path, folder)
        return self.wrong


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parents[1]
    checker = Checker(root.resolve())
    wrong = checker.run()
    for line in wrong:
        print(line)
    print("%d files held against %d rooms, %d lines wrong"
          % (checker.files, len(checker.layers), len(wrong)))
    if not checker.files:
        print("no source file found under %s" % root)
        return 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
