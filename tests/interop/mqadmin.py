"""Apache's mqadmin, many commands in one JVM (`java/MqAdminSession.java`)."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from tests.interop.apache import QUICK_START, java, java_environment
from tests.interop.jars import driver_classpath


class MqAdmin:
    """mqadmin of one release, ready for commands."""

    def __init__(self, home: Path, jar_set: str, *, jvm: Sequence[str] = QUICK_START) -> None:
        command = java(home, driver_classpath(jar_set), "MqAdminSession", jvm=jvm)
        self._log = (home / "console.log").open("wb")
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=java_environment(),
            cwd=home,  # some commands write files where they are
        )

    def run(self, namesrv: str, *arguments: str) -> str:
        """Return what `mqadmin ARGUMENTS -n NAMESRV` prints, on both streams."""
        self._input.write("\t".join((*arguments, "-n", namesrv)).encode() + b"\n")
        self._input.flush()
        size = self._output.readline()
        if not size:
            raise AssertionError(f"mqadmin ended at {arguments}: {Path(self._log.name).read_text()}")
        return self._output.read(int(size)).decode()

    def close(self) -> None:
        """End the JVM; it says goodbye to nobody."""
        self._process.kill()
        self._process.wait(timeout=90)
        self._input.close()
        self._output.close()
        self._log.close()

    @property
    def _input(self) -> BinaryIO:
        assert self._process.stdin is not None
        return self._process.stdin  # type: ignore[return-value]

    @property
    def _output(self) -> BinaryIO:
        assert self._process.stdout is not None
        return self._process.stdout  # type: ignore[return-value]
