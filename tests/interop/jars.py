"""Apache RocketMQ's jars, clients from npm and one in Rust, kept in `.interop/`: only the first run needs the network.

Each folder of `java/` with a pom.xml is one set of jars; our own drivers beside them are compiled against a set.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

JAVA = Path(__file__).parent / "java"
CACHE = Path(__file__).parent.parent.parent / ".interop"
DOWNLOAD_TIMEOUT_S = 600
BUILD_TIMEOUT_S = 3_600  # 400 crates, on a machine with much else to do

SERVERS_4 = "servers-4"
ADMIN_4 = "admin-4"
ALL_5 = "all-5"
PROXY_5 = "proxy-5"
CONTROLLER_5 = "controller-5"
PYTHON_CLIENT = "5.1.2"  # rocketmq-python-client


class JavaUnavailable(Exception):
    """A program (Java, Maven, Node) or what it fetches is missing here; the message says which."""


def versions(jar_set: str) -> str:
    """Return which release of RocketMQ *jar_set* is, as its pom.xml says."""
    text = (JAVA / jar_set / "pom.xml").read_text()
    return text.partition("<rocketmq.version>")[2].partition("</rocketmq.version>")[0]


@cache
def classpath(jar_set: str) -> str:
    """Return the class path of a jar set, downloaded when it is not in the cache."""
    _need("java")
    pom = JAVA / jar_set / "pom.xml"
    folder = CACHE / f"{jar_set}-{_digest(pom)}"
    if not folder.exists():
        _into(folder, [_need("mvn"), "-B", "-q", "-Dstyle.color=never", "-f", str(pom), "dependency:copy-dependencies",
                       "-DincludeScope=runtime", "-DoutputDirectory={}"])  # fmt: skip
    return f"{folder}/*"


@cache
def driver_classpath(jar_set: str) -> str:
    """Return the class path of a jar set and of our drivers, compiled against it."""
    jars = classpath(jar_set)
    sources = sorted([*JAVA.glob("*.java"), *JAVA.glob("clients/*.java")])
    folder = CACHE / f"drivers-{jar_set}-{_digest(*sources, JAVA / jar_set / 'pom.xml')}"
    if not folder.exists():
        _into(folder, [_need("javac"), "-nowarn", "-cp", jars, "-d", "{}", *map(str, sources)])
    return f"{folder}:{jars}"


@cache
def node_modules() -> Path:
    """Return the Node client, from npm."""
    _need("node")
    wanted = Path(__file__).parent / "node" / "package.json"
    folder = CACHE / f"node-{_digest(wanted)}"
    if not folder.exists():
        command = [_need("npm"), "install", "--prefix", "{}", "--no-audit", "--no-fund", "--no-save", "--silent"]
        names = [f"{name}@{version}" for name, version in json.loads(wanted.read_text())["dependencies"].items()]
        _into(folder, [*command, *names])
    return folder / "node_modules"


@cache
def rust_peer() -> Path:
    """Return the program with rocketmq-rust's client, built by cargo: minutes, so only where HANABI_SLOW_TESTS asks for
    it."""
    folder = Path(__file__).parent / "rust"
    program = CACHE / f"rust-{_digest(folder / 'Cargo.toml', folder / 'src' / 'main.rs')}"
    if not program.exists():
        if not os.environ.get("HANABI_SLOW_TESTS"):
            raise JavaUnavailable("HANABI_SLOW_TESTS is not set: building rocketmq-rust's client takes minutes")
        command = [_need("cargo"), "install", "--debug", "--path", str(folder), "--root", "{}"]
        _into(program, [*command, "--target-dir", str(CACHE / "rust-target")], seconds=BUILD_TIMEOUT_S)
    return program / "bin" / "rust-peer"


def _digest(*paths: Path) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()[:12]


def _need(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        raise JavaUnavailable(f"{program} is not installed")
    return found


def _into(folder: Path, command: list[str], *, seconds: int = DOWNLOAD_TIMEOUT_S) -> None:
    """Run *command* on a new folder in place of its {}, and give the folder its name only when all is in it."""
    CACHE.mkdir(exist_ok=True)
    partial = Path(tempfile.mkdtemp(dir=CACHE, prefix="partial-"))
    try:
        _run([part.replace("{}", str(partial)) for part in command], seconds)
        try:
            partial.rename(folder)
        except OSError:
            if not folder.exists():  # else another run was quicker, and its result is as good
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _run(command: list[str], seconds: int) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired as error:
        raise JavaUnavailable(f"{Path(command[0]).name} took more than {seconds} s") from error
    if done.returncode:
        complaint = next((line for line in done.stdout.splitlines() if "ERROR" in line), done.stderr.strip()[:500])
        raise JavaUnavailable(f"{Path(command[0]).name} failed: {complaint}")


def required() -> bool:
    """CI must run these tests: there, what is missing is a failure and not a reason to skip."""
    return os.environ.get("CI", "").lower() == "true"


@cache
def grpc_driver_classpath() -> str:
    """Return the class path of the 5.x client and of our driver for it."""
    jars = classpath("grpc-client")
    source = JAVA / "grpc-drivers" / "GrpcJourney.java"
    folder = CACHE / f"grpc-drivers-{_digest(source, JAVA / 'grpc-client' / 'pom.xml')}"
    if not folder.exists():
        _into(folder, [_need("javac"), "-nowarn", "-cp", jars, "-d", "{}", str(source)])
    return f"{folder}:{jars}"


@cache
def grpc_python() -> Path:
    """Return the folder with the 5.x client for Python. It is not in our environment: its messages have the names of
    ours, and it pins packages."""
    folder = CACHE / f"grpc-python-{PYTHON_CLIENT}-{sys.version_info[0]}.{sys.version_info[1]}"
    if not folder.exists():
        command = [sys.executable, "-m", "pip", "install", "-q", "--target", "{}"]
        _into(folder, [*command, f"rocketmq-python-client=={PYTHON_CLIENT}"])
    return folder


@cache
def grpc_node_modules() -> Path:
    """Return the 5.x client for Node, from npm."""
    _need("node")
    wanted = Path(__file__).parent / "grpc" / "package.json"
    folder = CACHE / f"grpc-node-{_digest(wanted)}"
    if not folder.exists():
        command = [_need("npm"), "install", "--prefix", "{}", "--no-audit", "--no-fund", "--no-save", "--silent"]
        names = [f"{name}@{version}" for name, version in json.loads(wanted.read_text())["dependencies"].items()]
        _into(folder, [*command, *names])
    return folder / "node_modules"


@cache
def grpc_go() -> Path:
    """Return the program with the 5.x client for Go."""
    folder = Path(__file__).parent / "grpc" / "go"
    program = CACHE / f"grpc-go-{_digest(folder / 'go.mod', folder / 'journey.go')}"
    if not program.exists():
        _into(program, [_need("go"), "build", "-C", str(folder), "-o", "{}/journey", "."])
    return program / "journey"
