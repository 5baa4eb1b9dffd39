"""The service: a table of its methods, and the parts that they share."""

from hanabi.grpc.backend.backend import Backend
from hanabi.grpc.backend.peer import Peer
from hanabi.grpc.calls.acks import Acks
from hanabi.grpc.calls.presence import Presence
from hanabi.grpc.calls.receives import Receives
from hanabi.grpc.calls.routes import Routes
from hanabi.grpc.calls.sends import Sends
from hanabi.grpc.calls.support.access import Doorkeeper
from hanabi.grpc.calls.support.method import Form, Method
from hanabi.grpc.calls.support.renewals import Renewals
from hanabi.grpc.calls.support.sessions import Sessions
from hanabi.grpc.calls.telemetry import Telemetry
from hanabi.grpc.calls.transactions import Transactions
from hanabi.grpc.rules.handles import Handle

_SERVER = "127.0.0.1:0"  # the origin of requests that the server makes for itself


class MessagingService:
    """All methods of `apache.rocketmq.v2.MessagingService`. PullMessage, UpdateOffset, GetOffset, QueryOffset and
    SyncLiteSubscription are UNIMPLEMENTED, as in Apache's proxy of 5.3: no client calls the first four."""

    def __init__(self, backend: Backend, door: Doorkeeper, advertised: tuple[str, int] | None = None) -> None:
        self.sessions = Sessions(backend)
        self.renewals = Renewals(backend.now_ms)
        acks = Acks(backend, door, self.renewals)
        own = Peer(_SERVER, lambda: False)

        async def hide(group: str, topic: str, handle: Handle, ms: int) -> Handle:
            return await acks.hide(group, topic, handle, ms, own)

        self.renewals.hide = hide
        self.renewals.is_present = lambda client_id: self.sessions.find(client_id) is not None
        self.sessions.on_left.append(self.renewals.left)
        routes = Routes(backend, door, advertised)
        presence = Presence(backend, door, self.sessions)
        transactions = Transactions(backend, door)
        self.telemetry = Telemetry(backend, door, self.sessions)
        self.methods: dict[str, Method] = {
            method.name: method
            for method in (
                Method("QueryRoute", Form.UNARY, routes.query_route),
                Method("QueryAssignment", Form.UNARY, routes.query_assignment),
                Method("Heartbeat", Form.UNARY, presence.heartbeat),
                Method("NotifyClientTermination", Form.UNARY, presence.terminate),
                Method("SendMessage", Form.UNARY, Sends(backend, door, self.sessions).send),
                Method("EndTransaction", Form.UNARY, transactions.end),
                Method("RecallMessage", Form.UNARY, transactions.recall),
                Method("AckMessage", Form.UNARY, acks.acknowledge),
                Method("ChangeInvisibleDuration", Form.UNARY, acks.change),
                Method("ForwardMessageToDeadLetterQueue", Form.UNARY, acks.forward),
                Method("ReceiveMessage", Form.STREAM, Receives(backend, door, acks, self.renewals).receive),
                Method("Telemetry", Form.BOTH_WAYS, self.telemetry.open),
            )
        }

    def start(self) -> None:
        """Begin the work in the background."""
        self.renewals.start()

    async def stop(self) -> None:
        """End it."""
        await self.telemetry.stop()
        await self.renewals.stop()
