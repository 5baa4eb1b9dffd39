"""Starts our own servers as an operator would: the command line, in a process of its own."""

import sys
from collections.abc import Mapping
from pathlib import Path

from tests.interop.probe import knows_broker
from tests.interop.processes import ServerProcess

_SERVE = (sys.executable, "-m", "hanabi", "serve")


class OurNameServer:
    """`hanabi serve namesrv` on a free port; its address is known once it is ready."""

    def __init__(self, home: Path, *options: str) -> None:
        self.home = home
        self.address = ""
        command = [*_SERVE, "namesrv", "--home", str(home), "--host", "127.0.0.1"]
        self.process = ServerProcess(
            "our name server", [*command, "--port", "0", *options], home.parent / f"{home.name}.log"
        )

    def wait_ready(self) -> None:
        self.address = self.process.wait_for_line("ready namesrv ").split()[-1]


class OurBroker:
    """`hanabi serve broker` on a free port; its address is known once it is ready. Its store is `store` in its home."""

    def __init__(
        self, home: Path, *options: str, name: str, namesrv: str | None, settings: Mapping[str, object] | None = None
    ) -> None:
        """*settings* are those of its broker.conf; without *namesrv* only those find it who know its address."""
        self.home, self.name, self.namesrv = home, name, namesrv
        self.address = ""
        home.mkdir(parents=True, exist_ok=True)
        config = home / "broker.conf"
        config.write_text(
            f"brokerName={name}\n" + "".join(f"{key}={value}\n" for key, value in (settings or {}).items())
        )
        command = [*_SERVE, "broker", "-c", str(config), "--home", str(home / "store"), "--host", "127.0.0.1"]
        registered = ["-n", namesrv] if namesrv else []
        self.process = ServerProcess(
            f"our {name}", [*command, "--port", "0", *registered, *options], home / "console.log"
        )

    def wait_ready(self) -> None:
        """Wait until it serves and its name server, if it has one, knows it."""
        self.address = self.process.wait_for_line(f"ready broker {self.name} ").split()[-1]
        if namesrv := self.namesrv:
            self.process.wait_until(lambda: knows_broker(namesrv, self.name), f"register with {namesrv}")
