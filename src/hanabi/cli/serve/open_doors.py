"""Servers that other machines reach and that check no one: one warning at the start."""

import logging
from collections.abc import Iterable
from ipaddress import ip_address
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from hanabi.remoting.transport.tls import TlsConfig


logger = logging.getLogger(__name__)


class Door(NamedTuple):
    """A port of a server: where it listens, whether it checks requests, and its TLS."""

    host: str
    is_guarded: bool
    tls: "TlsConfig | None"


def warn(doors: Iterable[Door]) -> None:
    """Log the warning, if there is one."""
    if (line := warning(doors)) is not None:
        logger.warning(line)


def warning(doors: Iterable[Door]) -> str | None:
    """Return the line for an operator if none of the ports that other machines reach is protected."""
    reached = [door for door in doors if not _is_loopback(door.host)]
    if not reached or any(door.is_guarded or _needs_certificate(door.tls) for door in reached):
        return None
    hosts = ", ".join(dict.fromkeys(door.host or "all addresses" for door in reached))
    return (
        f"listening on {hosts} without protection: each machine that reaches this port may read, write and administer;"
        " set aclEnable or authenticationEnabled, writeProtectionEnable, or TLS with client certificates"
        " (docs/security.md)"
    )


def warn_metrics(host: str, is_guarded: bool) -> None:
    """Log the warning about the port for operators, if there is one."""
    if not is_guarded and not _is_loopback(host):
        logger.warning(
            "metrics listen on %s without protection: each machine that reaches this port reads names of topics and"
            " groups; set --metrics-host, --metrics-allow or --metrics-token-file",
            host or "all addresses",
        )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _needs_certificate(tls: "TlsConfig | None") -> bool:
    from hanabi.remoting.transport.tls import ClientAuth, TlsMode

    return tls is not None and (tls.server_mode, tls.server_need_client_auth) == (TlsMode.ENFORCING, ClientAuth.REQUIRE)
