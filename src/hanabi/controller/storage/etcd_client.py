"""Requests to etcd's JSON gateway (`/v3/kv/...`, `/v3/lease/...`), one connection a request.

A controller asks about once a second, so there is nothing to pool. HTTP/1.0 keeps the answer simple: no chunks, and its
end is the end of the connection. A member that does not answer is skipped; a change that may have arrived is sent to a
second one only if that is harmless. In etcd's JSON keys and values are base64, 64-bit numbers are strings, and zero and
false are absent.

With `etcds://` the members are reached by TLS. With a user each request carries a token, which is asked for again when
etcd does not accept it any more.
"""

import asyncio
import base64
import ssl
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from hanabi.errors import ConfigError, StateUnavailable
from hanabi.remoting.address import format_address, parse_address

SCHEME: Final = "etcd://"
TLS_SCHEME: Final = "etcds://"
SECONDS: Final = 2.0  # for one request to one endpoint
ANSWER_BYTES_MAX: Final = 64 << 20

Endpoint = tuple[str, int]


class EtcdAccess(msgspec.Struct, frozen=True, kw_only=True):
    """How etcd is reached, beside its addresses: TLS and a user."""

    tls: ssl.SSLContext | None = None
    user: str = ""
    password: str = ""


def parse_endpoints(url: str) -> list[Endpoint]:
    """Return the addresses in etcd://HOST:PORT[,HOST:PORT]; etcds:// is the same by TLS."""
    scheme = next((scheme for scheme in (SCHEME, TLS_SCHEME) if url.startswith(scheme)), None)
    if scheme is None:
        raise ConfigError(f"--state must be etcd://HOST:PORT[,HOST:PORT] or etcds://..., not {url}")
    if "@" in url:
        raise ConfigError("--state takes no user and password: set etcdUser, and etcdPasswordFile or the environment")
    try:
        return [parse_address(part) for part in url.removeprefix(scheme).rstrip("/").split(",")]
    except ValueError as error:
        raise ConfigError(f"--state {url}: {error}") from error


def encoded(text: str | bytes) -> str:
    """Return a key or a value as it travels."""
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


class EtcdClient:
    """Requests to any of several members of one etcd cluster."""

    def __init__(
        self, endpoints: Sequence[Endpoint], seconds: float = SECONDS, *, access: EtcdAccess | None = None
    ) -> None:
        self._endpoints = list(endpoints)  # in the order in which they are asked; one that failed is last
        self._seconds = seconds
        self._access = access or EtcdAccess()
        self._token = ""
        self.failures = 0  # requests that no member answered

    async def call(self, path: str, body: dict[str, Any], *, once: bool = False) -> dict[str, Any]:
        """Return etcd's answer. *once*: never ask a second member what the first may have done. Raise
        StateUnavailable if no member answers."""
        reasons: list[str] = []
        for endpoint in list(self._endpoints):
            try:
                answer = await self._authorised(endpoint, path, body)
            except _Refused as error:
                reasons.append(str(error))
                self._put_last(endpoint)
                if error.may_have_acted and once:
                    break
            else:
                return answer
        self.failures += 1
        raise StateUnavailable(
            f"etcd does not answer, or has lost its quorum: {'; '.join(reasons)}; check --state, and that most members"
            " of etcd run"
        )

    def _put_last(self, endpoint: Endpoint) -> None:
        self._endpoints.remove(endpoint)
        self._endpoints.append(endpoint)

    async def _authorised(self, endpoint: Endpoint, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Ask, with a token if there is a user. A token that etcd has forgotten is replaced once."""
        if not self._access.user:
            return await self._ask(endpoint, path, body)
        if not self._token:
            await self._log_in(endpoint)
        try:
            return await self._ask(endpoint, path, body)
        except _Refused as error:
            if not error.needs_token:
                raise
        await self._log_in(endpoint)
        return await self._ask(endpoint, path, body)

    async def _log_in(self, endpoint: Endpoint) -> None:
        self._token = ""
        login = {"name": self._access.user, "password": self._access.password}
        answer = await self._ask(endpoint, "/v3/auth/authenticate", login)
        self._token = str(answer.get("token", ""))

    async def _ask(self, endpoint: Endpoint, path: str, body: dict[str, Any]) -> dict[str, Any]:
        where, tls = format_address(endpoint), self._access.tls
        try:
            async with asyncio.timeout(self._seconds):
                reader, writer = await asyncio.open_connection(
                    *endpoint, ssl=tls, server_hostname=endpoint[0] if tls is not None else None
                )
        except (OSError, TimeoutError) as error:  # an error of TLS is an OSError, too
            raise _Refused(f"{where}: {str(error) or 'no connection in time'}", may_have_acted=False) from error
        try:
            async with asyncio.timeout(self._seconds):
                writer.write(_request(where, path, msgspec.json.encode(body), self._token))
                raw = await _read_to_end(where, reader)
        except (OSError, TimeoutError) as error:
            reason = str(error) or f"no answer in {self._seconds:g} s"
            raise _Refused(f"{where}: {reason}", may_have_acted=True) from error
        finally:
            writer.close()
        return _answer(where, raw)


async def _read_to_end(where: str, reader: asyncio.StreamReader) -> bytes:
    pieces, size = [], 0
    while piece := await reader.read(1 << 16):
        pieces.append(piece)
        size += len(piece)
        if size > ANSWER_BYTES_MAX:
            raise _Refused(f"{where}: an answer of more than {ANSWER_BYTES_MAX} bytes", may_have_acted=True)
    return b"".join(pieces)


class _Refused(Exception):
    def __init__(self, reason: str, *, may_have_acted: bool, needs_token: bool = False) -> None:
        super().__init__(reason)
        self.may_have_acted, self.needs_token = may_have_acted, needs_token


def _request(where: str, path: str, body: bytes, token: str) -> bytes:
    head = f"POST {path} HTTP/1.0\r\nHost: {where}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    if token:
        head += f"\r\nAuthorization: {token}"
    return f"{head}\r\n\r\n".encode() + body


def _answer(where: str, raw: bytes) -> dict[str, Any]:
    head, _, body = raw.partition(b"\r\n\r\n")
    status = head.split(b"\r\n", 1)[0].decode("latin-1")
    try:
        answer: dict[str, Any] = msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise _Refused(f"{where}: not an answer of etcd's gateway: {status[:80]}", may_have_acted=True) from error
    if " 200 " not in f"{status} ":
        reason = str(answer.get("error") or status)
        needs_token = "invalid auth token" in reason
        if "user name is empty" in reason:
            reason += ": this etcd needs a user, set etcdUser"
        raise _Refused(f"{where}: {reason}", may_have_acted=not needs_token, needs_token=needs_token)
    return answer
