"""Addresses that may connect to the replication port. Pure.

The wire has no authentication: any peer that may connect can read the whole log. So set this list.
"""

import ipaddress
from collections.abc import Sequence

from hanabi.errors import ConfigError

_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class AllowedPeers:
    """Networks and addresses ("10.1.0.0/16", "192.0.2.7", "::1"); without any, every peer may connect."""

    def __init__(self, networks: Sequence[_Network] = ()) -> None:
        self._networks = tuple(networks)

    @classmethod
    def parse(cls, text: str, *, key: str) -> "AllowedPeers":
        """Parse a list with commas or semicolons; raise a ConfigError that names *key* and the wrong entry."""
        parts = [part.strip() for part in text.replace(";", ",").split(",")]
        return cls([_network(part, key) for part in parts if part])

    def allows(self, host: str) -> bool:
        """Return whether a peer with this address may connect."""
        if not self._networks:
            return True
        address = ipaddress.ip_address(host.partition("%")[0])
        mapped = getattr(address, "ipv4_mapped", None)
        return any((mapped or address) in network for network in self._networks)


def _network(text: str, key: str) -> _Network:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError as error:
        raise ConfigError(f"{key}: {text!r} is neither an address nor a network: {error}") from error
