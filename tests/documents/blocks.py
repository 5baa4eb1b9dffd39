"""The code blocks and the links of a document. Pure: text in, values out.

A block begins with three backticks and its language. A comment on the line above says what is special about it:

    <!-- not run: REASON -->    it cannot run here
    <!-- until: TEXT -->        it runs for ever: end it (SIGINT) when it has printed TEXT
    <!-- stays: TEXT -->        a server that has printed TEXT; later blocks talk to it, and it ends with the document
    <!-- stops: TEXT -->        not run: the server that was started with TEXT in its command is stopped instead
    <!-- kills: TEXT -->        the same, by SIGKILL
    <!-- file: NAME -->         save it as NAME, for later blocks
    <!-- exit: 1 -->            it ends with this code

What readers need not see stands in a comment of its own, `<!-- hidden bash` or `<!-- hidden python`, up to `-->`.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\S*)\s*$")
_MARK = re.compile(r"^\s*<!-- (?P<name>not run|until|stays|stops|kills|file|exit): (?P<value>.+?) -->\s*$")
_HIDDEN = re.compile(r"^\s*<!-- hidden (?P<language>bash|python)\s*$")
_HEADING = re.compile(r"^#+ (?P<text>.+?)\s*$")
_SPAN = re.compile(r"`(?P<text>[^`\n]+)`")
_SOURCE_FILE = re.compile(r"(?<![\w/.*-])\w[\w.-]*(?:/[\w.-]+)*\.(?:py|pyi|pyx|pxd|c|java|md)\b(?!\w)")
_FOLDER = re.compile(r"\w+(?:/[\w-]+)+/?")
_LINK = re.compile(r"\[[^\]\n]*\]\((?P<target>[^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """One block: `line` is that of its first line of text."""

    document: str
    line: int
    language: str
    text: str
    marks: dict[str, str] = field(default_factory=dict)

    @property
    def place(self) -> str:
        return f"{self.document}:{self.line}"


@dataclass(frozen=True)
class Command:
    """A line of a transcript that begins with a dollar sign, and the lines that it prints."""

    text: str
    prints: tuple[str, ...]


def blocks_of(document: str, text: str) -> list[Block]:
    """Return all blocks of a document, in order, hidden ones too."""
    found: list[Block] = []
    lines = text.splitlines()
    marks: dict[str, str] = {}
    number = 0
    while number < len(lines):
        line = lines[number]
        if mark := _MARK.match(line):
            marks[mark["name"]] = mark["value"]
        elif fence := _FENCE.match(line):
            end = _end(lines, number + 1, f"{fence['indent']}```", f"{document}:{number + 1}")
            body = [each.removeprefix(fence["indent"]) for each in lines[number + 1 : end]]
            found.append(Block(document, number + 2, fence["language"], "".join(f"{each}\n" for each in body), marks))
            marks, number = {}, end
        elif hidden := _HIDDEN.match(line):
            end = _end(lines, number + 1, "-->", f"{document}:{number + 1}")
            body = lines[number + 1 : end]
            found.append(Block(document, number + 2, hidden["language"], "".join(f"{each}\n" for each in body)))
            number = end
        elif marks:
            raise ValueError(f"{document}:{number + 1}: a comment about a block must stand right above it")
        number += 1
    return found


def _end(lines: list[str], start: int, closing: str, place: str) -> int:
    for number in range(start, len(lines)):
        if lines[number].rstrip() == closing:
            return number
    raise ValueError(f"{place}: this block never ends")


def commands_of(transcript: str) -> list[Command]:
    """Return the commands of a transcript; a backslash at its end continues one."""
    found: list[Command] = []
    command: list[str] | None = None
    prints: list[str] = []
    for line in transcript.splitlines():
        if command is not None and command[-1].endswith("\\") and not prints:
            command.append(line)
        elif line.startswith("$ "):
            if command is not None:
                found.append(Command("\n".join(command), tuple(prints)))
            command, prints = [line.removeprefix("$ ")], []
        elif command is None:
            raise ValueError(f"a transcript begins with a command, not with {line!r}")
        elif line.strip():
            prints.append(line)
    if command is not None:
        found.append(Command("\n".join(command), tuple(prints)))
    return found


def line_pattern(line: str) -> re.Pattern[str]:
    """Return what a printed line must be: `...` is anything, a port of this machine is any port."""
    text = re.escape(" ".join(line.split()))
    text = re.sub(r"127\\\.0\\\.0\\\.1:\d+", r"127\\.0\\.0\\.1:\\d+", text)
    return re.compile(text.replace(r"\.\.\.", ".*"))


def missing_lines(wanted: tuple[str, ...], printed: str) -> list[str]:
    """Return the lines of *wanted* that were not printed; how many blanks there are does not matter."""
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    return [line for line in wanted if not any(line_pattern(line).fullmatch(each) for each in lines)]


def missing_pieces(wanted: tuple[str, ...], printed: str) -> list[str]:
    """Compare as `missing_lines` does, for programs whose threads print: a line of one may run into that of another."""
    text = " ".join(printed.split())
    return [line for line in wanted if not line_pattern(line).search(text)]


def links_of(text: str) -> Iterator[str]:
    """Return where a document's links lead, those in code left out."""
    prose = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
    prose = re.sub(r"`[^`\n]*`", "", prose)
    return (link["target"] for link in _LINK.finditer(prose))


def source_files_of(text: str) -> Iterator[str]:
    """Paths and names of source files in a document's code spans; absolute paths are the reader's, not ours."""
    prose = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
    return (path[0] for span in _SPAN.finditer(prose) for path in _SOURCE_FILE.finditer(span["text"]))


def folders_of(text: str, tops: Collection[str]) -> Iterator[str]:
    """Code spans that are a path without a suffix and begin with one of *tops*: `tests/faults`, `broker/send/`."""
    prose = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
    spans = (span["text"] for span in _SPAN.finditer(prose))
    return (span for span in spans if _FOLDER.fullmatch(span) and span.partition("/")[0] in tops)


def anchors_of(text: str) -> set[str]:
    """Return the names of a document's headings, as GitHub makes them."""
    prose = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
    headings = (heading["text"] for line in prose.splitlines() if (heading := _HEADING.match(line)))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
