"""Imports point one way: between packages, and between the rooms of a package. The tables are the architecture;
ARCHITECTURE.md draws it. Imports under `TYPE_CHECKING` count like all others."""

import ast
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SRC = Path(__file__).parent.parent / "src" / "hanabi"

MODULES_MAX = 15  # of one folder, `__init__` among them

MAY_IMPORT = {
    "_version": "",
    "errors": "",
    "clock": "",
    "deadlines": "",
    "home_lock": "errors",
    "memory": "",
    "message": "errors",
    "durable_table": "errors",
    "wire": "errors message",
    "access": "errors durable_table wire remoting",
    "remoting": "errors memory wire",
    "store": "errors clock memory durable_table message wire",
    "replication": "errors durable_table wire remoting store",
    "namesrv": "errors clock durable_table home_lock wire remoting access",
    "controller": "errors clock durable_table home_lock wire remoting access",
    "broker": "_version errors clock deadlines durable_table message wire remoting access store replication",
    "grpc": "errors clock memory message wire remoting access broker",
    "supervision": "errors",
    "container": "errors clock wire remoting access store broker supervision",  # the broker: only its settings
    "metrics": "_version errors wire remoting access store replication namesrv controller broker",
    "client": "errors clock durable_table message wire remoting",
    "admin": "errors message wire access client",
    "doctor": "errors clock message wire remoting client admin",
    "bench": "errors clock message wire store client aio admin",  # the store: it measures a disk with ours
    # `hanabi serve` starts the servers and `hanabi store` looks into files, so the command line knows them too.
    "cli": (
        "_version errors durable_table message wire remoting store namesrv controller broker grpc metrics access "
        "client admin doctor bench container dashboard spark supervision"
    ),
    # The broker: only its SQL92 evaluator, which is pure.
    "dashboard": "errors clock message wire remoting broker client codecs admin doctor",
    "spark": "errors clock message wire store client",  # the store: its reader looks into the files
    "aio": "client",
    "codecs": "errors message client",
    "__init__": "_version errors message client aio",
    "__main__": "cli",
}

