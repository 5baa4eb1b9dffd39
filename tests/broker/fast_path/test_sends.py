"""The fast path answers and stores what the handlers would, byte for byte, or it does nothing."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanabi.broker.config import BrokerConfig
from hanabi.broker.fast_path.building import build_fast_path, is_compiled
from hanabi.broker.handlers.send import send_handlers
from hanabi.errors import MQError
from hanabi.remoting.connection.dispatch import Handler, LateAnswers, Reply, dispatch
from hanabi.wire.bodies.topics import TopicConfig, TopicFilterType
from hanabi.wire.codes import Flag, HeaderForm, RequestCode
from hanabi.wire.command import decode_command, encode_head, encode_reply_head
from hanabi.wire.frame import encode_frame
from hanabi.wire.message.batch import BatchMessage, encode_batch
from tests.broker.sending import QUEUES, STORE_HOST, TOPIC, Taking

pytestmark = pytest.mark.skipif(not is_compiled(), reason="there is no fast path without compiled functions")

SENDER: Any = SimpleNamespace(peer="10.1.2.3:40000", certificate_names=())
FIELDS = {
    "a": "producers",
    "b": TOPIC,
    "c": "TBW102",
    "d": "4",
    "e": "1",
    "f": "0",
    "g": "1700000000123",
    "h": "0",
    "i": "UNIQ_KEY\x017F00000100000000\x02WAIT\x01true\x02TAGS\x01TagA\x02KEYS\x01a b\x02",
    "j": "0",
    "k": "false",
    "m": "false",
}

names = st.sampled_from(
    [
        "UNIQ_KEY",
        "WAIT",
        "TAGS",
        "KEYS",
        "CLUSTER",
        "TRAN_MSG",
        "DELAY",
        "TIMER_DELAY_MS",
        "x",
        "MODEL",
        "POP_CK",
        "TRACE_ON",
        "",
    ]
)
values = st.sampled_from(
    [
        "true",
        "false",
        "a",
        "a b",
        " a  b ",
        "42",
        "",
        "7F0000011A2B251A69D701C5F3A000A7",
        "\u00e9",
        "\x00",
        "\x00" * 511,
        "\x00" * 600,
        "DEL",
        "x" * 200,
        '"\\/\b',
    ]
)
pairs = st.builds(lambda name, value: f"{name}\x01{value}", names, values)
properties = st.builds(
    lambda items, separator, end: separator.join(items) + end,
    st.lists(pairs | values, max_size=6),
    st.sampled_from(["\x02", "\x02\x02"]),
    st.sampled_from(["", "\x02"]),
)
texts = st.sampled_from(
    ["", "0", "1", "7", "-1", "00", "1.0", "2147483648", "-2147483648", "true", "TRUE", " 1", "9" * 30]
)
changes = st.dictionaries(
    st.sampled_from([*FIELDS, "l", "n", "AccessKey"]), texts | properties | st.just(TOPIC) | st.none(), max_size=3
)
requests = st.fixed_dictionaries(
    {
        "fields": st.builds(lambda changed: _merged(FIELDS, changed), changes),
        "form": st.sampled_from(HeaderForm),
        "opaque": st.sampled_from([0, 7, 2**31 - 1, -1]),
        "flag": st.sampled_from([0, 0, 0, int(Flag.ONEWAY), 8]),
        "version": st.sampled_from([401, 412, 413, 0, -1]),
        "body": st.binary(max_size=80) | st.just(b"x" * 20_000),
        "code": st.sampled_from([RequestCode.SEND_MESSAGE_V2] * 5 + [RequestCode.SEND_MESSAGE]),
    }
)
parts = st.builds(
    BatchMessage,
    st.sampled_from([0, 5, -1]),
    st.binary(min_size=1, max_size=50) | st.just(b""),
    st.just(FIELDS["i"].encode()) | properties.map(str.encode) | st.binary(max_size=20),
)
batches = st.builds(
    lambda request, changed, batch, tail: (
        request
        | {
            "code": RequestCode.SEND_BATCH_MESSAGE,
            "fields": _merged(FIELDS | {"m": "true", "i": "WAIT\x01true\x02UNIQ_KEY\x017F01"}, changed),
            "body": encode_batch(batch) + tail,
        }
    ),
    requests,
    changes,
    st.lists(parts, max_size=6),
    st.sampled_from([b"", b"", b"", b"x", bytes(22)]),
)


def _merged(fields: dict[str, str], changed: dict[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in (fields | changed).items() if value is not None}


def frame_of(request: dict[str, Any]) -> bytes:
    head = encode_head(
        code=request["code"],
        opaque=request["opaque"],
        flag=request["flag"],
        fields=request["fields"],
        body_bytes=len(request["body"]),
        form=request["form"],
        version=request["version"],
    )
    return head[4:] + bytes(request["body"])


_OWN = ("lock", "checkpoint", "consumequeue.ends")  # files with what is different for each store


class Side:
    """A store, and what answers sends into it."""

    def __init__(self, root: Path, **store: Any) -> None:
        self.root = root
        self.taking = Taking(root, BrokerConfig(broker_name="broker-a"), **store)
        self.taking.topics.update(TopicConfig(topic_name="7", read_queue_nums=2, write_queue_nums=1, order=True))
        parts = (self.taking.topics, self.taking.groups, self.taking.settings)
        self.handlers: dict[int, Handler] = send_handlers(
            *(self.taking.intake, *parts, self.taking.flow, STORE_HOST, self.taking.halves),
            random_below=lambda n: n - 1,
            now_ms=self.taking.clock,
        )
        self.fast_path = build_fast_path(self.handlers)

    def answer_fast(self, *frames: bytes) -> tuple[bytes | None, int]:
        """Return the answers by the fast path, to as many of *frames* as it takes."""
        assert self.fast_path is not None
        data = b"".join(map(encode_frame, frames))
        answers, taken, counts = self.fast_path(data, SENDER)
        assert not isinstance(answers, LateAnswers)
        assert data[:taken] == b"".join(map(encode_frame, frames[: sum(counts)]))
        assert (answers is None) == (taken == 0)
        return answers, sum(counts)

    def answer(self, frame: bytes) -> bytes:
        """Answer by the handlers alone."""
        try:
            command = decode_command(frame)
            answer = dispatch(self.handlers, command, SENDER)
        except MQError as error:
            return repr(error).encode()
        assert isinstance(answer, Reply)
        return encode_reply_head(command, answer.code, answer.remark, answer.fields, len(answer.body))

    def written(self, log_offset: int) -> tuple[object, ...]:
        """Return what the log has from there on, where every queue ends, what the index says, and what was counted."""
        store, stats = self.taking.store, self.taking.stats
        queues = [(queue.topic, queue.queue_id, queue.max_offset, queue.max_log_offset) for queue in store._queues]
        index = store._index
        assert index is not None
        files = [
            (file.next_entry, file.slots_used, file.end_ms, file.end_log_offset, bytes(file._map[:]))
            for file in index.files
        ]
        log = bytes(store._log.read_tail(log_offset) or b"")
        return (
            log,
            sorted(queues),
            files,
            store.max_log_offset,
            str(stats.view("TOPIC_PUT_NUMS", TOPIC)),
            stats.store.puts,
        )

    def files(self) -> dict[str, bytes]:
        """Return all of them, once it is closed."""
        self.taking.close()
        paths = [path for path in self.root.rglob("*") if path.is_file() and path.name not in _OWN]
        return {str(path.relative_to(self.root)): path.read_bytes() for path in paths if path.parent.name != "index"}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    """Yield one with a fast path and one without; at the end, after all that was sent to them, their files agree."""
    first, second = (Side(tmp_path_factory.mktemp(name)) for name in ("fast_path", "handlers"))
    yield first, second
    assert first.files() == second.files()


def agree(both: tuple[Side, Side], *frames: bytes) -> int:
    """Send *frames* to both; return how many the fast path took. Of those it declines, the handlers take one."""
    first, second = both
    log_offset = second.taking.store.max_log_offset
    answers, taken = b"", 0
    left = list(frames)
    while left:
        fast_answers, count = first.answer_fast(*left)
        answers += fast_answers or b""
        taken += count
        del left[:count]
        if left:
            answers += first.answer(left.pop(0))
    assert answers == b"".join(map(second.answer, frames))
    assert first.written(log_offset) == second.written(log_offset)
    return taken


@given(requests | batches, st.sampled_from([0, 0, 1, 3000]))
def test_whatever_is_sent_answers_and_files_are_those_of_the_handlers(
    both: tuple[Side, Side], request_: dict[str, Any], later_ms: int
) -> None:
    for side in both:
        side.taking.clock.ms += later_ms
    agree(both, frame_of(request_))


@given(st.lists(requests | batches, min_size=2, max_size=8))
def test_what_comes_in_one_read_is_answered_and_stored_as_if_it_came_one_by_one(
    both: tuple[Side, Side], requests_: list[dict[str, Any]]
) -> None:
    agree(both, *map(frame_of, requests_))


def test_one_read_may_hold_more_than_one_run(both: tuple[Side, Side]) -> None:
    request = {"code": 310, "flag": 0, "version": 401, "body": b"x", "form": HeaderForm.BINARY}
    sends = [frame_of({**request, "opaque": number, "fields": FIELDS}) for number in range(700)]
    batch = encode_batch([BatchMessage(part, b"x" * 100, b"") for part in range(200)])
    fields = FIELDS | {"m": "true", "i": "WAIT\x01true\x02UNIQ_KEY\x017F01"}
    batches = [
        frame_of({**request, "code": 320, "opaque": number, "fields": fields, "body": batch}) for number in range(4)
    ]
    assert agree(both, *sends, *batches, *sends) > 1_000


LARGE_FILES = {
    "commit_log_segment_bytes": 16 << 20,
    "consume_queue_segment_bytes": 2_000_000,
    "index_slots": 1_000,
    "index_entries": 100_000,
    "message_bytes_max": 1 << 20,
}


@pytest.mark.parametrize("batched", [0, 100, 128, 200, 256])
def test_a_run_that_is_full_is_followed_by_others(tmp_path: Path, batched: int) -> None:
    # Where no file is full, that is: nothing but its length ends a run, and all of them are taken.
    both = Side(tmp_path / "fast_path", **LARGE_FILES), Side(tmp_path / "handlers", **LARGE_FILES)
    request: dict[str, Any] = {"flag": 0, "version": 401, "form": HeaderForm.BINARY}
    if batched:
        body = encode_batch([BatchMessage(part, b"x" * 100, b"UNIQ_KEY\x01A%d" % part) for part in range(batched)])
        request |= {"code": 320, "fields": FIELDS | {"m": "true", "i": "WAIT\x01true"}, "body": body}
    else:
        request |= {"code": 310, "fields": FIELDS, "body": b"x" * 100}
    frames = [frame_of({**request, "opaque": number}) for number in range(8 if batched else 700)]
    agree(both, *frames[:2])  # the first ones are for the handlers: they make the queue and the index file
    first, second = both
    for _ in range(2):
        answers, left = b"", frames
        while left:
            fast_answers, count = first.answer_fast(*left)
            assert fast_answers is not None
            answers, left = answers + fast_answers, left[count:]
        assert answers == b"".join(map(second.answer, frames))
    assert first.files() == second.files()


def test_the_end_of_a_read_may_be_the_middle_of_a_frame(both: tuple[Side, Side]) -> None:
    request = {"code": 310, "opaque": 1, "flag": 0, "version": 401, "body": b"x" * 50, "fields": FIELDS, "form": 0}
    frame = encode_frame(frame_of(request))
    fast_path = both[0].fast_path
    assert fast_path is not None
    before = both[0].taking.store.max_log_offset
    for end in range(len(frame)):
        assert fast_path(frame[:end], SENDER) == (None, 0, (0,) * len(fast_path.codes))
    assert both[0].taking.store.max_log_offset == before


@given(requests | batches, st.data())
def test_a_mutilated_frame_is_declined_or_answered_as_by_the_handlers(
    both: tuple[Side, Side], request_: dict[str, Any], data: st.DataObject
) -> None:
    frame = bytearray(frame_of(request_))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, min(len(frame) - 1, 400)))
        frame[at] = data.draw(st.integers(0, 255))
    agree(both, bytes(frame))


def test_usual_sends_are_taken_in_both_forms_even_when_files_are_full(both: tuple[Side, Side]) -> None:
    taken = 0
    for number in range(300):
        request = {"code": 310, "opaque": number, "flag": 0, "version": 401 + number % 2 * 20, "body": b"x" * 400}
        fields = FIELDS | {
            "e": str(number % QUEUES),
            "i": f"UNIQ_KEY\x01{number}\x02KEYS\x01k{number} z\x02WAIT\x01true",
        }
        frame = frame_of({**request, "fields": fields, "form": HeaderForm(number // 2 % 2)})
        taken += agree(both, frame)
    assert taken > 250


@given(st.permutations(list(FIELDS.items())), st.sampled_from(HeaderForm), st.sampled_from(["1", "2", "11", "é"]))
def test_fields_may_stand_in_any_order(
    both: tuple[Side, Side], fields: list[tuple[str, str]], form: HeaderForm, group: str
) -> None:
    request = {"code": 310, "opaque": 1, "flag": 0, "version": 401, "body": b"x" * 50, "form": form}
    frame = frame_of({**request, "fields": dict(fields) | {"a": group}})
    agree(both, frame, frame)


def test_producers_whose_headers_are_of_one_length_are_told_apart(both: tuple[Side, Side]) -> None:
    """Their groups are of one length, too, and only then come sizes that differ."""
    request = {"code": 310, "opaque": 1, "flag": 0, "version": 401, "body": b"x" * 50, "form": HeaderForm.BINARY}
    group = {"a": "a group with a name that is longer than most of them are"}
    frames = [
        frame_of({**request, "fields": FIELDS | group | {"c": "TBW" + "1" * size, "i": "x\x01" + "y" * (9 - size)}})
        for size in (1, 2, 3, 4, 5) * 3
    ]
    assert len(set(map(len, frames))) == 1
    assert agree(both, *frames) > 10


def test_more_layouts_of_headers_than_are_remembered_change_nothing(tmp_path: Path) -> None:
    both = Side(tmp_path / "fast_path", **LARGE_FILES), Side(tmp_path / "handlers", **LARGE_FILES)
    request = {"code": 310, "opaque": 1, "flag": 0, "version": 401, "body": b"x", "form": HeaderForm.BINARY}
    frames = [
        frame_of({**request, "fields": FIELDS | {"a": f"group-{number}", "i": "x\x01" + "y" * (number % 7)}})
        for number in range(1_200)
    ]
    agree(both, *frames[:2])
    assert agree(both, *frames, *frames[:50]) > 1_200
    assert both[0].files() == both[1].files()


@pytest.mark.parametrize("form", HeaderForm)
@pytest.mark.parametrize(("name", "value"), [("e", "2"), ("b", "Unknown"), ("m", "true"), ("i", "TAGS\x01TagB")])
def test_of_a_field_that_comes_twice_the_last_one_counts(
    both: tuple[Side, Side], form: HeaderForm, name: str, value: str
) -> None:
    request = {"code": 310, "opaque": 1, "flag": 0, "version": 401, "body": b"x" * 50, "form": form}
    frame = frame_of({**request, "fields": FIELDS | {"z": value}})
    old, new = ((f'"{one}":'.encode() if form is HeaderForm.JSON else b"\0\1" + one.encode()) for one in ("z", name))
    assert frame.count(old) == 1
    agree(both, frame.replace(old, new))


@pytest.mark.parametrize("code", [10, 320, 11])
def test_of_a_code_that_comes_twice_the_last_one_counts(both: tuple[Side, Side], code: int) -> None:
    request = {"code": 310, "opaque": 1, "flag": 0, "version": 401, "body": b"x" * 50, "form": HeaderForm.JSON}
    frame = frame_of({**request, "fields": FIELDS})
    header_bytes = int.from_bytes(frame[:4])
    header = frame[4 : 3 + header_bytes] + b',"code":%d}' % code
    agree(both, len(header).to_bytes(4) + header + b"x" * 50)


def test_messages_of_a_topic_with_several_tags_are_marked_as_such(tmp_path: Path) -> None:
    both = Side(tmp_path / "fast_path"), Side(tmp_path / "handlers")
    for side in both:
        side.taking.topics.update(TopicConfig(topic_name="Many", topic_filter_type=TopicFilterType.MULTI_TAG))
    request = {"code": 310, "opaque": 1, "flag": 0, "version": 401, "body": b"x", "form": HeaderForm.JSON}
    frames = [
        frame_of({**request, "fields": FIELDS | {"b": topic, "e": "0", "f": flag}})
        for topic in ("Many", TOPIC)
        for flag in ("0", "1", "2")
    ]
    assert agree(both, *frames, *frames) > 6
    flags = {record.sys_flag for record in both[0].taking.records("Many")}
    assert flags == {2, 3}
    assert both[0].files() == both[1].files()


def test_usual_batches_are_taken_in_both_forms(both: tuple[Side, Side]) -> None:
    taken = 0
    for number in range(100):
        batch = [BatchMessage(part, b"x" * 100, FIELDS["i"].encode()) for part in range(10)]
        fields = FIELDS | {"m": "true", "e": str(number % QUEUES), "i": "WAIT\x01true\x02UNIQ_KEY\x017F01"}
        request = {"code": 320, "opaque": number, "flag": 0, "version": 401 + number % 2 * 20}
        form = HeaderForm(number // 2 % 2)
        taken += agree(both, frame_of({**request, "fields": fields, "form": form, "body": encode_batch(batch)}))
    assert taken > 40


def test_nothing_is_taken_while_the_broker_is_busy_or_closed_and_new_settings_hold_at_once(tmp_path: Path) -> None:
    side = Side(tmp_path)
    frame = frame_of({"code": 310, "opaque": 1, "flag": 0, "version": 401, "body": b"x", "fields": FIELDS, "form": 0})
    side.answer(frame)  # makes the index file
    side.answer(frame)  # the hash of the topic is known from now on
    assert side.answer_fast(frame)[1] == 1
    side.taking.flow.busy = "much to do"
    assert side.answer_fast(frame)[1] == 0
    side.taking.flow.busy = None
    side.taking.change(region_id="elsewhere")
    answer, _ = side.answer_fast(frame)
    assert answer is not None
    assert b"elsewhere" in answer
    config = side.taking.topics.find(TOPIC)
    assert config is not None
    side.taking.topics.update(msgspec.structs.replace(config, perm=4))
    assert side.answer_fast(frame)[1] == 0
    side.taking.topics.update(config)
    side.answer(frame)
    assert side.answer_fast(frame)[1] == 1
    side.taking.close()
    assert side.answer_fast(frame)[1] == 0


@pytest.mark.parametrize("region", ["1234567890", "50%d", "<offset>", "\x01" * 900, "r" * 5_000])
def test_a_region_may_be_called_anything(tmp_path: Path, region: str) -> None:
    sides = Side(tmp_path / "fast_path"), Side(tmp_path / "handlers")
    for side in sides:
        side.taking.change(region_id=region)
    for form in (HeaderForm.JSON, HeaderForm.BINARY) * 2:
        request = {"code": 310, "opaque": 1234567890, "flag": 0, "version": 401, "body": b"x"}
        agree(sides, frame_of({**request, "fields": FIELDS, "form": form}))
    for side in sides:
        side.taking.close()
