"""The gRPC API of a broker in this process: service, backend and port together."""

from hanabi.broker.broker import Broker
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
        door: Doorkeeper = OpenDoor() if control is None else GuardedDoor(control.gates, control.refused)
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