# Rooms, and which rooms of the same package each may import. A room is a folder; a module that is named here, such as
# `store.config`, is a room by itself. Rooms of other packages are open to whom `MAY_IMPORT` opens the package.
ROOMS = {
    "wire": "",
    "wire.message": "",
    "wire.bodies": "wire",
    "wire.bodies.v5": "wire wire.bodies",
    "wire.headers": "wire",
    "wire.headers.v5": "wire wire.headers",
    "wire.registry": "wire wire.bodies wire.bodies.v5 wire.headers wire.headers.v5",
    "access": "",
    "access.plain": "access",
    "access.policies": "access access.plain",
    "access.quotas": "access",
    "remoting": "",
    "remoting.connection": "remoting",
    "remoting.transport": "remoting remoting.connection",
    "store._speedups": "",
    "store.config": "",
    "store.files": "",
    "store.index": "store._speedups store.files",
    "store.log": "store._speedups store.config store.files",
    "store.queues": "store.files",
    "store.indexer": "store.index store.log store.queues",
    "store.fast_path": "store.files store.index store.indexer store.log store.queues",
    "store.upkeep": "store.config store.files store.index store.indexer store.log store.queues",
    "store.inspection": "store.config store.files store.index store.queues store.upkeep",
    "store.read": "store.config store.fast_path store.index store.log store.queues",
    "store": (
        "store.config store.fast_path store.files store.index store.indexer store.log store.queues store.read "
        "store.upkeep"
    ),
    "store.inspection.verify": "store.inspection store.queues store.upkeep",
    "replication.rules": "",
    "replication": "replication.rules",
    "replication.autoswitch": "replication replication.rules",
    "controller.rules": "",
    "controller.storage": "controller.rules",
    "controller": "controller.rules controller.storage",
    "broker.filters.sql": "",
    "broker.ignored_keys": "",
    "broker.stats": "",
    "broker.replica.roles": "",
    "broker.config": "broker.ignored_keys broker.replica.roles",
    "broker.settings": "broker.config broker.ignored_keys broker.replica.roles",
    "broker.tables": "broker.settings",
    "broker.delay": "broker.settings broker.tables",
    "broker.filters": "broker.filters.sql broker.settings broker.tables",
    "broker.transactions": "broker.settings broker.tables",
    "broker.send": "broker.config broker.delay broker.settings broker.stats broker.tables",
    "broker.clients": "broker.send broker.settings",
    "broker.offsets": "broker.clients broker.tables",
    "broker.pull": "broker.clients broker.filters broker.offsets broker.settings broker.stats broker.tables",
    "broker.pop": "broker.filters broker.offsets broker.send broker.settings broker.tables",
    "broker.fast_path": "broker.filters broker.pull broker.send",
    "broker.handlers": (
        "broker.clients broker.fast_path broker.filters broker.filters.sql broker.offsets broker.pull "
        "broker.send broker.settings broker.stats broker.tables broker.transactions"
    ),
    "broker.handlers.pop": (
        "broker.clients broker.filters broker.pop broker.pull broker.settings broker.stats broker.tables"
    ),
    "broker.handlers.admin.support": "broker.clients broker.handlers broker.offsets broker.settings",
    "broker.handlers.admin": (
        "broker.clients broker.filters broker.handlers broker.handlers.admin.support broker.ignored_keys "
        "broker.offsets broker.settings broker.stats broker.tables"
    ),
    "broker.replica": "broker.delay broker.offsets broker.replica.roles broker.settings broker.tables",
    "broker.background": "",
    "broker.registration": "broker.replica broker.settings broker.tables",
    "broker.parts": (
        "broker.clients broker.delay broker.filters broker.handlers broker.offsets broker.pop broker.pull "
        "broker.replica broker.send broker.settings broker.stats broker.tables broker.transactions"
    ),
    "broker.acting": (
        "broker.background broker.delay broker.offsets broker.parts broker.registration broker.replica "
        "broker.replica.roles broker.settings"
    ),
    "broker": (
        "broker.acting broker.background broker.parts broker.registration "
        "broker.clients broker.config broker.delay broker.fast_path broker.filters broker.handlers "
        "broker.handlers.admin broker.handlers.admin.support broker.handlers.pop broker.offsets broker.pop "
        "broker.pull broker.replica "
        "broker.replica.roles broker.send broker.settings broker.stats broker.tables broker.transactions"
    ),
    "grpc.http2": "",
    "grpc.proto": "",
    "grpc.rules": "grpc.proto",
    "grpc.backend": "grpc.rules",
    "grpc.calls.support": "grpc.backend grpc.proto grpc.rules",
    "grpc.calls": "grpc.backend grpc.calls.support grpc.proto grpc.rules",
    "grpc.serving": "grpc.backend grpc.calls grpc.calls.support grpc.http2 grpc.proto grpc.rules",
    "client": "",
    "client.cluster": "client",
    "client.observe": "client",
    "client.producer.routing": "client",
    "client.consumer": "client client.cluster",
    "client.consumer.group": "client client.cluster",
    "client.consumer.offsets": "client client.cluster client.consumer",
    "client.consumer.config": "client client.consumer client.consumer.group client.consumer.offsets",
    "client.options": "client client.consumer.group client.consumer.offsets",
    "client.consumer.listening": "client client.cluster client.consumer client.consumer.config",
    "client.consumer.pull": (
        "client client.cluster client.consumer client.consumer.config client.consumer.group "
        "client.consumer.listening client.consumer.offsets client.observe client.options client.producer"
    ),
    "client.consumer.push": (
        "client client.cluster client.consumer client.consumer.config client.consumer.group "
        "client.consumer.listening client.consumer.offsets client.consumer.simple client.observe client.options "
        "client.producer"
    ),
    "client.consumer.simple": (
        "client client.cluster client.consumer client.consumer.config client.consumer.pull client.options"
    ),
    "client.deduplicate": "client.consumer.listening",
    "client.producer": (
        "client client.cluster client.consumer.listening client.observe client.options client.producer.routing"
    ),
    "client.blocking": (
        "client client.consumer client.consumer.config client.consumer.listening client.consumer.pull "
        "client.consumer.push client.consumer.simple client.options client.producer client.producer.routing"
    ),
    "dashboard.config": "",
    "dashboard.render": "",
    "dashboard.cluster": "",
    "dashboard.jobs": "",
    "dashboard.history": "dashboard.cluster",
    "dashboard.alerts": "dashboard.history",
    "dashboard.security": "dashboard.config",
    "dashboard.bodies": "dashboard.security",
    "dashboard.parts": (
        "dashboard.alerts dashboard.bodies dashboard.cluster dashboard.config dashboard.history dashboard.jobs "
        "dashboard.render dashboard.security"
    ),
    "dashboard.web": "dashboard.parts dashboard.render dashboard.security",
    "dashboard.pages": (
        "dashboard.alerts dashboard.bodies dashboard.cluster dashboard.history dashboard.jobs dashboard.parts "
        "dashboard.render dashboard.security dashboard.web"
    ),
    "dashboard.pages.operate": "dashboard.cluster dashboard.jobs dashboard.security dashboard.web",
    "dashboard": (
        "dashboard.alerts dashboard.bodies dashboard.cluster dashboard.config dashboard.history dashboard.jobs "
        "dashboard.pages dashboard.pages.operate dashboard.parts dashboard.render dashboard.security dashboard.web"
    ),
    "cli.logs": "",
    "cli.shared": "cli.logs",
    "cli.admin": "cli.shared",
    "cli.bench": "cli.logs cli.shared",
    "cli.messages": "cli.logs cli.shared",
    "cli.pipeline": "cli.shared",
    "cli.serve": "cli.logs cli.shared",
    "cli.store": "cli.logs cli.shared",
    "cli.cluster": "cli.logs cli.serve cli.shared",
    "cli": "cli.admin cli.bench cli.cluster cli.messages cli.pipeline cli.serve cli.shared cli.store",
    "spark.decode": "",
    "spark.shared": "spark.decode",
    "spark.broker": "spark.decode spark.shared",
    "spark.store": "spark.decode spark.shared",
    "spark.sink": "spark.broker spark.shared",
    "spark.stream": "spark.broker spark.shared spark.store",
    "spark": "spark.broker spark.shared spark.sink spark.store spark.stream",
    "spark.pipelines": "spark spark.broker spark.shared spark.store",
    "spark.pipelines.support": "spark.broker spark.pipelines",
    "spark.pipelines.archive": "spark.broker spark.pipelines spark.pipelines.support spark.shared spark.store",
    "spark.pipelines.audit": "spark.decode spark.pipelines spark.pipelines.support spark.shared spark.store",
    "spark.pipelines.orders": "spark.broker spark.pipelines spark.pipelines.support spark.shared",
    "spark.pipelines.trace": "spark.pipelines spark.pipelines.support",
    "spark.pipelines.traffic": "spark.broker spark.pipelines spark.pipelines.support",
    "spark.pipelines.archive_read": "spark.pipelines.archive spark.shared",
    "spark.pipelines.declarative": "spark.broker spark.pipelines.traffic spark.store",
    "spark.pipelines.replay": (
        "spark.broker spark.pipelines spark.pipelines.archive_read spark.pipelines.support spark.shared spark.sink"
    ),
    "spark.pipelines.dead_letters": (
        "spark.pipelines spark.pipelines.archive spark.pipelines.replay spark.pipelines.support"
    ),
}

