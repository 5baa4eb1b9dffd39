"""Heartbeat and NotifyClientTermination: a client is there, or stops."""

from hanabi.grpc.backend.backend import Backend
from hanabi.grpc.calls.support.access import Doorkeeper
from hanabi.grpc.calls.support.context import CallContext
from hanabi.grpc.calls.support.names import group_name, set_status
from hanabi.grpc.calls.support.sessions import Sessions
from hanabi.grpc.proto.messages import Proto, message_class
from hanabi.wire.codes import RequestCode


class Presence:
    """Handlers of signs of life. A client without a session is served: its settings come with the next stream."""

    def __init__(self, backend: Backend, door: Doorkeeper, sessions: Sessions) -> None:
        self._backend, self._door, self._sessions = backend, door, sessions

    async def heartbeat(self, request: Proto, context: CallContext) -> Proto:
        """Renew the membership of a client."""
        session = self._sessions.find(context.client_id)
        groups = (group_name(request.group),) if request.HasField("group") and request.group.name else ()
        self._door.check(context, RequestCode.HEART_BEAT, (), groups)
        if session is not None:
            await self._sessions.tell(session)
        reply = message_class("HeartbeatResponse")()
        set_status(reply.status)
        return reply

    async def terminate(self, request: Proto, context: CallContext) -> Proto:
        """End the session of a client that stops."""
        session = self._sessions.find(context.client_id)
        groups = (group_name(request.group),) if request.HasField("group") and request.group.name else ()
        self._door.check(context, RequestCode.UNREGISTER_CLIENT, (), groups)
        if session is not None and session.peer.rpartition(":")[0] == context.peer.peer.rpartition(":")[0]:
            self._sessions.close(session)
        reply = message_class("NotifyClientTerminationResponse")()
        set_status(reply.status)
        return reply
