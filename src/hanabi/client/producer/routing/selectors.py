"""Queue selectors: the program chooses the queue, for example to keep messages of one order in one queue.

A selector is any callable of the queues, the message and an argument of the program. Pure, except for the counter of
`round_robin`. Agrees with Java's SelectMessageQueueByHash and SelectMessageQueueByRandom: the queues have the order of
Java's producers, so that both send one key to one queue.
"""

import itertools
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from hanabi.client.validation import check_kind
from hanabi.errors import InvalidMessage
from hanabi.message import Message, MessageQueue
from hanabi.wire.message.tags import java_hash

Selector: TypeAlias = Callable[[Sequence[MessageQueue], Message, Any], MessageQueue]
Choose: TypeAlias = Callable[[Sequence[MessageQueue]], MessageQueue]  # a selector bound to its message


def by_hash(queues: Sequence[MessageQueue], message: Message, arg: Any) -> MessageQueue:
    """Select the queue by the hash of *arg*, such as an order's number or a customer's name."""
    return queues[abs(hash_code(arg)) % len(queues)]


def by_random(queues: Sequence[MessageQueue], message: Message, arg: Any) -> MessageQueue:
    """Select a random queue. An *arg* with a `randrange`, such as a `random.Random`, is the source of randomness."""
    return queues[getattr(arg, "randrange", random.randrange)(len(queues))]


def round_robin() -> Selector:
    """Return a selector that takes the queues in turn, beginning with the first."""
    counter = itertools.count()

    def take_turns(queues: Sequence[MessageQueue], message: Message, arg: Any) -> MessageQueue:
        return queues[next(counter) % len(queues)]

    return take_turns


def hash_code(value: object) -> int:
    """Return Java's `hashCode()` of *value* as a String, Boolean, Integer, or Long beyond Integer's range."""
    if isinstance(value, str):
        return java_hash(value)
    if isinstance(value, bool):
        return 1231 if value else 1237
    if isinstance(value, int):
        if -(1 << 31) <= value < 1 << 31:
            return value
        if -(1 << 63) <= value < 1 << 63:
            folded = (value ^ (value >> 32)) & 0xFFFF_FFFF  # Java shifts in zeros, but into bits that it drops
            return folded - (1 << 32) if folded >> 31 else folded
    raise InvalidMessage(f"by_hash needs a str or an int of at most 64 bits as `arg`, not {value!r}")


def chooser(message: Message, queue: MessageQueue | None, selector: Selector | None, arg: Any) -> Choose | None:
    """Return the function that picks the queue of *message*, or None; a given *queue* must be one of its topic.

    A queue or a selector takes precedence over the ordering key of the message.
    """
    check_kind(message)
    if queue is not None:
        if selector is not None:
            raise InvalidMessage(f"topic {message.topic}: give a queue or a selector, not both")
        if queue.topic != message.topic:
            raise InvalidMessage(f"topic {message.topic}: the queue given is one of topic {queue.topic}")
    if selector is None:
        if arg is not None:
            raise InvalidMessage(f"topic {message.topic}: arg={arg!r} is for a selector, and none is given")
        if queue is not None or message.ordering_key is None:
            return None
        return partial(by_hash, message=message, arg=_ordering_key(message))

    def choose(queues: Sequence[MessageQueue]) -> MessageQueue:
        chosen: object = selector(queues, message, arg)
        if not isinstance(chosen, MessageQueue) or chosen.topic != message.topic:
            raise InvalidMessage(f"topic {message.topic}: the selector must return one of the queues, not {chosen!r}")
        return chosen

    return choose


def _ordering_key(message: Message) -> str:
    key = message.ordering_key
    if not isinstance(key, str) or not key:
        raise InvalidMessage(
            f"topic {message.topic}: ordering_key must be a text with at least one character, not {key!r}"
        )
    return key
