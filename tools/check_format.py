#!/usr/bin/env python3
"""Holds the C++ files against .clang-format.

    check_format.py CLANG_FORMAT [--write]    exit 1 and a list of what differs, or write it anew

CLANG_FORMAT is the program, of version 14: others break some lines elsewhere.
"""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDERS = ("src", "cli", "tests", "bench", "examples")


def main():
    program, *flags = sys.argv[1:]
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    if " version 14." not in version:
        sys.exit("clang-format 14 is needed, not: " + version.strip())
    files = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*")
                   if path.suffix in (".h", ".cc"))
    wrong = []
    for path in files:
        now = path.read_bytes()
        meant = subprocess.run([program, "--style=file", str(path)], capture_output=True, check=True).stdout
        if meant != now:
            wrong.append(path)
            if flags == ["--write"]:
                path.write_bytes(meant)
    for path in wrong:
        print("%s: %s" % (path.relative_to(ROOT), "written anew" if flags else "not as .clang-format says"))
    print("%d C++ files, %d differ" % (len(files), len(wrong)))
    if wrong and not flags:
        sys.exit("`make format` writes them anew")


if __name__ == "__main__":
    main()
