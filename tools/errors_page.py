#!/usr/bin/env python3
"""Makes docs/errors.md: every message of the library, each with what a test saw.

    errors_page.py RECORD    write the page; RECORD is a file that tests wrote ($SHARDKIT_RECORD_ERRORS)
    errors_page.py --check   hold the page against the source; exit 1 where they differ

A message is a text that stands in the source where an Error is made, or where a function that makes
one is given it. Texts that are chosen or put together elsewhere are not found so; what tests saw of
them is on the page, too. `make errors` runs the tests and writes the page.
"""
import collections
import pathlib
import re
import sys

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
Rows without a message are texts that are put together in the program. "-" stands where no test shows
an example here. [troubleshooting.md](troubleshooting.md) answers what people run into.

Made from the source and the tests by `make errors`; a test holds it against the source."""
NONE = "-"
LONGEST = 400

STRING = r'"(?:[^"\\]|\\.)*"'
CODE = r"ErrorCode::k(\w+)"
# Error(ErrorCode::kX, "..."), Error error(...), return {ErrorCode::kX, "..."}, with fmt::format() or std::string().
MAKING = re.compile(CODE + r",\s*(?:[\w:]+\(\s*)?((?:%s\s*)+)" % STRING)
# Error corrupt(std::string what, ...) {
MAKER = re.compile(r"^ *(?:inline |static )*Error (\w+)\(([^{;]*?)\)[^{;()]*\{(.*?)^ *\}", re.M | re.S)


def snake(code):
    return re.sub(r"(?<!^)([A-Z])", r"_\1", code).lower()


def unquoted(literals):
    text = "".join(part[1:-1] for part in re.findall(STRING, literals))
    return re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m.group(1), m.group(1)), text)


def sources():
    for folder in ("src/shardkit", "cli"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".h", ".cc") and "testing" not in path.parts and not re.search(
                    r"_(test|fuzz|bench|test_util)$", path.stem):
                yield path.read_text()


def messages():
    """{(code, text)}: texts with {} where something is filled in."""
    found = set()
    for source in sources():
        for code, literals in MAKING.findall(source):
            found.add((snake(code), unquoted(literals)))
        for name, parameters, body in MAKER.findall(source):
            codes = set(re.findall(CODE, body))
            if len(codes) == 1 and "string" in parameters:
                calls = re.compile(r"\b%s\(\s*(?:[\w:]+\(\s*)?((?:%s\s*)+)" % (name, STRING))
                for literals in calls.findall(source):
                    found.add((snake(*codes), unquoted(literals)))
    return {(code, text) for code, text in found if re.search("[a-z]{3}", re.sub(r"{[^}]*}", "", text))}


def pattern_of(text):
    """Of a whole sentence, or of a part of one between colons: "zip: ...", "rank 1: ..."."""
    return re.compile("(?:^|: )%s(?:$|:)" % ".*?".join(
        map(re.escape, re.split(r"\{[^{}]*\}", text.strip()))), re.S)


def shown(text):
    """A text of the source in a table's cell."""
    return cell(re.sub(r"\{[^{}]*\}", "...", text))


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


def rows(code, found, seen):
    """(message, example) of one code: what the source has, then what tests saw besides."""
    rest = list(seen)
    for text in sorted(text for c, text in found if c == code):
        pattern = pattern_of(text)
        fitting = [line for line in rest if pattern.search(line[0])]
        yield shown(text), fitting[0][1] if fitting else None
    patterns = [pattern_of(text) for c, text in found if c == code]
    told = set()
    for what, message in rest:
        kind = re.sub(r"'[^']*'|\d+", "...", what)
        if kind not in told and not any(pattern.search(what) for pattern in patterns):
            told.add(kind)
            yield "", message


def write_page(seen):
    found, lines = messages(), [INTRODUCTION]
    for code, (meaning, exit_code) in CODES.items():
        lines += ["", "## " + code, "", "Exit code %d: %s." % (exit_code, meaning), "",
                  "| message | example |", "|---|---|"]
        for text, example in rows(code, found, seen.get(code, [])):
            lines.append("| %s | %s |" % (text, "`%s`" % cell(example).replace("`", "'") if example else NONE))
    PAGE.write_text("\n".join(lines) + "\n")


def check():
    on_page, code = collections.defaultdict(dict), None
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            code = line[3:]
        elif line.startswith("| ") and not line.startswith("| message"):
            text, example = re.split(r" ?(?<!\\)\| ?", line)[1:3]
            if text:
                on_page[code][text] = example
    wrong = []
    found = collections.defaultdict(set)
    for code, text in messages():
        found[code].add(shown(text))
    for code in CODES:
        wrong += ["lacks: %s: %s" % (code, text) for text in found[code] - on_page[code].keys()]
        wrong += ["has what the source has not: %s: %s" % (code, text)
                  for text in on_page[code].keys() - found[code]]
    without = sum(example == NONE for texts in on_page.values() for example in texts.values())
    for line in sorted(wrong):
        print("docs/errors.md " + line)
    print("%d messages, %d without an example, %d differences from the source"
          % (sum(map(len, found.values())), without, len(wrong)))
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
