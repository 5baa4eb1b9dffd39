"""Attributes that begin with `_` belong to their class. Accesses from elsewhere are counted here, and may only fall."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

SRC = Path(__file__).parent.parent / "src"

PUBLIC_IN_SPITE_OF_THEIR_NAME = {"_replace", "_asdict", "_fields", "_make", "_exit"}  # of named tuples, and of `os`

# File: how many accesses to another object's private attribute it has. Lower a figure when you remove one.
ACCESSES: dict[str, int] = {
    "hanabi/broker/clients/client.py": 1,  # an enum's table: membership without an exception
    "hanabi/client/blocking/loop_thread.py": 1,  # as asyncio.Runner has it: is there a loop in this thread?
    "hanabi/client/cluster/broker_requests.py": 1,  # the stacks of all threads, for `mqadmin consumerStatus`
    "hanabi/metrics/request_times.py": 1,  # an enum's table: membership without an exception
    "hanabi/spark/pipelines/archive/delta.py": 1,  # Spark offers no public way to its JVM
    "hanabi/spark/pipelines/session.py": 3,  # Spark offers no public way to its JVM
    "hanabi/spark/pipelines/support/file_system.py": 2,  # Spark offers no public way to its JVM
}


def test_nothing_more_reads_private_attributes_of_other_objects() -> None:
    found = Counter({str(path.relative_to(SRC)): len(list(accesses(path))) for path in sources()})
    changed = {path: count for path, count in (found - Counter(ACCESSES)).items() if count}
    assert not changed, [line for path in changed for line in accesses(SRC / path)]


def test_the_figures_fall_with_the_accesses() -> None:
    found = {str(path.relative_to(SRC)): len(list(accesses(path))) for path in sources()}
    assert {path: count for path, count in ACCESSES.items() if found.get(path, 0) < count} == {}


def sources() -> list[Path]:
    return sorted(path for path in SRC.rglob("*.py*") if path.suffix in (".py", ".pyx"))


def accesses(path: Path) -> Iterator[str]:
    """Yield each access as `file:line: expression`."""
    if path.suffix == ".pyx":
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if line.startswith(("from ", "import ", "cimport ")):  # a compiled module has a private name
                continue
            for match in re.finditer(r"(?<![\w.])(?!hanabi\b)(\w+(?:\.\w+)*)\._[a-z]\w*", line.partition("#")[0]):
                if match[1] != "self":
                    yield f"{path}:{number}: {match[0]}"
        return
    tree = ast.parse(path.read_text())
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    for node in foreign(tree, "", {"self", "cls", "other", *classes}):
        yield f"{path}:{node.lineno}: {ast.unparse(node)}"


def foreign(tree: ast.AST, kind: str, own: set[str]) -> Iterator[ast.Attribute]:
    """Private attributes below *tree* of anything but what is named in *own*: instances of the class *kind* around."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr) and not is_one_of(node.value, own):
            yield node
        if isinstance(node, ast.ClassDef):
            yield from foreign(node, node.name, own)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from foreign(node, kind, own | instances(node, kind))
        else:
            yield from foreign(node, kind, own)


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in PUBLIC_IN_SPITE_OF_THEIR_NAME


def is_one_of(value: ast.expr, names: set[str]) -> bool:
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "super":
        return True
    return isinstance(value, ast.Name) and value.id in names


def instances(function: ast.FunctionDef | ast.AsyncFunctionDef, kind: str) -> set[str]:
    """Names in *function* that stand for an instance of the class *kind*, by annotation or by the call that made it."""
    made = {"cls", kind}
    names = {
        item.arg
        for item in ast.walk(function.args)
        if isinstance(item, ast.arg) and item.annotation and kind in re.findall(r"\w+", ast.unparse(item.annotation))
    }
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            called = node.value.func
            if is_one_of(called, made) or (isinstance(called, ast.Attribute) and is_one_of(called.value, made)):
                names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names
