"""Runs the blocks of a document as a reader would: in an empty directory, with a cluster at hand."""

import json
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import pytest

from hanabi.wire.java_properties import decode_properties
from tests.documents.blocks import Block, Command, commands_of, missing_lines, missing_pieces
from tests.interop.processes import ServerProcess
from tests.serving import Serving

ROOT = Path(__file__).parents[2]
SESSION = Path(__file__).with_name("python_session.py")
NOTEBOOK = Path(__file__).with_name("notebook_session.py")
SECONDS = 180.0  # a machine that does other things starts a JVM in a minute
LINKED = ("conf", "examples", "deploy")
SHELL = ["bash", "-eu", "-o", "pipefail", "-c"]
LANGUAGES = {"text", "bash", "console", "python", "json", "yaml", "toml", "properties"}
SERVE = re.compile(r"\bhanabi serve( namesrv| broker| container)?(?=\s|$)")


class Reader:
    """A reader with a directory, a shell and a Python of his own."""

    def __init__(self, cluster: Serving, home: Path, program: Path) -> None:
        """*program* runs the Python blocks."""
        self._program = program
        self._namesrv, self._broker = cluster.namesrv, cluster.broker
        self._servers: list[ServerProcess] = []
        self.work = home / "work"
        (self.work / "data" / "rocketmq").mkdir(parents=True)
        (self.work / "data" / "rocketmq" / "store").symlink_to(home / "data")
        for name in LINKED:
            if (ROOT / name).exists():
                (self.work / name).symlink_to(ROOT / name)
        self._log = home / "python.log"
        self._session: subprocess.Popen[bytes] | None = None
        self.environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.work),
            "NAMESRV_ADDR": cluster.namesrv,
            "ROCKETMQ_OFFSETS_DIR": str(home / "offsets"),
            "PYSPARK_PYTHON": sys.executable,
            "COLUMNS": "200",
            "PYTEST_ADDOPTS": "",  # those of our own run
        }

    def run(self, block: Block) -> None:
        """Do what the block says; an AssertionError says what went wrong."""
        text = self._here(block.text)
        if "file" in block.marks:
            file = self.work / block.marks["file"]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        elif "stops" in block.marks or "kills" in block.marks:
            self._end(block)
        elif block.language == "bash":
            self._shell(block, Command(text, ()))
        elif block.language == "console":
            for command in commands_of(text):
                self._shell(block, command)
        elif block.language == "python" and "until" in block.marks:
            self._until(block, [sys.executable, "-c", text], ())
        elif block.language == "python":
            self._python(block, text)
        elif block.language != "text":
            _parse(block.language, text)

    def _here(self, text: str) -> str:
        """Return the same with the addresses and paths of this machine."""
        text = text.replace("127.0.0.1:9876", self._namesrv).replace("127.0.0.1:10911", self._broker)
        text = re.sub(r"(?<![\w/.])/data/", f"{self.work}/data/", text)
        return SERVE.sub(_on_free_ports, text)

    def _shell(self, block: Block, command: Command) -> None:
        if "until" in block.marks:
            self._until(block, [*SHELL, f"exec {command.text}"], command.prints)
            return
        if "stays" in block.marks:
            self._serve(block, command)
            return
        done = subprocess.run(
            [*SHELL, command.text],
            cwd=self.work,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        told = f"{block.place}: {command.text}\n{done.stdout}\n{done.stderr}"
        assert done.returncode == int(block.marks.get("exit", 0)), told
        assert not missing_lines(command.prints, f"{done.stdout}\n{done.stderr}"), told

    def _serve(self, block: Block, command: Command) -> None:
        """Start a server that later blocks talk to."""
        words = [*SHELL, f"cd {shlex.quote(str(self.work))}; exec {command.text}"]
        log = self.work.parent / f"server-{len(self._servers)}.log"
        server = ServerProcess(command.text, words, log, self.environment)
        self._servers.append(server)
        server.wait_until(lambda: block.marks["stays"] in server.output(), f"print {block.marks['stays']!r}")
        if found := re.search(r"^ready namesrv (\S+)$", server.output(), re.MULTILINE):
            self._namesrv = self.environment["NAMESRV_ADDR"] = found[1]
        if found := re.search(r"^ready broker \S+ (\S+)$", server.output(), re.MULTILINE):
            self._broker = found[1]
        assert not missing_lines(command.prints, server.output()), f"{block.place}:\n{server.output()}"

    def _end(self, block: Block) -> None:
        """End the newest server whose command has the text of the mark."""
        text = block.marks.get("stops") or block.marks["kills"]
        server = next(server for server in reversed(self._servers) if text in server.name)
        if "kills" in block.marks:
            server.kill()
        else:
            server.stop()

    def _until(self, block: Block, command: list[str], prints: tuple[str, ...]) -> None:
        """Run until it has printed what it shall, then end it as Ctrl-C does."""
        log = self.work.parent / "until.log"
        with (
            log.open("wb") as out,
            subprocess.Popen(
                command, cwd=self.work, env={**self.environment, "PYTHONUNBUFFERED": "1"}, stdout=out, stderr=out
            ) as process,
        ):
            deadline = time.monotonic() + SECONDS
            while block.marks["until"] not in log.read_text(errors="replace"):
                ended = process.poll() is not None or time.monotonic() > deadline
                if ended:
                    process.kill()
                    raise AssertionError(f"{block.place} did not print {block.marks['until']!r}:\n{log.read_text()}")
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            code = process.wait(SECONDS)
        printed = log.read_text(errors="replace")
        assert code == int(block.marks.get("exit", 0)), f"{block.place} ended with {code}:\n{printed}"
        assert not missing_pieces(prints, printed), f"{block.place}:\n{printed}"

    def _python(self, block: Block, text: str) -> None:
        if self._session is None:
            with self._log.open("wb") as log:
                self._session = subprocess.Popen(
                    [sys.executable, self._program],
                    cwd=self.work,
                    env=self.environment,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                )
        session = self._session
        assert session.stdin is not None
        assert session.stdout is not None
        session.stdin.write(json.dumps({"place": block.place, "text": text}).encode() + b"\n")
        session.stdin.flush()
        ready, _, _ = select.select([session.stdout], [], [], SECONDS)
        answer = session.stdout.readline() if ready else b"it takes too long"
        assert answer == b"done\n", f"{block.place}: {answer.decode()}\n{self._log.read_text(errors='replace')}"

    def leave(self) -> None:
        """End what still runs."""
        for server in self._servers:
            server.kill()
        session, self._session = self._session, None
        if session is None:
            return
        assert session.stdin is not None
        session.stdin.close()
        try:
            session.wait(120)
        except subprocess.TimeoutExpired:
            session.kill()
            session.wait(120)
        finally:
            if session.stdout is not None:
                session.stdout.close()


@contextmanager
def reading(cluster: Serving, home: Path, *, in_notebook: bool = False) -> Iterator[Reader]:
    reader = Reader(cluster, home, NOTEBOOK if in_notebook else SESSION)
    try:
        yield reader
    finally:
        reader.leave()


def needs_spark(blocks: list[Block]) -> bool:
    return any(block.language == "python" and re.search(r"\bspark\.|pyspark", block.text) for block in blocks)


def skip_without_spark() -> None:
    pytest.importorskip("pyspark")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java, and there is none here")


def _on_free_ports(found: "re.Match[str]") -> str:
    return f"{found[0]} --port 0" if found[1] else f"{found[0]} --namesrv-port 0 --broker-port 0"


def _parse(language: str, text: str) -> None:
    """Settings and data must at least be what they say they are."""
    if language == "json":
        json.loads(text)
    elif language == "yaml":
        list(import_module("yaml").safe_load_all(text))  # Spark brings it along
    elif language == "toml":
        tomllib.loads(text)
    elif language == "properties":
        assert all("=" in line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")), (
            text
        )
        decode_properties(text.encode())
    else:
        raise AssertionError(f"nobody knows how to run {language!r}; known are {', '.join(sorted(LANGUAGES))}")
