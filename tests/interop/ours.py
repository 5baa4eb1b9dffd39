"""Starts our own name server as an operator would: the command line, in a process of its own."""

import sys
from pathlib import Path

from tests.interop.processes import ServerProcess


class OurNameServer:
    """`hanabi serve namesrv` on a free port; its address is known once it is ready."""

    def __init__(self, home: Path, *options: str) -> None:
        self.home = home
        self.address = ""
        command = [sys.executable, "-m", "hanabi", "serve", "namesrv", "--home", str(home), "--host", "127.0.0.1"]
        self.process = ServerProcess(
            "our name server", [*command, "--port", "0", *options], home.parent / f"{home.name}.log"
        )

    def wait_ready(self) -> None:
        self.address = self.process.wait_for_line("ready namesrv ").split()[-1]
