"""The gRPC API of a broker in this process, or of a cluster: service, backend and port together."""

from collections.abc import Sequence

from hanabi.broker.broker import Broker
from hanabi.grpc.backend.cluster import ClusterBackend
from hanabi.grpc.backend.local import LocalBackend
from hanabi.grpc.calls.service import MessagingService
from hanabi.grpc.calls.support.access import Doorkeeper, GuardedDoor, OpenDoor
from hanabi.grpc.serving.limits import PortLimits
from hanabi.grpc.serving.server import GrpcServer
from hanabi.remoting.transport.tls import TlsConfig


class BrokerPort:
    """The port of one broker, which has started."""

    def __init__(
        self,
        broker: Broker,
        *,
        tls: TlsConfig | None = None,
        advertised: tuple[str, int] | None = None,
        limits: PortLimits = PortLimits(),  # noqa: B008 - frozen
    ) -> None:
        tables = broker.tables
        backend = LocalBackend(broker.open_handlers, tables.topics, tables.groups, broker.settings, broker.now_ms)
        control = broker.access_control
        door: Doorkeeper = (
            OpenDoor()
            if control is None
            else GuardedDoor(control.gates, control.refused, control.topic_at, control.guesses, control.metering)
        )
        self.service = MessagingService(backend, door, advertised)
        self.server = GrpcServer(self.service.methods, limits, tls=tls)

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen, and return the address that was bound."""
        bound = await self.server.start(host, port)
        self.service.start()
        return bound

    async def stop(self) -> None:
        """Close all connections."""
        await self.server.stop()
        await self.service.stop()


class ProxyPort:
    """The port of a proxy before the brokers that *name_servers* know. It checks no access and signs nothing: brokers
    with access control refuse its requests."""

    def __init__(
        self,
        name_servers: Sequence[str],
        *,
        tls: TlsConfig | None = None,
        advertised: tuple[str, int] | None = None,
        limits: PortLimits = PortLimits(),  # noqa: B008 - frozen
    ) -> None:
        self._backend = ClusterBackend(name_servers, tls=tls)
        self.service = MessagingService(self._backend, OpenDoor(), advertised)
        self.server = GrpcServer(self.service.methods, limits, tls=tls)

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen, and return the address that was bound."""
        bound = await self.server.start(host, port)
        self.service.start()
        return bound

    async def stop(self) -> None:
        """Close all connections."""
        await self.server.stop()
        await self.service.stop()
        await self._backend.close()
