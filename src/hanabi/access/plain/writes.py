"""Protection of writes to servers whose reads are open: name servers and controllers. Off by default.

    writeProtectionEnable        true: a write needs one of the following
    writeAllowedPeers            addresses and networks of brokers and operators: 10.1.0.0/16, 192.0.2.7
    writeAllowedCertificates     names in client certificates, which TLS has verified; * is each of them
    aclFolder                    the folder of plain_acl.yml: a signature by an account with admin: true

Brokers of 4.9 cannot sign; those of 5.x and ours sign with innerClientAuthenticationCredentials, mqadmin with its
tools.yml.
"""

import asyncio
import ipaddress
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hanabi.access.address import Address
from hanabi.access.guard import Source, Watch, guarded
from hanabi.access.guesses import Guesses
from hanabi.access.plain.decision import identify
from hanabi.access.plain.files import PlainFiles, keep_refreshing
from hanabi.access.refusals import Refusals
from hanabi.errors import ConfigError, NoPermission
from hanabi.remoting.connection.dispatch import Handler
from hanabi.wire.codes import request_name
from hanabi.wire.command import Command

GUESS_SECONDS = 1.0  # the longest delay of an answer to a wrong signature
KEYS = ("writeAllowedPeers", "writeAllowedCertificates", "aclFolder")


class WriteGate:
    """Gate of one server. *is_read* tells the codes that each client may use."""

    def __init__(
        self,
        is_read: Callable[[int], bool],
        *,
        peers: str,
        certificates: str,
        acl_folder: str,
        now_ms: Callable[[], int],
    ) -> None:
        """Raise ConfigError if an address is wrong, or nothing is listed: the server would have no brokers."""
        if not (peers or certificates or acl_folder):
            raise ConfigError(f"writeProtectionEnable=true needs one of {', '.join(KEYS)}: each write would be refused")
        self._is_read = is_read
        self._networks = [_network(part) for part in _parts(peers)]
        self._certificates = frozenset(_parts(certificates))
        self.files = PlainFiles(Path(acl_folder).absolute(), now_ms=now_ms) if acl_folder else None

    def check(self, _header: Any, request: Command, source: Source) -> str | None:
        """Raise NoPermission if *request* writes and nothing entitles its sender to."""
        if self._is_read(request.code) or self._is_listed(source.address) or self._is_certified(source):
            return None
        if self.files is None:
            raise NoPermission(f"{request_name(request.code)} is not allowed from {source.host}: see writeAllowedPeers")
        account = identify(self.files.rules, source.address, request.code, request.fields(), request.body)
        if account is not None and not account.is_admin:
            code = request.code
            raise NoPermission(
                f"Need admin permission for request code={code}, but accessKey={account.access_key} is not"
            )
        return account.access_key if account is not None else None

    def _is_listed(self, address: Address | None) -> bool:
        return address is not None and any(address in network for network in self._networks)

    def _is_certified(self, source: Source) -> bool:
        names = source.certificate
        return bool(names) and ("*" in self._certificates or not self._certificates.isdisjoint(names))


class WriteProtection:
    """A gate in front of the handlers of a server that runs. Its accounts are read again when they change."""

    def __init__(self, gate: WriteGate) -> None:
        self._gate = gate
        self._refreshing: asyncio.Task[None] | None = None
        self.refusals = Refusals(time.monotonic)

    async def guard(self, handlers: Mapping[int, Handler]) -> dict[int, Handler]:
        """Read the accounts and return *handlers* behind the gate; raise ConfigError if a file is wrong."""
        files = self._gate.files
        if files is not None:
            await asyncio.to_thread(files.load)
            self._refreshing = asyncio.create_task(keep_refreshing(files))
        return guarded(handlers, [self._gate], Watch(self.refusals.refused, Guesses(GUESS_SECONDS)))

    def stop(self) -> None:
        """Read no more."""
        if self._refreshing is not None:
            self._refreshing.cancel()


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.replace(";", ",").split(",") if part.strip()]


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError as error:
        raise ConfigError(f"writeAllowedPeers: {text!r} is neither an address nor a network: {error}") from error
