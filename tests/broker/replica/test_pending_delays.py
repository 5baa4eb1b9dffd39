"""Delayed and timed messages that wait when their master dies are delivered by the promoted slave: each, and once."""

from pathlib import Path

from hanabi.broker.config import BrokerConfig
from hanabi.testing.cluster import running_broker
from hanabi.testing.topics import create_topic
from hanabi.testing.waiting import eventually
from hanabi.wire.codes import RequestCode
from hanabi.wire.message.record import decode_records
from tests.broker.replica.pairs import running_pair
from tests.broker.replica.test_slave import TOPIC, end_of, send_header
from tests.broker.talk import Peer
from tests.store.stores import copy_as_after_a_kill

LEVELS = "1s 2s 3s 4s"
WAITS = [f"DELAY\x01{level}\x02" for level in (1, 2, 3, 4)] + [
    f"TIMER_DELAY_MS\x01{ms}\x02" for ms in (600, 1_500, 4_000)
]
EACH = 6


async def test_all_that_wait_when_the_master_dies_are_delivered_once_by_the_promoted_slave(tmp_path: Path) -> None:
    async with running_pair(tmp_path, master={"message_delay_levels": LEVELS}, message_delay_levels=LEVELS) as pair:
        await create_topic(pair.master, TOPIC, queues=1)
        await pair.synced()
        producer = await Peer.connect(pair.master.address)
        wanted = [f"{number}".encode() for number in range(EACH * len(WAITS))]
        for number, body in enumerate(wanted):
            delayed = send_header(properties=WAITS[number % len(WAITS)])
            assert (await producer.ask(RequestCode.SEND_MESSAGE_V2, delayed, body)).code == 0
        await producer.close()
        # Some are delivered by the master, after the last copy of the progress of its delays; most are not.
        await eventually(lambda: end_of(pair.slave) >= EACH, "the slave has some deliveries")
        killed = copy_as_after_a_kill(pair.slave.store, tmp_path / "killed")
    async with running_broker(killed, BrokerConfig(broker_name="broker-a", message_delay_levels=LEVELS)) as promoted:
        assert end_of(promoted) >= EACH
        await eventually(lambda: end_of(promoted) >= len(wanted), "all are delivered")
        last = send_header(properties=WAITS[3])  # of the slowest level: a repeated one would come before it
        producer = await Peer.connect(promoted.address)
        assert (await producer.ask(RequestCode.SEND_MESSAGE_V2, last, b"last")).code == 0
        timed = send_header(properties="TIMER_DELAY_MS\x014500\x02")
        assert (await producer.ask(RequestCode.SEND_MESSAGE_V2, timed, b"last timed")).code == 0
        await producer.close()
        await eventually(lambda: end_of(promoted) >= len(wanted) + 2, "the last ones are delivered")
        found = [
            bytes(record.body)
            for start in range(0, len(wanted) + 2, 16)
            for piece in promoted.store.get(TOPIC, 0, start, 16).slices
            for record in decode_records(piece)
        ]
        assert sorted(found) == sorted([*wanted, b"last", b"last timed"])
