"""A whole broker, asked by a client: messages wait, and come to those who pull."""

from pathlib import Path

import msgspec

from hanabi.broker.config import BrokerConfig
from hanabi.testing.clock import ManualClock
from hanabi.testing.cluster import running_broker
from hanabi.testing.waiting import eventually
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.headers.send import SendMessageV2Header
from hanabi.wire.message.properties import format_properties
from hanabi.wire.system_names import SCHEDULE_TOPIC, TIMER_TOPIC
from tests.broker.delay.world import HOUR
from tests.broker.talk import Peer, connected

BROKER = BrokerConfig(broker_name="broker-a", message_delay_levels="1s 2h")
HEADER = SendMessageV2Header(
    producer_group="shop",
    topic="Orders",
    default_topic="TBW102",
    default_topic_queue_nums=4,
    queue_id=2,
    sys_flag=0,
    born_timestamp=1,
    flag=0,
    properties="",
)


async def send(peer: Peer, body: bytes, **properties: object) -> Command:
    text = format_properties({name: str(value) for name, value in properties.items()})
    return await peer.ask(RequestCode.SEND_MESSAGE_V2, msgspec.structs.replace(HEADER, properties=text), body)


async def test_both_kinds_of_waiting_end_in_the_topic_that_was_asked_for(directory: Path) -> None:
    clock = ManualClock()
    async with running_broker(directory, BROKER, now_ms=clock) as broker, connected(broker.address) as peer:
        assert (await send(peer, b"level", DELAY=2, WAIT="true")).code == ResponseCode.SUCCESS
        assert (await send(peer, b"time", TIMER_DELAY_SEC=3 * 86_400)).code == ResponseCode.SUCCESS
        assert (await send(peer, b"past", TIMER_DELIVER_MS=5)).code == ResponseCode.SUCCESS
        reader = broker.store.reader
        assert reader.max_offset("Orders", 2) == 1
        assert (reader.max_offset(SCHEDULE_TOPIC, 1), reader.max_offset(TIMER_TOPIC, 0)) == (1, 1)
        refused = await send(peer, b"x", TIMER_DELAY_SEC=3 * 86_400 + 1)
        assert refused.code == ResponseCode.MESSAGE_ILLEGAL
        assert "the max delay 259200000ms" in (refused.remark or "")
        assert (await send(peer, b"x", DELAY="soon")).code == ResponseCode.MESSAGE_ILLEGAL
        clock.ms += 2 * HOUR
        assert (await send(peer, b"next", DELAY=1)).code == ResponseCode.SUCCESS
        broker.services.delivery._alarm.wake()  # the clock of this test does not tick by itself
        await eventually(lambda: reader.max_offset("Orders", 2) == 2)
    clock.ms += 70 * HOUR
    async with running_broker(directory, BROKER, now_ms=clock) as broker:
        reader = broker.store.reader
        await eventually(lambda: reader.max_offset("Orders", 2) == 4)
        assert reader.max_offset("Orders", 2) == 4


async def test_after_the_clock_was_set_back_a_message_waits_as_long_as_its_level_says(directory: Path) -> None:
    """Found by chaos: the store's times never go back, so such messages seemed to wait too long, and came at once."""
    clock = ManualClock()
    async with running_broker(directory, BROKER, now_ms=clock) as broker, connected(broker.address) as peer:
        await send(peer, b"before")
        clock.ms -= HOUR
        await send(peer, b"waits for a second", DELAY=1)
        reader, delivery = broker.store.reader, broker.services.delivery
        assert delivery.step() == clock.ms + 1_000
        assert (reader.max_offset("Orders", 2), reader.max_offset(SCHEDULE_TOPIC, 0)) == (1, 1)
        clock.ms += 1_000
        delivery.step()
        assert reader.max_offset("Orders", 2) == 2


async def test_after_the_clock_was_ahead_for_a_while_messages_come_at_their_time(directory: Path) -> None:
    """Found by chaos: what the timer had done by the wrong clock, it did not look at again until the right one came."""
    clock = ManualClock()
    async with running_broker(directory, BROKER, now_ms=clock) as broker, connected(broker.address) as peer:
        await send(peer, b"soon", TIMER_DELIVER_MS=clock.ms + 3_000)
        clock.ms += HOUR
        while broker.services.timer.step() <= clock.ms:
            pass
        assert broker.store.reader.max_offset("Orders", 2) == 1
    clock.ms -= HOUR
    for count in (2, 3):  # the second time what waits is in the files
        async with running_broker(directory, BROKER, now_ms=clock) as broker, connected(broker.address) as peer:
            await send(peer, b"in two seconds", TIMER_DELIVER_MS=clock.ms + 2_000)
            await send(peer, b"in four", TIMER_DELIVER_MS=clock.ms + 4_000)
            for seconds in (1, 1):
                clock.ms += seconds * 1_000
                while broker.services.timer.step() <= clock.ms:
                    pass
            assert broker.store.reader.max_offset("Orders", 2) == 2 * count - 2
        clock.ms += 2_000
        async with running_broker(directory, BROKER, now_ms=clock) as broker:
            while broker.services.timer.step() <= clock.ms:
                pass
            assert broker.store.reader.max_offset("Orders", 2) == 2 * count - 1
