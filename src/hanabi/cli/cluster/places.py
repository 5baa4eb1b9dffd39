"""Places of servers: the address, the ports and the directories that a form gives to each. Pure, but for free ports."""

import socket
from collections.abc import Sequence
from pathlib import PurePath
from typing import Final, Protocol

from hanabi.errors import ConfigError

AROUND: Final = (0, -2, 1)  # a broker listens on its port, two below, and one above
_TRIES: Final = 100
_PORT_MIN: Final = 1_030


class Places(Protocol):
    """Where the servers of a plan run. A host is a number from 0."""

    def address(self, host: int, server: str) -> str:
        """Return the address or name by which others reach *server*."""

    def port(self, host: int, server: str, usual: int) -> int:
        """Return its port; *usual* is the one that it has on a machine of its own."""

    def file(self, host: int, server: str) -> str:
        """Return where its configuration file is when it runs."""

    def data(self, host: int, server: str) -> str:
        """Return its directory."""


class Hosts:
    """Machines with given addresses; every server has its usual port."""

    def __init__(self, addresses: Sequence[str], config: PurePath, data: PurePath) -> None:
        self._addresses, self._config, self._data = addresses, config, data

    def address(self, host: int, server: str) -> str:
        return self._addresses[host]

    def port(self, host: int, server: str, usual: int) -> int:
        return usual

    def file(self, host: int, server: str) -> str:
        return str(self._config / f"{server}.conf")

    def data(self, host: int, server: str) -> str:
        return str(self._data / server)


class ThisMachine:
    """One machine that plays all of them: 127.0.0.1, free ports, directories below one home."""

    def __init__(self, home: PurePath, namesrv_port: int) -> None:
        self._home, self._namesrv_port = home, namesrv_port
        self._taken: set[int] = set()
        self._ports: dict[str, int] = {}

    def address(self, host: int, server: str) -> str:
        return "127.0.0.1"

    def port(self, host: int, server: str, usual: int) -> int:
        """Return a free port, the same for each question; the first name server has the one that is asked for."""
        if server not in self._ports:
            wanted = self._namesrv_port if not self._ports else 0
            self._ports[server] = wanted or self._free()
        return self._ports[server]

    def file(self, host: int, server: str) -> str:
        return str(self._home / "conf" / f"{server}.conf")

    def data(self, host: int, server: str) -> str:
        return str(self._home / server)

    def _free(self) -> int:
        for _ in range(_TRIES):
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port: int = probe.getsockname()[1]
            around = {port + distance for distance in AROUND}
            if port >= _PORT_MIN and not around & self._taken and all(map(_is_free, around - {port})):
                self._taken |= around
                return port
        raise ConfigError("no free ports on this machine: end some of its servers")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
