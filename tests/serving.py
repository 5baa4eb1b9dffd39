"""`hanabi serve` in a process of its own, for tests of what users run against it."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.interop.processes import ServerProcess

SMALL_FILES = {
    "mappedFileSizeCommitLog": 1 << 22,
    "mappedFileSizeConsumeQueue": 20_000,
    "maxHashSlotNum": 1_000,
    "maxIndexNum": 4_000,
}
QUICK = {
    **SMALL_FILES,
    "messageDelayLevel": "1s" + 17 * " 1s",
    "transactionTimeOut": 1_000,
    "transactionCheckInterval": 500,
}


class Serving:
    """A running name server and broker. `namesrv` is what clients are given."""

    def __init__(self, process: ServerProcess) -> None:
        self.process = process
        self.namesrv = process.wait_for_line("ready namesrv ").split()[-1]
        self.broker = process.wait_for_line("ready broker ").split()[-1]


@contextmanager
def serving(home: Path, settings: Mapping[str, object] = QUICK, *, more: Sequence[str] = ()) -> Iterator[Serving]:
    """Ready; ended in any case. *settings* are those of broker.conf, *more* further options of the command."""
    home.mkdir(parents=True, exist_ok=True)
    config = home / "broker.conf"
    config.write_text("brokerName=broker-a\n" + "".join(f"{key}={value}\n" for key, value in settings.items()))
    command = [sys.executable, "-m", "hanabi", "serve", "-c", str(config), "--home", str(home / "data")]
    process = ServerProcess(
        "hanabi serve", [*command, "--namesrv-port", "0", "--broker-port", "0", *more], home / "console.log"
    )
    try:
        yield Serving(process)
    finally:
        process.kill()


def namesrv_process(home: Path, stack: ExitStack) -> str:
    """Start a name server that ends with *stack*; return its address."""
    command = [sys.executable, "-m", "hanabi", "serve", "namesrv", "--home", str(home), "--host", "127.0.0.1"]
    process = ServerProcess("name server", [*command, "--port", "0"], home / "console.log")
    stack.callback(process.kill)
    return process.wait_for_line("ready namesrv ").split()[-1]
