"""Java's .properties text: the form of namesrv.conf and broker.conf, and of settings that travel over the wire.

    # comment                   ! comment
    key=value    key: value     key value
    long = a line that ends in a backslash \\
           goes on in the next one, without its indent
    \\u00fc \\t \\n \\r \\f \\\\   escapes; before any other character a backslash is dropped

Agrees with java.util.Properties: `parse_properties` reads what its `load` reads. `format_properties` writes what
RocketMQ's MixAll.properties2String writes, and escapes what that forgets, so that `load` gets the same values back.
"""

import re
from collections.abc import Iterator, Mapping

from hanabi.errors import ConfigError

_BLANK = " \t\f"
_LINE_END = re.compile(r"\r\n|\r|\n")  # not splitlines(): U+0085 and its like end no line for Java
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.|$)", re.DOTALL)
_ESCAPED_BY_LETTER = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_LETTER_OF = {char: "\\" + letter for letter, char in _ESCAPED_BY_LETTER.items()}
_KEY = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")


def decode_properties(data: bytes) -> dict[str, str]:
    """Return the properties in *data*: UTF-8, or Latin-1 as Java's own reader takes it where it is not UTF-8."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return parse_properties(text)


def parse_properties(text: str) -> dict[str, str]:
    """Return keys and values in their order; of a repeated key, the last value."""
    properties: dict[str, str] = {}
    for number, line in _logical_lines(text):
        key_end = _end(_KEY, line, 0)
        key = _unescape(line[:key_end], number)
        properties[key] = _unescape(line[_end(_SEPARATOR, line, key_end) :], number)
    return properties


def _end(pattern: re.Pattern[str], line: str, start: int) -> int:
    match = pattern.match(line, start)
    return match.end() if match else start


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines without indent and comments, continuation joined, each with the number of its first line."""
    so_far = ""
    first = 0
    for number, line in enumerate(_LINE_END.split(text), start=1):
        content = line.lstrip(_BLANK)
        if not so_far:
            if not content or content[0] in "#!":
                continue
            first = number
        if _goes_on(content):
            so_far += content[:-1]
        else:
            yield first, so_far + content
            so_far = ""
    if so_far:  # the text ended in a backslash
        yield first, so_far


def _goes_on(content: str) -> bool:
    backslashes = len(content) - len(content.rstrip("\\"))
    return backslashes % 2 == 1


def _unescape(text: str, line_number: int) -> str:
    if "\\" not in text:
        return text

    def replace(match: re.Match[str]) -> str:
        escape: str = match[1]
        if escape == "u":
            raise ConfigError(f"line {line_number}: \\u needs four hexadecimal digits")
        if len(escape) == 5:
            return chr(int(escape[1:], 16))
        return _ESCAPED_BY_LETTER.get(escape, escape)

    plain = _ESCAPE.sub(replace, text)
    try:
        # Two escapes may be the halves of one character.
        return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError as error:
        raise ConfigError(f"line {line_number}: half of a character (an unpaired surrogate)") from error


def format_properties(properties: Mapping[str, str]) -> str:
    """Return one `key=value` line each."""
    return "".join(f"{_escape_key(key)}={_escape_value(value)}\n" for key, value in properties.items())


def _escape_key(key: str) -> str:
    return "".join("\\" + char if char in " =:#!" else _escape(char) for char in key)


def _escape_value(value: str) -> str:
    escaped = "".join(_escape(char) for char in value)
    return "\\" + escaped if escaped.startswith(" ") else escaped


def _escape(char: str) -> str:
    if char == "\\":
        return "\\\\"
    if " " <= char <= "~":
        return char
    if char in _LETTER_OF:
        return _LETTER_OF[char]
    # Java reads bytes as Latin-1, so everything beyond ASCII is spelled out, in UTF-16 units. Half a character, which
    # is what Python makes of a path that is not UTF-8, passes: Java reads it, and we can print it.
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
