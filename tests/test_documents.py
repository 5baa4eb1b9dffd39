"""Documents: every code block runs as it stands, every link and path leads somewhere, no line is too long.

How a block is marked that cannot run, runs for ever, or needs something before it: `tests/documents/blocks.py`. Each
document has a cluster and a directory of its own; its blocks run in order.
"""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.documents.blocks import (
    anchors_of,
    blocks_of,
    commands_of,
    folders_of,
    links_of,
    missing_lines,
    source_files_of,
)
from tests.documents.running import LANGUAGES, ROOT, needs_spark, reading, skip_without_spark
from tests.serving import serving

PATHS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "deploy").rglob("*.md"))]
DOCUMENTS = {str(path.relative_to(ROOT)): path.read_text() for path in PATHS}
BLOCKS = {name: blocks_of(name, text) for name, text in DOCUMENTS.items()}
IDLE = {"text"}
LINE_CHARACTERS_MAX = 120
README_LINES_MAX = 220
MADE_BY_RUNS = {"benches/out/", "chaos/out/"}
FOLDERS = ("benches", "chaos", "deploy", "docs", "examples", "src", "tests")
SOURCE_FILE_NAMES = {
    path.name for path in (*ROOT.iterdir(), *(each for f in FOLDERS for each in (ROOT / f).rglob("*.*")))
}
WRITTEN = {*DOCUMENTS, *(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("*.md"))}
NOTEBOOKS = {"docs/spark-walkthrough.md"}  # promised to work in a notebook


@pytest.mark.parametrize("name", [name for name, blocks in BLOCKS.items() if {b.language for b in blocks} - IDLE])
def test_every_block_of_a_document_runs(name: str, tmp_path: Path) -> None:
    blocks = [block for block in BLOCKS[name] if "not run" not in block.marks]
    if needs_spark(blocks):
        skip_without_spark()
    with serving(tmp_path) as cluster, reading(cluster, tmp_path, in_notebook=name in NOTEBOOKS) as reader:
        for block in blocks:
            reader.run(block)


def test_every_block_says_what_it_is() -> None:
    for blocks in BLOCKS.values():
        for block in blocks:
            assert block.language in LANGUAGES, f"{block.place}: give the block one of {', '.join(sorted(LANGUAGES))}"


def test_what_is_not_run_says_why(record_property: Callable[[str, object], None]) -> None:
    """`pytest --junitxml` lists them."""
    for blocks in BLOCKS.values():
        for block in blocks:
            if reason := block.marks.get("not run"):
                assert len(reason.split()) > 1, f"{block.place}: say in a few words why this cannot run here"
                record_property(f"not run: {block.place}", reason)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_link_leads_somewhere(name: str) -> None:
    for target in links_of(DOCUMENTS[name]):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        file = (ROOT / name).parent / path if path else ROOT / name
        assert file.exists(), f"{name} links to {target}, which is not there"
        if anchor:
            assert anchor in anchors_of(file.read_text()), f"{name} links to {target}: there is no such heading"


@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_no_line_of_a_document_is_too_long(name: str) -> None:
    lines = (ROOT / name).read_text().splitlines()
    long = [f"{name}:{number}" for number, line in enumerate(lines, 1) if len(line) > LINE_CHARACTERS_MAX]
    assert not long, f"wrap to {LINE_CHARACTERS_MAX} characters, tables too: {', '.join(long)}"


def test_the_architecture_has_every_room_once() -> None:
    source = ROOT / "src" / "hanabi"
    rooms = {path.parent.relative_to(source).as_posix() for path in source.rglob("*/__init__.py")}
    named = re.findall(r"^\| `([\w/]+)/` \|", DOCUMENTS["ARCHITECTURE.md"], flags=re.MULTILINE)
    assert sorted(named) == sorted(rooms)


def test_the_readme_is_short() -> None:
    assert len(DOCUMENTS["README.md"].splitlines()) <= README_LINES_MAX


@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_every_source_file_that_a_document_names_exists(name: str) -> None:
    text = (ROOT / name).read_text()
    own = {block.marks["file"] for block in BLOCKS.get(name, []) if "file" in block.marks}
    missing = [path for path in source_files_of(text) if path not in own and not is_source_file(ROOT / name, path)]
    assert not missing, f"{name} names files that do not exist: {', '.join(missing)}"


@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_every_folder_that_a_document_names_exists(name: str) -> None:
    packages = {path.parent.name for path in (ROOT / "src" / "hanabi").glob("*/__init__.py")}
    named = set(folders_of((ROOT / name).read_text(), {*FOLDERS, *packages})) - MADE_BY_RUNS
    missing = [
        path for path in sorted(named) if not any((top / path).exists() for top in (ROOT, ROOT / "src" / "hanabi"))
    ]
    assert not missing, f"{name} names folders that do not exist: {', '.join(missing)}"


def is_source_file(document: Path, path: str) -> bool:
    """Return whether *path*, as a document writes it, is a file: from the root, the package or the document, or by
    name."""
    if "/" in path:
        return any((folder / path).is_file() for folder in (ROOT, ROOT / "src" / "hanabi", document.parent))
    return path in SOURCE_FILE_NAMES


def test_blocks_are_found_with_their_marks_hidden_ones_too() -> None:
    text = (
        "a\n<!-- exit: 1 -->\n```bash\nfalse\n```\n<!-- hidden python\nx = 1\n-->\n\n  ```console\n  $ a\n  b\n  ```\n"
    )
    first, second, third = blocks_of("d", text)
    assert (first.language, first.text, first.marks, first.place) == ("bash", "false\n", {"exit": "1"}, "d:4")
    assert (second.language, second.text, second.marks) == ("python", "x = 1\n", {})
    assert (third.language, third.text) == ("console", "$ a\nb\n")
    for wrong in ("```bash\nnever ends\n", "<!-- exit: 1 -->\n\ntext\n"):
        with pytest.raises(ValueError, match=r"d:[12]"):
            blocks_of("d", wrong)


def test_a_transcript_is_commands_and_what_they_print() -> None:
    first, second = commands_of("$ one \\\n  more\nprinted\n$ two\n")
    assert (first.text, first.prints, second.prints) == ("one \\\n  more", ("printed",), ())
    printed = "ready   broker 127.0.0.1:4711\nSEND_OK 7F00\n"
    assert missing_lines(("ready broker 127.0.0.1:10911", "SEND_OK ..."), printed) == []
    assert missing_lines(("SEND_OK",), printed) == ["SEND_OK"]


def test_source_files_are_found_in_code_spans() -> None:
    text = "`a/b.py` and `c.pyx`, see [d](e.md) and `tests/f.py::test_g`; not `/data/x.py`, `*.py` or `h.properties`\n"
    assert list(source_files_of(text)) == ["a/b.py", "c.pyx", "tests/f.py"]


def test_folders_are_found_in_code_spans() -> None:
    text = "`tests/a`, `broker/send/`, not `tests/a.py`, `tests`, `other/b` or `namesrv/kvConfig.json`\n"
    assert list(folders_of(text, {"tests", "broker", "namesrv"})) == ["tests/a", "broker/send/"]


def test_links_and_headings_are_told_as_github_does() -> None:
    text = "## What it does *not* do, yet\n[a](b.md#c) `[no](x)`\n```text\n[no](y)\n# no\n```\n"
    assert list(links_of(text)) == ["b.md#c"]
    assert anchors_of(text) == {"what-it-does-not-do-yet"}
