"""Imports point one way. The table is the architecture; ARCHITECTURE.md draws it."""

import ast
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).parent.parent / "src" / "hanabi"

MAY_IMPORT = {
    "_version": "",
    "errors": "",
    "clock": "",
    "memory": "",
    "message": "errors",
    "durable_table": "errors",
    "wire": "errors message",
    "remoting": "errors memory wire",
    "store": "errors clock memory durable_table message wire",
    "replication": "errors wire remoting store",
    "namesrv": "errors clock durable_table wire remoting",
    "broker": "errors clock durable_table message wire remoting store replication",
    "metrics": "_version errors wire remoting store namesrv broker",
    "client": "errors clock durable_table message wire remoting",
    "admin": "errors message wire client",
    "doctor": "errors clock message wire remoting client admin",
    "bench": "errors clock message wire store client aio admin",  # the store: it measures a disk with ours
    # `hanabi serve` starts the servers and `hanabi store` looks into files, so the command line knows them too.
    "cli": "_version errors message wire remoting store namesrv broker metrics client admin doctor bench spark",
    "dashboard": "errors message admin",
    "spark": "errors clock message wire store client",  # the store: its reader looks into the files
    "aio": "client",
    "__init__": "_version errors message client aio",
    "__main__": "cli",
}

# The protocol is bytes in, values out: what waits, reads a clock, or writes a log has no place in it.
FORBIDDEN_IN_WIRE = {"asyncio", "socket", "selectors", "ssl", "threading", "time", "datetime", "logging", "uvloop"}

MODULES = sorted(SRC.rglob("*.py"))


def imported_names(path: Path) -> set[str]:
    """Every module that *path* imports, with dots."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module
            names |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return names


def imported_parts(path: Path) -> set[str]:
    """{"store"} for `from hanabi.store.log.log import Log`."""
    dotted = (name.split(".") for name in imported_names(path) if name.startswith("hanabi."))
    return {name[1] for name in dotted if (SRC / name[1]).is_dir() or (SRC / f"{name[1]}.py").is_file()}


def part_of(path: Path) -> str:
    return path.relative_to(SRC).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SRC)))
def test_imports_point_down(path: Path) -> None:
    part = part_of(path)
    if part == "testing":  # may use everything; nothing but tests uses it
        return
    allowed = {*MAY_IMPORT[part].split(), part}
    assert imported_parts(path) <= allowed, f"{path.relative_to(SRC)} imports {imported_parts(path) - allowed}"


@pytest.mark.parametrize("path", sorted((SRC / "wire").rglob("*.py")), ids=lambda path: path.name)
def test_the_wire_knows_no_socket_no_clock_and_no_log(path: Path) -> None:
    roots = {name.split(".")[0] for name in imported_names(path)}
    assert not roots & FORBIDDEN_IN_WIRE


def test_nothing_imports_a_package_that_is_only_an_extra_at_module_level() -> None:
    core = {"hanabi", "msgspec", "rich", "typer", "uvloop", *sys.stdlib_module_names}
    extras_by_part = {
        "spark": {"pyspark", "py4j", "pyarrow", "numpy"},
        "dashboard": {"starlette", "uvicorn", "jinja2"},
        "testing": {"pytest"},
    }
    for path in MODULES:
        tree = ast.parse(path.read_text())
        roots: set[str] = set()
        for node in tree.body:
            if isinstance(node, ast.Import):
                roots |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                roots.add(node.module.split(".")[0])
        assert roots <= core | extras_by_part.get(part_of(path), set()), path
