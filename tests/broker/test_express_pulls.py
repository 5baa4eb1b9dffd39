"""The express lane answers pulls as the handlers would, byte for byte, and counts the same, or it does nothing."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanabi.broker.express import express_lane
from hanabi.broker.handlers.pull import pull_handlers
from hanabi.broker.long_polling import HeldPull
from hanabi.broker.pull_access import PullAccess
from hanabi.errors import MQError
from hanabi.remoting.dispatch import Reply, dispatch
from hanabi.wire.codes import Flag, HeaderForm, RequestCode
from hanabi.wire.command import decode_command, encode_head, encode_reply_head
from hanabi.wire.frame import encode_frame
from tests.broker.reading import COMMIT, GROUP, SUBSCRIPTION, SUSPEND, TOPIC, Reading

CONSUMER: Any = SimpleNamespace(peer="10.1.2.3:40000", is_stalled=False)
MESSAGES = 300
FIELDS = {
    "consumerGroup": GROUP,
    "topic": TOPIC,
    "queueId": "0",
    "queueOffset": "7",
    "maxMsgNums": "32",
    "sysFlag": str(SUBSCRIPTION),
    "commitOffset": "5",
    "suspendTimeoutMillis": "0",
    "subscription": "*",
    "subVersion": "0",
    "expressionType": "TAG",
}

offsets = st.integers(0, MESSAGES + 2) | st.sampled_from([-1, 2**31, 2**63])
flags = st.sampled_from([SUBSCRIPTION, SUBSCRIPTION | COMMIT, SUBSCRIPTION | SUSPEND, 0, COMMIT, 8, 15])
strange = st.sampled_from(["", "0", "-1", "00", "1.5", "x", "true", "9" * 30, "\u00e9", 'a"b', "a\\b"])
changes = st.fixed_dictionaries(
    {},
    optional={
        "consumerGroup": st.sampled_from([GROUP, "others"]) | strange | st.none(),
        "topic": st.sampled_from([TOPIC, "Elsewhere"]) | strange | st.none(),
        "queueId": st.integers(-1, 5).map(str) | strange | st.none(),
        "queueOffset": offsets.map(str) | strange | st.none(),
        "maxMsgNums": st.sampled_from([-5, 0, 1, 2, 31, 32, 33, 64, 2000]).map(str) | strange | st.none(),
        "sysFlag": flags.map(str) | strange | st.none(),
        "commitOffset": offsets.map(str) | strange | st.none(),
        "suspendTimeoutMillis": strange | st.none(),
        "subscription": st.sampled_from(["*", "TagA", "TagA || TagB", "a > 1"]) | strange | st.none(),
        "subVersion": st.sampled_from(["0", "1700000000000"]) | strange | st.none(),
        "expressionType": st.sampled_from(["TAG", "SQL92", "UNKNOWN"]) | strange | st.none(),
        "bname": st.just("broker-a") | strange,
        "maxMsgBytes": st.just("262144") | strange,
        "requestSource": st.just("0") | strange,
        "AccessKey": strange,
    },
)
requests = st.fixed_dictionaries(
    {
        "fields": changes.map(lambda changed: _merged(FIELDS, changed)),
        "form": st.sampled_from(HeaderForm),
        "opaque": st.sampled_from([0, 7, 2**31 - 1, -1]),
        "flag": st.sampled_from([0, 0, 0, int(Flag.ONEWAY), 8]),
        "version": st.sampled_from([401, 500, 0, -1]),
        "body": st.sampled_from([b"", b"", b"", b"x"]),
        "code": st.sampled_from([11, 11, 11, 361, 310]),
    }
)


def _merged(fields: dict[str, str], changed: dict[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in (fields | changed).items() if value is not None}


def frame_of(**request: Any) -> bytes:
    usual: dict[str, Any] = {"code": 11, "opaque": 1, "flag": 0, "version": 401, "body": b"", "form": HeaderForm.JSON}
    request = usual | request
    body = bytes(request.pop("body"))
    return encode_head(body_bytes=len(body), **request)[4:] + body


class Side:
    """A store with messages in it, and what answers pulls from it."""

    def __init__(self, root: Path) -> None:
        self.reading = reading = Reading(root, commit_log_segment_bytes=128 * 1024)
        for number in range(MESSAGES):
            reading.put(b"%d" % number * 50, queue_id=0, tags="TagA" if number % 3 else "")
            reading.put(b"%d" % number * 20, queue_id=number % 3 + 1)
        access = PullAccess(reading.settings, reading.topics, reading.groups, reading.pull_filters)
        self.handlers = pull_handlers(
            *(reading.store, access, reading.commits, reading.held_pulls, reading.stats),
            *(reading.settings, reading.clock),
        )
        self.lane = express_lane(self.handlers)

    def answer(self, frame: bytes) -> bytes:
        """By the handlers alone."""
        try:
            command = decode_command(frame)
        except MQError as error:
            return repr(error).encode()
        answer = dispatch(self.handlers, command, CONSUMER)
        if isinstance(answer, HeldPull):
            answer.cancel()
            return b"held"
        assert isinstance(answer, Reply)
        body = b"".join(answer.body) if isinstance(answer.body, list) else bytes(answer.body)
        head = encode_reply_head(command, answer.code, answer.remark, answer.fields, len(body))
        return head + body

    def known(self) -> tuple[object, ...]:
        """What was counted and remembered."""
        reading = self.reading
        stats = reading.stats
        tallies = [
            {key: (tally.messages, tally.bytes, tally.times) for key, tally in table.items()}
            for table in (stats._group_get, stats._latency)
        ]
        totals = stats.store.gets_found, stats.store.gets_missed, stats.store.transferred, stats._broker_get.messages
        falls = stats._fall_bytes, stats._fall_ms
        return tallies, totals, falls, reading.offsets.table(), reading.commits._readers


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    first, second = (Side(tmp_path_factory.mktemp(name)) for name in ("express", "handlers"))
    if first.lane is None:
        pytest.skip("not compiled here")
    yield first, second
    for side in (first, second):
        side.reading.store.close()


needs_compiled = pytest.mark.skipif(bool(os.environ.get("HANABI_PURE_PYTHON")), reason="HANABI_PURE_PYTHON is set")


def agree(both: tuple[Side, Side], frame: bytes, code: int = 11) -> bool:
    """Send *frame* to both; whether it went by express."""

    async def ask() -> bool:  # a pull may be held, which needs a loop
        first, second = both
        assert first.lane is not None
        answer, taken, counts = first.lane(encode_frame(frame), CONSUMER)
        assert (answer is None) == (taken == 0)
        if answer is not None:
            assert taken == 4 + len(frame)
            assert dict(zip(first.lane.codes, counts, strict=True))[code] == sum(counts) == 1
        assert (answer or first.answer(frame)) == second.answer(frame)
        assert first.known() == second.known()
        return answer is not None

    return asyncio.run(ask())


@needs_compiled
@given(requests, st.sampled_from([0, 0, 1, 3000]))
def test_whatever_is_pulled_is_answered_as_by_the_handlers(
    both: tuple[Side, Side], request_: dict[str, Any], later_ms: int
) -> None:
    for side in both:
        side.reading.clock.ms += later_ms
    agree(both, frame_of(**request_), request_["code"])


@needs_compiled
@given(requests, st.data())
def test_a_mutilated_pull_is_declined_or_answered_as_by_the_handlers(
    both: tuple[Side, Side], request_: dict[str, Any], data: st.DataObject
) -> None:
    frame = bytearray(frame_of(**request_))
    for _ in range(data.draw(st.integers(1, 3))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    code = decoded_code(bytes(frame))
    agree(both, bytes(frame), code)


def decoded_code(frame: bytes) -> int:
    try:
        return decode_command(frame).code
    except MQError:
        return 11


@needs_compiled
@pytest.mark.parametrize("form", HeaderForm)
@pytest.mark.parametrize("code", [RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE])
def test_a_consumer_that_reads_a_queue_to_its_end_is_served_by_express(
    both: tuple[Side, Side], form: HeaderForm, code: int
) -> None:
    offset, taken = 0, 0
    while offset < MESSAGES:
        fields = FIELDS | {
            "queueOffset": str(offset),
            "sysFlag": str(SUBSCRIPTION | COMMIT),
            "commitOffset": str(offset),
        }
        taken += agree(both, frame_of(fields=fields, form=form, opaque=offset, code=code), code)
        offset += 32
    assert taken > 6, "all but those that touch a second file of the log"
    end = FIELDS | {"queueOffset": str(MESSAGES)}
    assert not agree(both, frame_of(fields=end, form=form, code=code))


@needs_compiled
def test_messages_that_arrive_are_found_and_those_of_a_queue_that_was_deleted_are_not(tmp_path: Path) -> None:
    sides = Side(tmp_path / "express"), Side(tmp_path / "handlers")
    if sides[0].lane is None:
        pytest.skip("not compiled here")
    for number in range(5):
        frame = frame_of(fields=FIELDS | {"queueOffset": str(MESSAGES - 3 + number)})
        assert agree(sides, frame)
        for side in sides:
            side.reading.put(b"new", queue_id=0)
    for side in sides:
        side.reading.store.delete_topic(TOPIC)
    assert not agree(sides, frame_of(fields=FIELDS))
    for side in sides:
        side.reading.put(*[b"again"] * 20, queue_id=0)
    assert agree(sides, frame_of(fields=FIELDS | {"queueOffset": "3"}))
    for side in sides:
        side.reading.change_topic(perm=2)
    assert not agree(sides, frame_of(fields=FIELDS | {"queueOffset": "3"}))
    for side in sides:
        side.reading.store.close()


@needs_compiled
def test_a_second_pull_of_the_same_read_is_left_for_the_next_call(both: tuple[Side, Side]) -> None:
    lane = both[0].lane
    assert lane is not None
    frame = encode_frame(frame_of(fields=FIELDS))
    answer, taken, counts = lane(frame * 3, CONSUMER)
    assert answer is not None
    assert (taken, sum(counts)) == (len(frame), 1)
    both[1].answer(frame[4:])  # so that the two go on together
