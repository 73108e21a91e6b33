#!/usr/bin/env python3
"""Makes docs/errors.md: every message of the library, each with what a test saw.

    errors_page.py RECORD    write the page; RECORD is a file that tests wrote ($SHARDKIT_RECORD_ERRORS)
    errors_page.py --check   hold the page against the source; exit 1 where they differ

Every message has an example, or stands in UNSEEN with the reason why no test brings it about; --check
asks for it. What tests saw of texts that are put together elsewhere is on the page, too. `make errors`
runs the tests and writes the page.
"""
import collections
import pathlib
import re
import sys

from error_messages import messages

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "errors.md"
CODES = {
    "invalid_argument": ("fix the call or the command line", 2),
    "not_found": ("the path or name does not exist", 3),
    "corrupt": ("the file breaks its format: fetch it again", 3),
    "unsafe": ("well-formed, but refused because it could do harm", 3),
    "incomplete": ("ranks, shards or coverage are missing or contradict each other", 3),
    "unsupported": ("valid, but shardkit does not handle it", 3),
    "limit": ("larger or deeper than a stated limit", 3),
    "io": ("the operating system or a server said no", 4),
    "peer": ("another rank failed or did not answer in time", 4),
    "cancelled": ("the caller asked to stop", 130),
    "internal": ("a bug in shardkit: please report it", 70),
}
INTRODUCTION = """# Errors

What shardkit says when something is wrong, by the code of the error, which tells what to do; the exit
code is the program's. "..." stands for what is filled in. The example is what a test saw: the
sentence, then the place as far as it is known (tensor, expected, found, file, offset in bytes).
Rows without a message are texts that are put together in the program. Where no test can bring a
message about, the reason stands in brackets. [troubleshooting.md](troubleshooting.md) answers what people run into.

Made from the source and the tests by `make errors`; a test holds it against the source."""
NONE = "-"
# Messages that no test can bring about, each with why.
UNSEEN = {
    "an identity without '{}'": "a guard: what is merged always has these members",
    "the system gave no random number": "Linux does not refuse eight random bytes",
}
LONGEST = 400


def sources(of_tests):
    """{path: text} of the library and the program, or of their tests."""
    found = {}
    for folder in ("src/shardkit", "cli"):
        for path in sorted((ROOT / folder).rglob("*")):
            is_test = "testing" in path.parts or re.search(r"_(test|fuzz|bench|test_util)$", path.stem)
            if path.suffix in (".h", ".cc") and bool(is_test) == of_tests:
                found[path] = path.read_text()
    return found


def pattern_of(text):
    """Of a whole sentence, or of a part of one between colons: "zip: ...", "rank 1: ..."."""
    return re.compile("(?:^|: )%s(?:$|:)" % ".*?".join(
        map(re.escape, re.split(r"\{[^{}]*\}", text.strip()))), re.S)


def shown(text):
    """A text of the source in a table's cell."""
    return cell(re.sub(r"\{[^{}]*\}", "...", text))


def fits(text, example):
    """Whether the example of a cell can be of this message."""
    plain = cell(text.replace("`", "'"))
    return pattern_of(plain).search(example) is not None


def cell(text):
    text = re.sub(r"\x1b?\[[0-9;]*m", "", text)
    text = "".join(c if 32 <= ord(c) < 127 else "?" for c in text)
    return text.replace("|", "\\|").replace("<", "&lt;")


def neutral(text):
    """Without what differs from run to run."""
    text = text.replace(str(ROOT) + "/", "").replace(str(ROOT), ".")
    text = re.sub(r"/dev/shm/[\w.-]*", "/dev/shm/NAME", text)
    text = re.sub(r"/tmp/(shardkit|tmp)[\w.-]*", "/tmp", text)
    text = re.sub(r"/shardkit-\d+-[0-9a-f]+", "/shardkit-PID-NUMBER", text)
    text = re.sub(r"((?:127\.0\.0\.\d+|localhost|\[::1\]):|port )\d{4,5}", r"\1PORT", text)
    text = re.sub(r"\bprocess \d+", "process PID", text)
    return text if len(text) <= LONGEST else text[:LONGEST] + "..."


def read_record(path):
    """{code: [(sentence, whole message)]}, the shortest first."""
    seen = collections.defaultdict(set)
    for line in path.read_text(errors="replace").splitlines():
        code, what, message = line.split("\t")
        seen[code].add((what, neutral(message)))
    return {code: sorted(lines, key=lambda line: (len(line[1]), line)) for code, lines in seen.items()}


def rows(code, found, made_by_tests, seen, seen_printed):
    """(message, example) of one code: what the source has, then what tests saw besides."""
    patterns = [pattern_of(text) for c, text in found | made_by_tests if c == code]
    for text in sorted(text for c, text in found if c == code):
        pattern = pattern_of(text)
        yield text, next((message for what, message in seen + seen_printed if pattern.search(what)), None)
    told = set()
    for what, message in seen:
        kind = re.sub(r"'[^']*'|\d+", "...", what)
        if kind not in told and not any(pattern.search(what) for pattern in patterns):
            told.add(kind)
            yield "", message


def example_cell(text, example):
    if example:
        return "`%s`" % cell(example).replace("`", "'")
    return "(%s)" % UNSEEN[text] if text in UNSEEN else NONE


def write_page(seen):
    found, made_by_tests = messages(sources(of_tests=False)), messages(sources(of_tests=True))
    lines = [INTRODUCTION]
    for code, (meaning, exit_code) in CODES.items():
        lines += ["", "## " + code, "", "Exit code %d: %s." % (exit_code, meaning), "",
                  "| message | example |", "|---|---|"]
        for text, example in rows(code, found, made_by_tests, seen.get(code, []), seen.get("?", [])):
            lines.append("| %s | %s |" % (shown(text), example_cell(text, example)))
    PAGE.write_text("\n".join(lines) + "\n")


def read_page():
    """{(code, message as shown): example cell}."""
    on_page, code = {}, None
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            code = line[3:]
        elif line.startswith("| ") and not line.startswith("| message"):
            text, example = re.split(r" ?(?<!\\)\| ?", line)[1:3]
            if text:
                on_page[code, text] = example
    return on_page


def check():
    on_page = read_page()
    found = {(code, shown(text)): text for code, text in messages(sources(of_tests=False))}
    wrong = ["lacks: %s: %s" % key for key in found.keys() - on_page.keys()]
    wrong += ["has what the source has not: %s: %s" % key for key in on_page.keys() - found.keys()]
    for key in found.keys() & on_page.keys():
        example = on_page[key]
        if example == NONE:
            wrong.append("has no example: %s: %s" % key)
        elif example.startswith("("):
            if example != example_cell(found[key], None):
                wrong.append("gives another reason than tools/errors_page.py: %s: %s" % key)
        elif not example.endswith("...`") and not fits(found[key], example.strip("`")):
            wrong.append("has an example that does not fit: %s: %s" % key)
    wrong += ["(UNSEEN in tools/errors_page.py) has a reason for no message: " + text
              for text in UNSEEN.keys() - set(found.values())]
    for line in sorted(wrong):
        print("docs/errors.md " + line)
    print("%d messages, %d faults of the page" % (len(found), len(wrong)))
    if wrong:
        print("`make errors` writes the page anew")
    return 1 if wrong else 0


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if sys.argv[1] == "--check":
        return check()
    write_page(read_record(pathlib.Path(sys.argv[1])))
    return check()


if __name__ == "__main__":
    sys.exit(main())
