"""Recall of a timed message: the request to the broker that its handle names. Agrees with
DefaultMQProducerImpl.recallMessage (5.3.3)."""

from hanabi.client.cluster.core import Core
from hanabi.errors import ConnectError, InvalidMessage, RemoteProtocolError
from hanabi.wire.codes import RequestCode
from hanabi.wire.headers.send import RecallMessageHeader, RecallMessageReplyHeader
from hanabi.wire.recall_handle import RecallHandle, decode_recall_handle


def read_handle(text: str) -> RecallHandle:
    """Return the handle in *text*; raise InvalidMessage if it is none."""
    try:
        return decode_recall_handle(text)
    except RemoteProtocolError as error:
        raise InvalidMessage(f"{text[:60]!r} is no recall handle: see SendResult.recall_handle") from error


async def recall(core: Core, text: str, group: str, seconds: float) -> str:
    """Recall the message of the handle in *text*; return its id."""
    handle = read_handle(text)
    route = core.routes.known(handle.topic) or await core.routes.find(handle.topic, fresh=True)
    address = route.master_of(handle.broker_name)
    if address is None:
        address = (await core.routes.find(handle.topic, fresh=True)).master_of(handle.broker_name)
    if address is None:
        raise ConnectError(
            f"topic {handle.topic}: the name servers know no master of broker {handle.broker_name}, which has the"
            " message"
        )
    header = RecallMessageHeader(
        topic=handle.topic, recall_handle=text, producer_group=group, target_broker=handle.broker_name
    )
    reply = await core.api.ask(address, RequestCode.RECALL_MESSAGE, header, timeout=seconds)
    return reply.header(RecallMessageReplyHeader).msg_id
