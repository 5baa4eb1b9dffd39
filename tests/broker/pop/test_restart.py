"""A broker that stops and starts again: what is in flight stays in flight, and expires in time."""

from pathlib import Path

from hanabi.testing.clock import MovableClock
from tests.broker.popping import popping


async def test_messages_in_flight_stay_hidden_and_acknowledged_ones_stay_gone(tmp_path: Path) -> None:
    clock = MovableClock()
    async with popping(tmp_path, clock=clock) as peer:
        await peer.send(b"a", b"b", b"c", b"d")
        found = await peer.pop(max_msg_nums=3)
        await peer.ack(*found[1])
    async with popping(tmp_path, clock=clock) as peer:
        assert (peer.committed(), peer.in_flight) == (0, 2)
        assert await peer.bodies() == [b"d"]
        await peer.ack(*found[0])
        assert peer.committed() == 2
        peer.advance(61)
        assert sorted(await peer.bodies(poll_time=5_000, max_msg_nums=1)) in ([b"c"], [b"d"])


async def test_messages_that_expired_while_the_broker_was_down_come_at_once(tmp_path: Path) -> None:
    clock = MovableClock()
    async with popping(tmp_path, clock=clock) as peer:
        await peer.send(b"a")
        await peer.pop(invisible_time=1_000)
    clock.on_move = lambda: None
    clock.advance(seconds=10)
    async with popping(tmp_path, clock=clock) as peer:
        assert await peer.bodies(poll_time=5_000) == [b"a"]
