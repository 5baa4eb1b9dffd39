"""`hanabi serve proxy`: the gRPC API before the brokers of a cluster, until a signal."""

import asyncio
from typing import TYPE_CHECKING

import msgspec

from hanabi.cli.serve.process import announce, stop_signal
from hanabi.cli.serve.serving import collecting
from hanabi.cli.serve.threads import start_pool
from hanabi.errors import ConfigError
from hanabi.remoting.address import format_address

if TYPE_CHECKING:
    from hanabi.remoting.transport.tls import TlsConfig


class ProxyToStart(msgspec.Struct, frozen=True, kw_only=True):
    """A proxy that is to be started."""

    host: str
    port: int
    name_servers: tuple[str, ...]
    advertised: tuple[str, int] | None
    tls: "TlsConfig | None"


async def serve_proxy(wanted: ProxyToStart) -> None:
    """Serve until a signal comes."""
    try:
        from hanabi.grpc.serving.port import ProxyPort
    except ImportError as error:
        raise ConfigError(f"a proxy needs the extra grpc: pip install 'hanabi-mq[grpc]' ({error})") from error

    stopped = stop_signal()
    start_pool(asyncio.get_running_loop())
    port = ProxyPort(wanted.name_servers, tls=wanted.tls, advertised=wanted.advertised)
    try:
        address = await port.start(wanted.host, wanted.port)
        async with collecting():
            announce(f"ready proxy {format_address(address)}")
            await stopped.wait()
    finally:
        await port.stop()
