"""Protection of the port for operators: listed addresses, or a token that a reader shows. Pure.

    Authorization: Bearer TOKEN

Without either each peer may read. The page /health is open to each: it says only that the process answers.
"""

import hmac
import os
from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Final, NamedTuple

from hanabi.access.address import source_address
from hanabi.access.secret import read_secret_file
from hanabi.errors import ConfigError

TOKEN_VARIABLE: Final = "HANABI_METRICS_TOKEN"  # noqa: S105 - the name of a variable
OPEN_PAGES: Final = frozenset({"/health"})
_TOKEN_CHARACTERS_MIN: Final = 16


class Protection(NamedTuple):
    """Peers that may read the pages. The token is never shown."""

    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    token: bytes = b""

    @property
    def is_on(self) -> bool:
        """Return whether there is any."""
        return bool(self.networks or self.token)

    def allows(self, host: str, path: str, head: bytes) -> bool:
        """Return whether the peer *host* may read *path*, with the request *head*."""
        if not self.is_on or path in OPEN_PAGES:
            return True
        address = source_address(host)
        if address is not None and any(address in network for network in self.networks):
            return True
        return bool(self.token) and hmac.compare_digest(_bearer(head), self.token)

    def __repr__(self) -> str:
        return f"Protection({', '.join(map(str, self.networks))})"


OPEN: Final = Protection()


def read_protection(
    allowed: str | None, token_file: Path | None, environment: Mapping[str, str] = os.environ
) -> Protection:
    """Return the protection of these options; the token may be in the environment. Raise ConfigError."""
    token = environment.get(TOKEN_VARIABLE, "")
    if token_file is not None:
        token = read_secret_file(token_file, "--metrics-token-file")
    if (token or token_file is not None) and len(token) < _TOKEN_CHARACTERS_MIN:
        raise ConfigError(f"the token of the metrics port has fewer than {_TOKEN_CHARACTERS_MIN} characters")
    parts = [part.strip() for part in (allowed or "").split(",") if part.strip()]
    return Protection(tuple(map(_network, parts)), token.encode())


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text, strict=False)
    except ValueError as error:
        raise ConfigError(f"--metrics-allow: {text!r} is neither an address nor a network: {error}") from error


def _bearer(head: bytes) -> bytes:
    """Return the token that a request shows; empty if there is none."""
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"authorization":
            kind, _, token = value.strip().partition(b" ")
            return token.strip() if kind.lower() == b"bearer" else b""
    return b""
