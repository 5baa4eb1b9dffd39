"""Form in which a message leaves an acting slave for another master, and the choice of that master. Pure.

    due, delayed or timed    without its delay, so that it is delivered there at once
    timed, not yet due       with its time: it waits there (a slave cannot store it again in a younger part of the log)
    half                     a transactional message again: it is checked there

Agrees with EscapeBridge and TransactionalMessageUtil (5.3.3).
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from hanabi.broker.delay.timer_rules import PRECISION_MS, java_long
from hanabi.store.log.commit_log import PendingMessage
from hanabi.wire.bodies.route import TopicRoute
from hanabi.wire.message import property_names as names
from hanabi.wire.message import sysflag
from hanabi.wire.message.properties import decode_properties, encode_properties
from hanabi.wire.system_names import HALF_TOPIC, TIMER_TOPIC

_WRITE: Final = 2
_MASTER_ID: Final = 0
_PLACE: Final = (names.REAL_TOPIC, names.REAL_QUEUE_ID)
_DELAYS: Final = (
    names.DELAY_LEVEL,
    names.TIMER_DELAY_SEC,
    names.TIMER_DELAY_MS,
    names.TIMER_DELAY_LEVEL,
    names.TIMER_DELIVER_MS,
    names.TIMER_OUT_MS,
    names.TIMER_ROLL_TIMES,
)
_OF_THIS_BROKER: Final = (names.TRANSACTION_PREPARED_QUEUE_OFFSET,)  # of a half queue that the next broker lacks


class Target(NamedTuple):
    """A queue of another master."""

    broker_name: str
    address: str
    queue_id: int


def targets(route: TopicRoute, own_name: str) -> list[Target]:
    """Return the queues of *route* that masters of other names take writes for."""
    masters = {data.broker_name: data.broker_addrs.get(_MASTER_ID) for data in route.broker_datas}
    found = (
        (queues.broker_name, masters.get(queues.broker_name), queues.write_queue_nums)
        for queues in route.queue_datas
        if queues.perm & _WRITE and queues.broker_name != own_name
    )
    return [
        Target(name, address, queue_id)
        for name, address, count in found
        if address is not None
        for queue_id in range(count)
    ]


def to_escape(message: PendingMessage) -> PendingMessage:
    """Return *message*, which this broker would store, in the form for another master."""
    properties = decode_properties(message.properties)
    topic, sys_flag = message.topic, message.sys_flag & ~sysflag.HOSTS_V6  # the next broker sets its own
    if topic in (HALF_TOPIC, TIMER_TOPIC):
        topic = properties.get(names.REAL_TOPIC, topic)
        sys_flag = _prepared(sys_flag) if message.topic == HALF_TOPIC else sys_flag
    timer_out_ms = java_long(properties.get(names.TIMER_OUT_MS, ""))
    for name in _dropped(message.topic):
        properties.pop(name, None)
    if message.topic == TIMER_TOPIC and timer_out_ms is not None:
        properties[names.TIMER_DELIVER_MS] = str(timer_out_ms + PRECISION_MS)
    properties[names.WAIT_STORED] = "false"
    return msgspec.structs.replace(message, topic=topic, properties=encode_properties(properties), sys_flag=sys_flag)


def producer_group(message: PendingMessage, otherwise: str) -> str:
    """Return the group that a message is sent for: a half message is checked at that group."""
    return decode_properties(message.properties).get(names.PRODUCER_GROUP) or otherwise


def _dropped(topic: str) -> Iterable[str]:
    return (*_PLACE, *_OF_THIS_BROKER) if topic == HALF_TOPIC else (*_PLACE, *_DELAYS)


def _prepared(sys_flag: int) -> int:
    return sysflag.with_transaction_type(sys_flag, sysflag.TRANSACTION_PREPARED)
