"""The fast path answers pulls as the handlers would, byte for byte, and counts the same, or it does nothing."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanabi.broker.fast_path.building import build_fast_path, is_compiled
from hanabi.broker.handlers.pull import pull_handlers
from hanabi.broker.pull.access import PullAccess
from hanabi.broker.pull.long_polling import HeldPull
from hanabi.errors import MQError
from hanabi.remoting.connection.dispatch import Reply, dispatch
from hanabi.wire.codes import Flag, HeaderForm, RequestCode
from hanabi.wire.command import decode_command, encode_head, encode_reply_head
from hanabi.wire.frame import encode_frame
from tests.broker.reading import COMMIT, GROUP, SUBSCRIPTION, SUSPEND, TOPIC, Reading
from tests.store.open_files import no_free_descriptors

pytestmark = pytest.mark.pure

CONSUMER: Any = SimpleNamespace(peer="10.1.2.3:40000", is_stalled=False)
MESSAGES = 300
pytestmark = pytest.mark.skipif(not is_compiled(), reason="there is no fast path without compiled functions")
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

    def __init__(self, root: Path, *, log_file_bytes: int = 128 * 1024) -> None:
        self.reading = reading = Reading(root, commit_log_segment_bytes=log_file_bytes)
        for number in range(MESSAGES):
            reading.put(b"%d" % number * 50, queue_id=0, tags="TagA" if number % 3 else "")
            reading.put(b"%d" % number * 20, queue_id=number % 3 + 1)
        access = PullAccess(reading.settings, reading.topics, reading.groups, reading.pull_filters)
        self.handlers = pull_handlers(
            *(reading.store, access, reading.commits, reading.held_pulls, reading.stats),
            *(reading.settings, reading.clock),
        )
        fast_path = build_fast_path(self.handlers)
        assert fast_path is not None
        self.fast_path = fast_path

    def answer(self, frame: bytes) -> bytes:
        """Answer by the handlers alone."""
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
        """Return what was counted and remembered."""
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
    first, second = (Side(tmp_path_factory.mktemp(name)) for name in ("fast_path", "handlers"))
    yield first, second
    for side in (first, second):
        side.reading.store.close()


def agree(both: tuple[Side, Side], frame: bytes, code: int = 11) -> bool:
    """Send *frame* to both; whether it went on the fast path."""

    async def ask() -> bool:  # a pull may be held, which needs a loop
        first, second = both
        answer, taken, counts = first.fast_path(encode_frame(frame), CONSUMER)
        assert (answer is None) == (taken == 0)
        if answer is not None:
            assert taken == 4 + len(frame)
            assert dict(zip(first.fast_path.codes, counts, strict=True))[code] == sum(counts) == 1
        assert (answer or first.answer(frame)) == second.answer(frame)
        assert first.known() == second.known()
        return answer is not None

    return asyncio.run(ask())


@given(requests, st.sampled_from([0, 0, 1, 3000]))
def test_whatever_is_pulled_is_answered_as_by_the_handlers(
    both: tuple[Side, Side], request_: dict[str, Any], later_ms: int
) -> None:
    for side in both:
        side.reading.clock.ms += later_ms
    agree(both, frame_of(**request_), request_["code"])


def test_a_queue_that_the_system_refuses_to_read_is_left_to_the_handlers(tmp_path: Path) -> None:
    side = Side(tmp_path)
    reading = side.reading
    reading.store.flush()
    from_7, from_0 = (frame_of(fields={**FIELDS, "queueOffset": offset}) for offset in ("7", "0"))

    def fast_answer(frame: bytes) -> object:
        return side.fast_path(encode_frame(frame), CONSUMER)[0]

    assert fast_answer(from_7) == side.answer(from_7)  # the entries from there on are read ahead, those before are not
    reading.store._queues.descriptors.close()
    with no_free_descriptors():
        assert fast_answer(from_0) is None
        assert b"Too many open files" in side.answer(from_0)
    assert fast_answer(from_7) == side.answer(from_7)
    assert fast_answer(from_0) == side.answer(from_0)
    reading.store.close()


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


@pytest.mark.parametrize("form", HeaderForm)
@pytest.mark.parametrize("code", [RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE])
def test_a_consumer_that_reads_a_queue_to_its_end_is_served_on_the_fast_path(
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


@pytest.mark.parametrize("form", HeaderForm)
def test_what_was_read_before_is_answered_as_by_the_handlers_from_wherever_it_is_read_again(
    tmp_path: Path, form: HeaderForm
) -> None:
    sides = (
        Side(tmp_path / "fast_path", log_file_bytes=32 * 1024),
        Side(tmp_path / "handlers", log_file_bytes=32 * 1024),
    )

    def pull(offset: int, count: int) -> bool:
        fields = FIELDS | {"queueOffset": str(offset), "maxMsgNums": str(count)}
        return agree(sides, frame_of(fields=fields, form=form))

    assert all(pull(offset, 1) for offset in range(50, MESSAGES)), "each of them, of four files of the log"
    again = [pull(offset, 32) for offset in [*range(50, MESSAGES), *range(50)]]
    assert 150 < sum(again) < MESSAGES, "all but those that touch a second file of the log"
    assert pull(100, 9)
    for side in sides:
        side.reading.store.reader.use(msgspec.structs.replace(side.reading.settings.store, memory_ratio_percent=0))
    assert not pull(100, 9), "these are not in memory any more, so an answer has fewer of them"
    for side in sides:
        side.reading.store.close()


def test_messages_that_arrive_are_found_and_those_of_a_queue_that_was_deleted_are_not(tmp_path: Path) -> None:
    sides = Side(tmp_path / "fast_path"), Side(tmp_path / "handlers")
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


def test_a_second_pull_of_the_same_read_is_left_for_the_next_call(both: tuple[Side, Side]) -> None:
    fast_path = both[0].fast_path
    frame = encode_frame(frame_of(fields=FIELDS))
    answer, taken, counts = fast_path(frame * 3, CONSUMER)
    assert answer is not None
    assert (taken, sum(counts)) == (len(frame), 1)
    both[1].answer(frame[4:])  # so that the two go on together


STRANGE_JSON = {
    "twice": ('"topic":', '"queueOffset":"9","topic":'),
    "twice, the first one in another form": ('"topic":', '"queueOffset":9,"topic":'),
    "twice, the second one in another form": ('"maxMsgNums":', '"queueOffset":7,"maxMsgNums":'),
    "the same with the first number that is tried": ('"maxMsgNums":', '"queueOffset":2,"maxMsgNums":'),
    "and with the second": ('"maxMsgNums":', '"queueOffset":3,"maxMsgNums":'),
    "two offsets to commit": ('"subVersion":', '"commitOffset":5,"subVersion":'),
    "two opaque numbers": ('"opaque":1,', '"opaque":1,"opaque": 1,'),
    "the same with one that is tried": ('"opaque":1,', '"opaque":1,"opaque": 6,'),
    "and with the other": ('"opaque":1,', '"opaque":1,"opaque": 7,'),
    "two of everything": ('"opaque":1,', '"extFields":' + json.dumps(FIELDS) + ',"opaque":1,'),
    "outside of the fields": ('"opaque":', '"queueOffset":"3","opaque":'),
    "an opaque number among the fields": ('"topic":', '"opaque":4,"topic":'),
    "and none where it should be": ('"opaque":1,', ""),
    "too long a number": ('"queueOffset":"7"', '"queueOffset":"7000000000000000000"'),
    "a fraction": ('"opaque":1,', '"opaque":1.0,'),
    "a sign": ('"queueOffset":"7"', '"queueOffset":"+7"'),
    "zeros": ('"commitOffset":"5"', '"commitOffset":"05"'),
    "a bare number": ('"queueOffset":"7"', '"queueOffset":7'),
    "blanks": ('"queueOffset":"7"', '"queueOffset": "7"'),
    "in a text": ('"subscription":"*"', '"subscription":"\\"queueOffset\\":\\"9\\""'),
    "another offset in a text": ('"queueOffset":"7"', '"x":"\\","queueOffset":"8","y":"\\"","queueOffset":"7"'),
    "a signature": ('"topic":', '"Signature":"abc","topic":'),
}


@pytest.mark.parametrize("name", STRANGE_JSON)
def test_numbers_that_stand_elsewhere_or_are_written_otherwise_mean_what_they_mean_to_the_handlers(
    both: tuple[Side, Side], name: str
) -> None:
    usual, strange = STRANGE_JSON[name]
    header = frame_of(fields=FIELDS)[4:].replace(usual.encode(), strange.encode())
    assert header != frame_of(fields=FIELDS)[4:]
    agree(both, len(header).to_bytes(4) + header)
    for number, other in ((b"7", b"8"), (b"7", b"12"), (b"9", b"6"), (b"4", b"3"), (b"5", b"6"), (b"1", b"2")):
        changed = header.replace(b'":"%b"' % number, b'":"%b"' % other).replace(b'":%b,' % number, b'":%b,' % other, 1)
        agree(both, len(changed).to_bytes(4) + changed)
        changed = header.replace(b'":"%b"' % number, b'":"%b"' % other)
        agree(both, len(changed).to_bytes(4) + changed)


@pytest.mark.parametrize("form", HeaderForm)
def test_after_many_usual_pulls_one_that_is_not_is_still_left_to_the_handlers(
    both: tuple[Side, Side], form: HeaderForm
) -> None:
    fields = FIELDS | {"suspendTimeoutMillis": "1"}
    beyond = frame_of(fields=fields)[4:].replace(b'"opaque":1', b'"opaque":2147483648')
    assert not agree(both, len(beyond).to_bytes(4) + beyond)
    assert agree(both, frame_of(fields=fields)), "though the first of its kind was not for us"
    usual = frame_of(fields=FIELDS, form=form)
    assert agree(both, usual)
    for flag in (Flag.ONEWAY, Flag.RESPONSE):
        assert not agree(both, frame_of(fields=FIELDS, form=form, flag=flag))
    assert not agree(both, frame_of(fields=FIELDS, form=form, body=b"x"))
    for opaque in (b"2147483648", b"-2147483649", b"12345678901234567890"):
        frame = usual[4:].replace(b'"opaque":1', b'"opaque":' + opaque)
        if form is HeaderForm.JSON:
            assert not agree(both, len(frame).to_bytes(4) + frame)
    size = b"queueOffset\0\0\0\x01"
    if form is HeaderForm.BINARY:
        for other in (b"\0", b"\x02", b"\x0c"):
            assert not agree(both, usual.replace(size, size[:-1] + other))
        assert not agree(both, usual[:21] + b"\0\0\0\x07" + usual[25:]), "fewer bytes of fields than there are"
    assert agree(both, usual)


@pytest.mark.parametrize("form", HeaderForm)
def test_a_value_that_looks_like_a_field_is_a_value(both: tuple[Side, Side], form: HeaderForm) -> None:
    for number in (b"7", b"8", b"19"):
        offset = b"\0\x0bqueueOffset\0\0\0" + bytes([len(number)]) + number
        for fields in (
            FIELDS | {"bname": offset.decode()},
            {name: value for name, value in FIELDS.items() if name != "queueOffset"} | {"bname": offset.decode()},
        ):
            agree(both, frame_of(fields=fields, form=form))


@pytest.mark.parametrize("form", HeaderForm)
def test_what_is_too_much_for_one_answer_ends_where_it_ends_by_the_handlers(tmp_path: Path, form: HeaderForm) -> None:
    sides = Side(tmp_path / "fast_path"), Side(tmp_path / "handlers")
    for side in sides:
        store = msgspec.structs.replace(side.reading.settings.store, memory_transfer_bytes_max=2_000)
        side.reading.store.reader.use(store)
    for offset in range(0, MESSAGES, 29):
        agree(sides, frame_of(fields=FIELDS | {"queueOffset": str(offset)}, form=form))
    assert agree(sides, frame_of(fields=FIELDS, form=form))
    assert agree(sides, frame_of(fields=FIELDS | {"maxMsgNums": "3"}, form=form))
    for side in sides:
        side.reading.store.close()


def test_damage_in_the_log_or_in_a_queue_is_left_to_the_handlers(tmp_path: Path) -> None:
    sides = Side(tmp_path / "fast_path"), Side(tmp_path / "handlers")
    for side in sides:
        log_offset = side.reading.store.reader.log_offset(TOPIC, 0, 20)
        segment = side.reading.store._log.find(log_offset or 0)
        assert segment is not None
        segment.map[(log_offset or 0) - segment.base_offset + 27] ^= 1  # another queue offset
    for _ in range(2):
        assert not agree(sides, frame_of(fields=FIELDS))
        assert agree(sides, frame_of(fields=FIELDS | {"queueOffset": "21"}))
        assert agree(sides, frame_of(fields=FIELDS | {"queueOffset": "19", "maxMsgNums": "1"}))
    for side in sides:
        side.reading.store.close()
