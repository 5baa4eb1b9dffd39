"""Batches that a broker keeps as one record. The Java driver has nothing like it."""

from hanabi.client.consumer.pull.consumer import PullConsumer
from hanabi.client.producer.outgoing import SEND_BATCH, Outgoing
from hanabi.message import StoredMessage
from hanabi.wire.message import sysflag
from hanabi.wire.message.batch import BatchMessage, encode_batch
from hanabi.wire.message.properties import encode_properties, format_properties
from tests.interop.python_clients.stage import Inbox, Stage, numbered, sent

IN_EACH = 5


async def inner_batch(stage: Stage) -> None:
    """5.x keeps the batches of a topic with such queues whole; older brokers, and ours, as single messages. Consumers
    get single messages, and what fails comes again alone."""
    topic = await stage.topic(1, attributes="+queue.type=BatchCQ")
    producer = await stage.producer()
    bodies = numbered("inner ", 2 * IN_EACH)
    for start in (0, IN_EACH):
        sent(await producer.send_outgoing(_batch(topic, bodies[start : start + IN_EACH])))

    inbox, failed = Inbox(), Inbox()
    consumer = stage.consumer()
    consumer.subscribe(topic)  # a tag would be compared with that of the batch, which has none

    @consumer.listener
    async def fail_once(messages: list[StoredMessage]) -> None:
        for message in messages:
            if message.body.decode() == bodies[3] and not message.reconsume_times:
                failed.add([message])
                raise ValueError("once")
        inbox.add(messages)

    await stage.started(consumer)
    await inbox.exactly(bodies)
    await failed.exactly([bodies[3]])
    assert [arrival.message.queue_offset for arrival in failed.all] == [3]

    pulling = await stage.started(PullConsumer(stage.unique("G_PULL"), config=stage.config))
    (queue,) = await pulling.queues_of(topic)
    assert await pulling.end_offset(queue) == len(bodies)
    result = await pulling.pull(queue, 7)
    assert [message.body.decode() for message in result.messages] == bodies[7:]
    assert result.next_offset == len(bodies)
    whole = {bool(message.sys_flag & sysflag.INNER_BATCH) for message in result.messages}
    places = {message.log_offset for message in result.messages}
    assert (whole, len(places)) in (({True}, 1), ({False}, 3))


def _batch(topic: str, bodies: list[str]) -> Outgoing:
    """Send as a 5.x producer does: the batch has an id of its own."""
    parts = [
        BatchMessage(0, body.encode(), encode_properties({"TAGS": "A", "UNIQ_KEY": f"id-{body[6:]}"}))
        for body in bodies
    ]
    properties = format_properties({"WAIT": "true", "UNIQ_KEY": f"batch-{bodies[0][6:]}"})
    return Outgoing(topic=topic, body=encode_batch(parts), properties=properties, message_id="", code=SEND_BATCH)
