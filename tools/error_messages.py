"""The messages of the library, read from its source.

A message is a text that stands where an Error is made (behind an ErrorCode), or that is given to a
function that makes an Error of it. This reads C++ as far as such texts need: literals, `+`,
fmt::format(), `a ? "b" : "c"` and constants of the file. Texts that are chosen elsewhere are not
found.
"""
import re

STRING = r'"(?:[^"\\]|\\.)*"'
CODE = re.compile(r"ErrorCode::k(\w+),")
# Error corrupt(std::string what, ...) {   or   const auto wrong = [&](std::string_view what) {
MAKER = re.compile(
    r"^ *(?:(?:inline |static )*Error (?:\w+::)*(\w+)|(?:const )?auto (\w+) = \[[^\]]*\])"
    r"\(([^{;]*?)\)[^{;()]*\{", re.M)
CONSTANT = r"constexpr (?:std::string_view|const char\*|char) %s(?:\[\])?(?: = |\{)((?:%s\s*)+)"
OPENING, CLOSING = "([{", ")]}"


def snake(code):
    return re.sub(r"(?<!^)([A-Z])", r"_\1", code).lower()


def split_at(text, separators):
    """The parts of an expression between separators that stand outside of brackets and literals, up to
    the bracket that ends it."""
    parts, depth, start, i = [], 0, 0, 0
    while i < len(text):
        literal = re.compile(STRING + r"|'(?:[^'\\]|\\.)'").match(text, i)
        if literal:
            i = literal.end()
            continue
        if text[i] in OPENING:
            depth += 1
        elif text[i] in CLOSING:
            depth -= 1
            if depth < 0:
                break
        elif depth == 0 and text[i] in separators and text[i:i + 2] != "::" and text[i - 1:i + 1] != "::":
            parts.append(text[start:i])
            start = i + 1
        i += 1
    return [part.strip() for part in parts + [text[start:i]]]


def body_of(maker):
    return split_at(maker.string[maker.end():], "")[0]


def unquoted(literals):
    text = "".join(part[1:-1] for part in re.findall(STRING, literals))
    return re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m.group(1), m.group(1)), text)


def name_of(term):
    """The variable that a term is: x, std::move(x), std::string(x)."""
    match = re.fullmatch(r"(?:std::(?:move|string|string_view)\()?(\w+)\)?", term)
    return match.group(1) if match else None


def texts_of(expression, values):
    """What an expression can be; {} for what is not known. `values`: texts of variables by name."""
    choice = split_at(expression, "?")
    if len(choice) == 2 and len(split_at(choice[1], ":")) == 2:
        return [text for each in split_at(choice[1], ":") for text in texts_of(each, values)]
    texts = [""]
    for term in split_at(expression, "+"):
        texts = [text + more for text in texts for more in texts_of_term(term, values)]
    return texts


def texts_of_term(term, values):
    if re.fullmatch(r"(?:%s\s*)+" % STRING, term):
        return [unquoted(term)]
    call = re.match(r"(?:std::string(?:_view)?|fmt::format)[({]", term)
    if call:
        arguments = split_at(term[call.end():], ",")
        texts = texts_of(arguments[0], values)
        for argument in arguments[1:]:
            filled = values.get(name_of(argument), ["{}"])
            texts = [re.sub(r"\{[^{}]*\}", lambda _: more.replace("{}", "\0"), text, count=1)
                     for text in texts for more in filled]
        return [text.replace("\0", "{}") for text in texts]
    return values.get(name_of(term), ["{}"])


def constants_before(source, at):
    """The texts of the constants above a place, the nearest one of each name."""
    return {name: [unquoted(literals)] for name, literals in
            re.findall(CONSTANT % (r"(\w+)", STRING), source[:at])}


def says_something(text):
    """Not only what is filled in."""
    return re.search("[a-z]{3}", re.sub(r"\{[^}]*\}", "", text)) is not None


def is_prefix(text):
    """Only goes before what is filled in: "zip: {}", "{}: rank {}: {}"."""
    return re.fullmatch(r"[\w'{}: ]*: \{\}|\{\}", text) is not None


def names_of(parameters):
    return [re.split(r"[\s&*]+", part.split("=")[0].strip())[-1] for part in split_at(parameters, ",")]


def calls_of(name, source, defined):
    """The arguments of each call of a function, with the place, but for where it is defined."""
    for call in re.finditer(r"\b%s\(" % name, source):
        if source is not defined.string or not defined.start() <= call.start() < defined.end():
            yield call.start(), split_at(source[call.end():], ",")


def told_by_calls(maker, sources):
    """{(code, text)} of a function that only puts a code, or a prefix, to the text that it is given."""
    name, parameters, body = maker.group(1) or maker.group(2), names_of(maker.group(3)), body_of(maker)
    made = [(snake(code.group(1)), split_at(body[code.end():], ",;")[0]) for code in CODE.finditer(body)]
    if not any(is_prefix(text) for _, expression in made for text in texts_of(expression, {})):
        return set()
    found = set()
    for source in sources:
        for at, arguments in calls_of(name, source, maker):
            known = constants_before(source, at)
            values = {p: texts_of(a, known) for p, a in zip(parameters, arguments)}
            found |= {(code, text) for code, expression in made for text in texts_of(expression, values)}
    return {(code, text) for code, text in found if says_something(text)}


def messages(sources):
    """{(code, text)} of {path: text} of source files."""
    found = set()
    for path, source in sources.items():
        beside = [other for place, other in sources.items() if place.parent == path.parent]
        in_headers = set(re.findall(r"\bError (\w+)\([^;{]*\)(?: const)?;", "\n".join(beside)))
        told = []
        for maker in MAKER.finditer(source):
            name = maker.group(1) or maker.group(2)
            texts = told_by_calls(maker, beside if name in in_headers else [source])
            if texts:
                start = source.index(body_of(maker), maker.end())
                told.append((start, start + len(body_of(maker))))
                found |= texts
        for code in CODE.finditer(source):
            if not any(start <= code.start() < end for start, end in told):
                expression = split_at(source[code.end():], ",;")[0]
                found |= {(snake(code.group(1)), text)
                          for text in texts_of(expression, constants_before(source, code.start()))}
    return {(code, text.strip()) for code, text in found if says_something(text)}