# The protocol is bytes in, values out: what waits, reads a clock, or writes a log has no place in it.
FORBIDDEN_IN_WIRE = {"asyncio", "socket", "selectors", "ssl", "threading", "time", "datetime", "logging", "uvloop"}

MODULES = sorted(SRC.rglob("*.py"))
PACKAGES_WITH_ROOMS = {room.split(".")[0] for room in ROOMS}


@cache
def imported_names(path: Path) -> set[str]:
    """Return every module that *path* imports, with dots."""
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


def room_of(path: Path) -> str:
    """`store.log` for store/log/walk.py, and the module itself if that is a room."""
    dotted = ".".join(path.relative_to(SRC).with_suffix("").parts)
    return dotted if dotted in ROOMS else dotted.rpartition(".")[0]


def imported_rooms(path: Path) -> set[str]:
    """Return the other rooms of the same package from which *path* imports."""
    rooms = set()
    for name in imported_names(path):
        file = module_file(name)
        if file is not None and file.is_relative_to(SRC / part_of(path)):
            rooms.add(room_of(file))
    return rooms - {room_of(path)}


def module_file(name: str) -> Path | None:
    """Return the file of the module *name*; none for a package or for what is no module."""
    base = SRC.parent.joinpath(*name.split("."))
    return next((file for file in (base.with_suffix(".py"), base.with_suffix(".pyx")) if file.is_file()), None)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SRC)))
def test_imports_point_down(path: Path) -> None:
    part = part_of(path)
    if part == "testing":  # may use everything; nothing but tests uses it
        return
    allowed = {*MAY_IMPORT[part].split(), part}
    assert imported_parts(path) <= allowed, f"{path.relative_to(SRC)} imports {imported_parts(path) - allowed}"


def test_rooms_import_only_the_rooms_that_the_table_names() -> None:
    wrong = []
    for path in MODULES:
        if part_of(path) in PACKAGES_WITH_ROOMS:
            allowed = {*ROOMS.get(room_of(path), "").split()}
            wrong += [f"{path.relative_to(SRC)} imports {room}" for room in imported_rooms(path) - allowed]
    assert not wrong


def test_every_folder_of_a_package_with_rooms_is_in_the_table() -> None:
    files = [path for path in (*MODULES, *SRC.rglob("*.pyx")) if path.name != "__init__.py"]
    rooms = {room_of(path) for path in files if part_of(path) in PACKAGES_WITH_ROOMS}
    assert rooms == set(ROOMS)


def test_rooms_form_no_cycle() -> None:
    graph = {room: others.split() for room, others in ROOMS.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" <- ".join(error.args[1]))


def test_no_folder_has_more_modules_than_a_reader_can_take_in() -> None:
    for folder in [SRC, *(path for path in SRC.rglob("*") if path.is_dir())]:
        modules = [path.name for path in folder.iterdir() if path.suffix in (".py", ".pyx")]
        assert len(modules) <= MODULES_MAX, f"{folder.relative_to(SRC.parent)}: {len(modules)} modules"


@pytest.mark.parametrize("path", sorted((SRC / "wire").rglob("*.py")), ids=lambda path: path.name)
def test_the_wire_knows_no_socket_no_clock_and_no_log(path: Path) -> None:
    roots = {name.split(".")[0] for name in imported_names(path)}
    assert not roots & FORBIDDEN_IN_WIRE


def test_nothing_imports_a_package_that_is_only_an_extra_at_module_level() -> None:
    core = {"hanabi", "msgspec", "rich", "typer", "uvloop", "yaml", *sys.stdlib_module_names}
    extras_by_part = {
        "spark": {"pyspark", "py4j", "pyarrow", "numpy"},
        "dashboard": {"starlette", "uvicorn", "jinja2"},
        "grpc": {"google"},
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
