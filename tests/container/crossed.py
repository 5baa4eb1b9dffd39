"""Two containers that carry each other's slaves, and their name server: processes, as an operator starts them."""

import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.interop.processes import ServerProcess, free_port
from tests.serving import SMALL_FILES

BESIDE = (-2, 1)  # the ports that a broker takes around its own
ACTING = {
    **SMALL_FILES,
    "enableSlaveActingMaster": "true",
    "enableRemoteEscape": "true",
    "slaveReadEnable": "true",
    "brokerHeartbeatInterval": 250,
    "brokerNotActiveTimeoutMillis": 3000,
    "messageDelayLevel": "1s 6s",
    "totalReplicas": 2,
}
HERE = ("--host", "127.0.0.1", "--port", "0")


def broker_file(path: Path, name: str, broker_id: int, namesrv: str, more: Mapping[str, object] = SMALL_FILES) -> Path:
    """Write the settings of a broker on free ports; its store is beside the file."""
    settings = {
        "brokerName": name,
        "brokerId": broker_id,
        "brokerRole": "SLAVE" if broker_id else "ASYNC_MASTER",
        "listenPort": free_port(beside=BESIDE),
        "storePathRootDir": path.with_suffix(""),
        "namesrvAddr": namesrv,
        "brokerIP1": "127.0.0.1",
        **more,
    }
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return path


class ContainerProcess:
    """A running container."""

    def __init__(self, home: Path, *files: Path, config: Path | None = None, options: Sequence[str] = ()) -> None:
        home.mkdir(parents=True, exist_ok=True)
        if config is None:
            config = home / "container.conf"
            config.write_text(f"brokerConfigPaths={':'.join(map(str, files))}\n")
        command = [sys.executable, "-m", "hanabi", "serve", "container", "-c", str(config), "--home", str(home), *HERE]
        command += options
        self.process = ServerProcess("container", command, home / "console.log")
        self.address = self.process.wait_for_line("ready container ").split()[-1]

    def wait_for_brokers(self, count: int) -> None:
        """Wait until so many brokers are ready."""
        self.process.wait_until(lambda: self.process.output().count("\nready broker ") >= count, "start its brokers")

    def children(self) -> list[int]:
        """Return the process ids of its brokers."""
        pid = self.process.pid
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def kill_all(self) -> None:
        """End the container and its brokers at once, as the loss of the machine does."""
        pids = self.children() if Path(f"/proc/{self.process.pid}/task").exists() else []
        os.kill(self.process.pid, signal.SIGSTOP)  # so that it starts none again
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        self.process.kill()


@contextmanager
def running_namesrv(home: Path) -> Iterator[str]:
    """Yield the address of a name server that shows acting masters."""
    home.mkdir(parents=True, exist_ok=True)
    config = home / "namesrv.conf"
    config.write_text("supportActingMaster=true\nnotifyMinBrokerIdChanged=true\nscanNotActiveBrokerInterval=500\n")
    command = [sys.executable, "-m", "hanabi", "serve", "namesrv", "-c", str(config), "--home", str(home), *HERE]
    process = ServerProcess("name server", command, home / "console.log")
    try:
        yield process.wait_for_line("ready namesrv ").split()[-1]
    finally:
        process.kill()


@contextmanager
def running_container(
    home: Path, *files: Path, config: Path | None = None, options: Sequence[str] = ()
) -> Iterator[ContainerProcess]:
    """Yield a container; ended in any case, with its brokers."""
    with ExitStack() as stack:
        container = ContainerProcess(home, *files, config=config, options=options)
        stack.callback(container.process.kill)  # its brokers end at the end of their stdin
        yield container
