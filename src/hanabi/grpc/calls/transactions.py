"""EndTransaction: the outcome of a transaction, and RecallMessage: a delayed message is taken back."""

from collections.abc import Awaitable

from hanabi.grpc.backend.backend import Backend, fields_of
from hanabi.grpc.calls.routes import resolved
from hanabi.grpc.calls.support.access import Doorkeeper
from hanabi.grpc.calls.support.context import CallContext
from hanabi.grpc.calls.support.names import set_status, topic_name
from hanabi.grpc.proto.messages import Proto, message_class
from hanabi.grpc.proto.numbers import Code, Resolution, TransactionSource
from hanabi.grpc.rules.faults import CallRefused, code_of
from hanabi.grpc.rules.handles import broker_of_recall, read_transaction
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.headers.send import RecallMessageHeader
from hanabi.wire.headers.transaction import EndTransactionHeader
from hanabi.wire.message import sysflag

_ENDS = {
    Resolution.COMMIT: sysflag.TRANSACTION_COMMIT,
    Resolution.ROLLBACK: sysflag.TRANSACTION_ROLLBACK,
}


class Transactions:
    """Handlers of messages that are not delivered yet."""

    def __init__(self, backend: Backend, door: Doorkeeper) -> None:
        self._backend, self._door = backend, door

    async def end(self, request: Proto, context: CallContext) -> Proto:
        """Commit or roll back."""
        context.client_id  # noqa: B018
        topic = topic_name(request.topic)
        self._door.check(context, RequestCode.SEND_MESSAGE_V2, (topic,))
        if not request.transaction_id:
            raise CallRefused(Code.INVALID_TRANSACTION_ID, "transaction id cannot be empty")
        place = read_transaction(request.transaction_id)
        self._door.check_half(context, place.log_offset)
        header = EndTransactionHeader(
            producer_group=topic,
            tran_state_table_offset=place.queue_offset,
            commit_log_offset=place.log_offset,
            commit_or_rollback=_ENDS.get(request.resolution, sysflag.TRANSACTION_NONE),
            msg_id=place.message_id,
            from_transaction_check=request.source == TransactionSource.SERVER_CHECK,
            transaction_id=place.message_id,
            topic=topic,
        )
        answer = self._backend.ask(place.broker_name, RequestCode.END_TRANSACTION, header, b"", context.peer)
        result = await answer if isinstance(answer, Awaitable) else answer
        if result.code != ResponseCode.SUCCESS:
            code = code_of(result.code)
            raise CallRefused(code, result.remark or code.name)
        reply = message_class("EndTransactionResponse")()
        set_status(reply.status)
        return reply

    async def recall(self, request: Proto, context: CallContext) -> Proto:
        """Take back a delayed message."""
        context.client_id  # noqa: B018
        topic = topic_name(request.topic)
        self._door.check(context, RequestCode.SEND_MESSAGE_V2, (topic,))
        facts = await resolved(self._backend.topic(topic))
        if facts is None:
            raise CallRefused(Code.TOPIC_NOT_FOUND, f"there is no topic {topic}")
        header = RecallMessageHeader(topic=topic, recall_handle=request.recall_handle, producer_group=topic)
        broker = broker_of_recall(request.recall_handle) or facts.brokers[0].broker_name
        if all(each.broker_name != broker for each in facts.brokers):
            raise CallRefused(Code.BAD_REQUEST, f"the recall handle is of broker {broker[:80]}, which has no {topic}")
        answer = self._backend.ask(broker, RequestCode.RECALL_MESSAGE, header, b"", context.peer)
        result = await answer if isinstance(answer, Awaitable) else answer
        if result.code != ResponseCode.SUCCESS:
            code = code_of(result.code)
            raise CallRefused(code, result.remark or code.name)
        reply = message_class("RecallMessageResponse")(message_id=fields_of(result).get("msgId", ""))
        set_status(reply.status)
        return reply
