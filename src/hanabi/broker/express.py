"""The express lane for sends and pulls: see `lane`, which says what it is for.

Where it was compiled (`_speedups`, `_pulls`) and HANABI_PURE_PYTHON is not set, that one is taken. Where senders wait
for the disk, `flushed_lane` is put around it.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hanabi.broker.filters.message_filter import PASSES_ALL
from hanabi.broker.flushed_lane import FlushedLane
from hanabi.broker.lane import Lane
from hanabi.broker.plain_pulls import PlainPulls
from hanabi.broker.plain_sends import PlainSends
from hanabi.broker.pull_outcome import suggested_broker
from hanabi.remoting.dispatch import Express, Handler, Reply
from hanabi.store.message_store import MessageStore
from hanabi.store.plain_puts import plain_puts
from hanabi.store.run_of_puts import PlainPuts
from hanabi.wire.codes import Flag, HeaderForm, Language, RequestCode, ResponseCode
from hanabi.wire.command import encode_head
from hanabi.wire.headers.pull import PullMessageHeader

if TYPE_CHECKING:
    from hanabi.broker.handlers.pull import Pulls
    from hanabi.broker.handlers.send import Sends
    from hanabi.broker.intake import Intake

_HEAD_BYTES_MAX: Final = 1_500  # there is room for it, and for the numbers, in `_speedups`
_OPAQUE: Final = 1_234_567_890  # stands for a number that is put in later
_MARKS: Final = ("<id>", "<queue>", "<offset>")


def express_lane(handlers: Mapping[int, Handler]) -> Express | None:
    """What answers in the stead of *handlers*, if that can be."""
    sends, pulls = (
        handlers[code].express if code in handlers else None
        for code in (RequestCode.SEND_MESSAGE_V2, RequestCode.PULL_MESSAGE)
    )
    if not isinstance(sends, ExpressSends):
        return _lane(None, pulls) if pulls is not None else None
    if sends.intake.waits_for_disk:
        return FlushedLane(_lane(sends.plain, None), _lane(None, pulls), sends.intake)
    return _lane(sends.plain, pulls)


def _lane(sends: object | None, pulls: object | None) -> Lane:
    """A lane of the kind that its parts are."""
    kind: Any = Lane if isinstance(sends, PlainSends) else getattr(_compiled("_speedups"), "Lane", Lane)
    lane: Lane = kind(sends, pulls)
    return lane


class ExpressSends(NamedTuple):
    """The lane's part for sends."""

    plain: object  # a `PlainSends`
    intake: "Intake"  # where it puts messages


def express_sends(sends: "Sends", host_of_peer: Callable[[str], bytes]) -> ExpressSends:
    """The lane's part that does what *sends* does."""
    compiled, puts = _compiled("_speedups"), plain_puts(sends.intake.store)
    plain: object
    if compiled is None or puts is None:
        plain = PlainSends(sends, PlainPuts(sends.intake.store), host_of_peer, parts_of_answer)
    else:
        plain = compiled.PlainSends(sends, puts, host_of_peer, parts_of_answer)
    return ExpressSends(plain, sends.intake)


def _compiled(name: str) -> Any:
    """A module of the compiled lane; None where it is not there, or not wanted."""
    if os.environ.get("HANABI_PURE_PYTHON"):
        return None
    try:
        return import_module(f"hanabi.broker.{name}")
    except ImportError:
        return None


def express_pulls(pulls: "Pulls", store: MessageStore) -> object:
    """The lane's part that does what *pulls* does: a `PlainPulls`."""
    kind: Any = getattr(_compiled("_pulls"), "PlainPulls", PlainPulls)
    part: object = kind(pulls, store, PullMessageHeader, Reply, PASSES_ALL, suggested_broker, parts_of_found())
    return part


def parts_of_answer(region: str, trace_on: str, store_host: bytes) -> tuple[bytes, list[bytes], bytes, bytes] | None:
    """The answer to a send as `encode_head` makes it, cut where message ids, queue, offset and opaque number go.

    The start of every id; the five pieces of the JSON form; of the binary form the head, in which the length of the
    fields is still to come, and the fields behind those three. None: too long to be worth it.
    """
    fields = dict(zip(("msgId", "queueId", "queueOffset"), _MARKS, strict=True))
    more = {"MSG_REGION": region, "TRACE_ON": trace_on}
    json = _head(fields | more, HeaderForm.JSON)[8:]
    if len(json) > _HEAD_BYTES_MAX or len(store_host) != 8:
        return None
    pieces = _cut(json, _MARKS)
    binary_head = _head({}, HeaderForm.BINARY)[8:]
    binary_tail = _head(more, HeaderForm.BINARY)[8 + len(binary_head) :]
    return store_host.hex().upper().encode(), pieces, binary_head, binary_tail


def parts_of_found() -> tuple[list[bytes], bytes]:
    """The same for the answer to a pull that finds messages: the six pieces of the JSON form; of the binary form the
    head, in which the length of the fields is still to come."""
    marks = ("<suggested>", "<next>", "<min>", "<max>")
    names = ("suggestWhichBrokerId", "nextBeginOffset", "minOffset", "maxOffset")
    json = _head(dict(zip(names, marks, strict=True)), HeaderForm.JSON, "FOUND")[8:]
    return _cut(json, marks), _head({}, HeaderForm.BINARY, "FOUND")[8:]


def _cut(json: bytes, marks: Sequence[str]) -> list[bytes]:
    """*json* where *marks* and the opaque number are left out."""
    json, _, end = json.rpartition(str(_OPAQUE).encode())  # the last one: a region may be a number, too
    pieces: list[bytes] = []
    for mark in marks:  # the first ones: they stand before the region
        piece, _, json = json.partition(mark.encode())
        pieces.append(piece)
    return [*pieces, json, end]


def _head(fields: dict[str, str], form: HeaderForm, remark: str | None = None) -> bytes:
    return encode_head(
        code=ResponseCode.SUCCESS,
        opaque=_OPAQUE,
        flag=Flag.RESPONSE,
        remark=remark,
        fields=fields,
        form=form,
        language=Language.PYTHON,
    )
