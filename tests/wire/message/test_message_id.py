"""Message ids: where a message lies, and who made it when."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanabi.errors import MQError, RemoteProtocolError
from hanabi.message import Address
from hanabi.testing.clock import ManualClock
from hanabi.wire.command import decode_command
from hanabi.wire.message.hosts import decode_host, encode_host
from hanabi.wire.message.message_id import (
    UniqueIds,
    decode_offset_id,
    decode_unique_id,
    encode_offset_id,
    month_of,
)
from hanabi.wire.message.properties import parse_properties
from hanabi.wire.message.record import decode_record, decode_records
from hanabi.wire.message.stored import to_message
from tests.golden_frames import ALL_FRAMES
from tests.golden_records import STORES, frames_with_records, golden_logs

V4 = bytes([127, 0, 0, 1])
V6 = bytes.fromhex("fd000000000000000000000000000002")


def ms(year: int, month: int, day: int, hour: int = 0) -> int:
    return int(datetime(year, month, day, hour, tzinfo=UTC).timestamp()) * 1000


def test_golden_send_replies_name_the_place_of_the_stored_record() -> None:
    (log,) = golden_logs(STORES[0])
    replies = [decode_command(f.frame[4:]) for f in ALL_FRAMES if f.request_code in (310, 320) and f.response]
    texts = [text for reply in replies for text in reply.fields()["msgId"].split(",")]
    assert len(texts) > 10
    for text in texts:
        where = decode_offset_id(text)
        assert where.address == Address("127.0.0.1", 10971)
        assert encode_offset_id(where.store_host, where.log_offset) == text
    # the first ones lie at the same places in the recorded store
    for text in texts[:6]:
        record = decode_record(log, decode_offset_id(text).log_offset)
        assert to_message(record).offset_message_id == text


def test_the_golden_transaction_check_carries_both_ids_of_its_record() -> None:
    checks = [command for frame, command in frames_with_records() if frame.request_code == 39]
    assert checks
    for command in checks:
        (record,) = decode_records(command.body)
        fields, message = command.fields(), to_message(record)
        assert message.offset_message_id == fields["offsetMsgId"]
        assert message.message_id == fields["msgId"]
        assert message.log_offset == int(fields["commitLogOffset"])


def test_golden_unique_ids_tell_when_and_where_they_were_made() -> None:
    sends = [decode_command(f.frame[4:]) for f in ALL_FRAMES if f.request_code == 310 and not f.response]
    assert sends
    for command in sends:
        fields = command.fields()
        unique = decode_unique_id(parse_properties(fields["i"])["UNIQ_KEY"])
        assert unique.ip == "fd00::2"
        born_ms = int(fields["g"])
        assert 0 <= born_ms - unique.made_at_ms(born_ms) < 100  # the id is made just before the message is sent


def test_an_id_of_java_on_ipv6() -> None:
    text = "0000000000000000000000000000000100002A9F0000000000001092"
    where = decode_offset_id(text)
    assert where.address == Address("::1", 10911)
    assert where.log_offset == 4242
    assert encode_offset_id(encode_host("::1", 10911), 4242) == text


@given(st.one_of(st.binary(min_size=8, max_size=8), st.binary(min_size=20, max_size=20)), st.integers(0, 2**63 - 1))
def test_an_offset_id_comes_back_as_it_was(store_host: bytes, log_offset: int) -> None:
    text = encode_offset_id(store_host, log_offset)
    assert decode_offset_id(text) == (store_host, log_offset)
    assert text == text.upper()


@pytest.mark.parametrize("text", ["", "7F", "G" * 32, "0" * 31, "0" * 40, "  " * 16, "０" * 32, "0" * 30 + " 0"])
def test_what_is_no_id_is_refused(text: str) -> None:
    for decode in (decode_offset_id, decode_unique_id):
        with pytest.raises(RemoteProtocolError, match="message id"):
            decode(text)


@pytest.mark.parametrize("ip", [V4, V6], ids=["v4", "v6"])
def test_an_id_tells_who_made_it_and_when(ip: bytes) -> None:
    clock = ManualClock(ms(2026, 11, 30, 23))  # more than 2**31 milliseconds into the month
    ids = UniqueIds(clock, ip=ip, process_id=70_000, loader_hash=-5)
    first, second = ids.make(), ids.make()
    assert len(first) == 2 * (len(ip) + 12)
    unique = decode_unique_id(first)
    assert unique.ip == ("127.0.0.1" if ip is V4 else "fd00::2")
    assert unique.process_id == 70_000 & 0xFFFF
    assert unique.loader_hash == 2**32 - 5
    assert unique.made_at_ms(clock.ms) == clock.ms
    assert unique.made_at_ms(ms(2026, 12, 5)) == clock.ms
    assert (unique.counter, decode_unique_id(second).counter) == (0, 1)


def test_a_new_month_starts_to_count_from_zero() -> None:
    clock = ManualClock(ms(2027, 1, 31, 23))
    ids = UniqueIds(clock, ip=V4, process_id=1, loader_hash=1)
    ids.make()
    clock.ms = ms(2027, 2, 1) + 5
    assert decode_unique_id(ids.make()).since_month_ms == 5


def test_a_clock_set_back_over_the_start_of_a_month_does_not_give_a_negative_time() -> None:
    clock = ManualClock(ms(2027, 2, 1))
    ids = UniqueIds(clock, ip=V4, process_id=1, loader_hash=1)
    clock.ms -= 500
    assert decode_unique_id(ids.make()).since_month_ms == 0
    clock.ms = ms(2027, 1, 3)
    assert decode_unique_id(ids.make()).made_at_ms(clock.ms) == clock.ms


def test_threads_never_make_one_id_twice() -> None:
    ids = UniqueIds(ManualClock(ms(2027, 2, 1)), ip=V4, process_id=1, loader_hash=1)
    with ThreadPoolExecutor(4) as pool:
        made = [text for some in pool.map(lambda _: [ids.make() for _ in range(2000)], range(4)) for text in some]
    assert len(set(made)) == 8000


def test_the_counter_starts_again_after_16_bits() -> None:
    ids = UniqueIds(ManualClock(ms(2027, 2, 1)), ip=V4, process_id=1, loader_hash=1)
    made = [ids.make() for _ in range(2**16 + 1)]
    assert made[0] == made[-1]
    assert len(set(made)) == 2**16


def test_an_address_of_a_wrong_length_makes_no_ids() -> None:
    with pytest.raises(MQError, match="4 or 16"):
        UniqueIds(ManualClock(0), ip=b"\x7f\x00\x01", process_id=1, loader_hash=1)


@given(st.datetimes(datetime(1970, 1, 2), datetime(2400, 12, 30)), st.integers(-12, 14))
def test_months_are_those_of_the_calendar(moment: datetime, zone_hours: int) -> None:
    zone = timedelta(hours=zone_hours)
    start = moment.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    following = (start + timedelta(days=32)).replace(day=1)
    epoch = datetime(1970, 1, 1)  # all of this is in one zone, *zone*
    now_ms = (moment - epoch - zone) // timedelta(milliseconds=1)
    expected = tuple((at - epoch - zone) // timedelta(milliseconds=1) for at in (start, following))
    assert month_of(now_ms, zone // timedelta(milliseconds=1)) == expected


@pytest.mark.parametrize("year", [2000, 2023, 2024, 2100])
def test_february_ends_where_it_should(year: int) -> None:
    assert month_of(ms(year, 2, 28, 23)) == (ms(year, 2, 1), ms(year, 3, 1))
    assert month_of(ms(year, 3, 1)) == (ms(year, 3, 1), ms(year, 4, 1))


def test_hosts_come_back_as_they_were() -> None:
    for address in (Address("10.1.2.3", 65535), Address("fd00::2", 0)):
        assert decode_host(encode_host(*address)) == address
    assert encode_host("fe80::1%eth0", 1) == encode_host("fe80::1", 1)


@pytest.mark.parametrize(("host", "port"), [("localhost", 1), ("", 1), ("127.0.0.1", -1), ("1.2.3.4.5", 1)])
def test_what_is_no_address_in_figures_cannot_be_stored(host: str, port: int) -> None:
    with pytest.raises(MQError, match="cannot be stored"):
        encode_host(host, port)


@pytest.mark.parametrize("size", [0, 4, 7, 9, 16, 21])
def test_a_host_of_another_length_is_refused(size: int) -> None:
    with pytest.raises(RemoteProtocolError, match="8 or 20"):
        decode_host(bytes(size))
