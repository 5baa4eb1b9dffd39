"""Opening of one outgoing connection: the addresses of a host are tried in turn.

Names are resolved here and not by `create_connection`: uvloop's leaves the lookup behind when it is cancelled, and the
failure of that appears in the log as an error that no code has handled. An address in figures needs no lookup, and so
no thread.
"""

import asyncio

# A lookup would import these two when it is first made. A process that forks at that moment leaves its child with the
# lock of a module that no thread will release.
import concurrent.futures.thread  # noqa: F401
import encodings.idna  # noqa: F401
import socket
import ssl
from collections.abc import Callable
from typing import TypeVar

P = TypeVar("P", bound=asyncio.BaseProtocol)


async def open_connection(new_protocol: Callable[[], P], host: str, port: int, tls: ssl.SSLContext | None) -> P:
    """Connect to the first address of *host* that accepts; raise the OSError of the first one if none does."""
    loop = asyncio.get_running_loop()
    failure: OSError | None = None
    for address in [host] if _is_in_figures(host) else await _addresses_of(host, port):
        try:
            _, protocol = await loop.create_connection(
                new_protocol, address, port, ssl=tls, server_hostname=host if tls is not None else None
            )
        except OSError as error:
            failure = failure or error
        else:
            return protocol
    raise failure or OSError(f"{host} has no address")


def _is_in_figures(host: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except (OSError, ValueError):
            continue
        return True
    return False


async def _addresses_of(host: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]
