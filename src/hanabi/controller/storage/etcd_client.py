"""Requests to etcd's JSON gateway (`/v3/kv/...`, `/v3/lease/...`), one connection a request.

A controller asks about once a second, so there is nothing to pool. HTTP/1.0 keeps the answer simple: no chunks, and its
end is the end of the connection. A member that does not answer is skipped; a change that may have arrived is sent to a
second one only if that is harmless. In etcd's JSON keys and values are base64, 64-bit numbers are strings, and zero and
false are absent.
"""

import asyncio
import base64
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from hanabi.errors import ConfigError, StateUnavailable
from hanabi.remoting.address import format_address, parse_address

SCHEME: Final = "etcd://"
SECONDS: Final = 2.0  # for one request to one endpoint
ANSWER_BYTES_MAX: Final = 64 << 20

Endpoint = tuple[str, int]


def parse_endpoints(url: str) -> list[Endpoint]:
    """Return the addresses in etcd://HOST:PORT[,HOST:PORT]."""
    if not url.startswith(SCHEME):
        raise ConfigError(f"--state must be etcd://HOST:PORT[,HOST:PORT], not {url}")
    try:
        return [parse_address(part) for part in url.removeprefix(SCHEME).rstrip("/").split(",")]
    except ValueError as error:
        raise ConfigError(f"--state {url}: {error}") from error


def encoded(text: str | bytes) -> str:
    """Return a key or a value as it travels."""
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


class EtcdClient:
    """Requests to any of several members of one etcd cluster."""

    def __init__(self, endpoints: Sequence[Endpoint], seconds: float = SECONDS) -> None:
        self._endpoints = list(endpoints)  # in the order in which they are asked; one that failed is last
        self._seconds = seconds

    async def call(self, path: str, body: dict[str, Any], *, once: bool = False) -> dict[str, Any]:
        """Return etcd's answer. *once*: never ask a second member what the first may have done. Raise
        StateUnavailable if no member answers."""
        reasons: list[str] = []
        for endpoint in list(self._endpoints):
            try:
                answer = await self._ask(endpoint, path, body)
            except _Refused as error:
                reasons.append(str(error))
                self._put_last(endpoint)
                if error.may_have_acted and once:
                    break
            else:
                return answer
        raise StateUnavailable(f"etcd does not answer, or has lost its quorum: {'; '.join(reasons)}")

    def _put_last(self, endpoint: Endpoint) -> None:
        self._endpoints.remove(endpoint)
        self._endpoints.append(endpoint)

    async def _ask(self, endpoint: Endpoint, path: str, body: dict[str, Any]) -> dict[str, Any]:
        where = format_address(endpoint)
        try:
            async with asyncio.timeout(self._seconds):
                reader, writer = await asyncio.open_connection(*endpoint, limit=ANSWER_BYTES_MAX)
        except (OSError, TimeoutError) as error:
            raise _Refused(f"{where}: {str(error) or 'no connection in time'}", may_have_acted=False) from error
        try:
            async with asyncio.timeout(self._seconds):
                writer.write(_request(where, path, msgspec.json.encode(body)))
                raw = await reader.read(ANSWER_BYTES_MAX)
        except (OSError, TimeoutError) as error:
            reason = str(error) or f"no answer in {self._seconds:g} s"
            raise _Refused(f"{where}: {reason}", may_have_acted=True) from error
        finally:
            writer.close()
        return _answer(where, raw)


class _Refused(Exception):
    def __init__(self, reason: str, *, may_have_acted: bool) -> None:
        super().__init__(reason)
        self.may_have_acted = may_have_acted


def _request(where: str, path: str, body: bytes) -> bytes:
    head = f"POST {path} HTTP/1.0\r\nHost: {where}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return f"{head}\r\n\r\n".encode() + body


def _answer(where: str, raw: bytes) -> dict[str, Any]:
    head, _, body = raw.partition(b"\r\n\r\n")
    status = head.split(b"\r\n", 1)[0].decode("latin-1")
    try:
        answer: dict[str, Any] = msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise _Refused(f"{where}: not an answer of etcd's gateway: {status[:80]}", may_have_acted=True) from error
    if " 200 " not in f"{status} ":
        raise _Refused(f"{where}: {answer.get('error') or status}", may_have_acted=True)
    return answer
