"""`hanabi serve controller` in a process of its own."""

import sys
from pathlib import Path

from tests.interop.processes import ServerProcess

QUICK = {"electionWaitMillis": 3000}


class ControllerProcess:
    """A controller that is ready. `start_again` uses the same home and the same port."""

    def __init__(self, home: Path, *options: str, port: int = 0, settings: dict[str, object] | None = None) -> None:
        self.home, self._options, self._settings = home, options, {**QUICK, **(settings or {})}
        self._start(port)

    def _start(self, port: int) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        config = self.home / "controller.conf"
        config.write_text("".join(f"{key}={value}\n" for key, value in self._settings.items()))
        command = [sys.executable, "-m", "hanabi", "serve", "controller", "-c", str(config)]
        where = ["--home", str(self.home / "data"), "--host", "127.0.0.1", "--port", str(port)]
        self.process = ServerProcess("controller", [*command, *where, *self._options], self.home / "console.log")
        self.address = self.process.wait_for_line("ready controller ").split()[-1]

    def start_again(self) -> None:
        """Start it where it was."""
        self._start(int(self.address.rpartition(":")[2]))
