"""A broker in a small container lives through what fits its limits, but not its memory."""

import asyncio
import struct
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from hanabi.wire.codes import RequestCode, ResponseCode
from tests.broker.talk import connected
from tests.faults.broker_process import broker_process
from tests.faults.limits import LimitUnavailable, limits
from tests.remoting.peers import raw_peer

MB = 1 << 20
FRAME_BYTES, PEERS = 15 * MB, 30


@contextmanager
def small_container(memory_bytes: int) -> Iterator[list[str]]:
    try:
        with limits(memory_bytes=memory_bytes) as launcher:
            yield launcher
    except LimitUnavailable as unavailable:
        pytest.skip(str(unavailable))


def test_thirty_half_frames_of_15_mb_do_not_kill_a_broker_that_has_90_mb(tmp_path: Path) -> None:
    async def attack(address: str) -> None:
        async with AsyncExitStack() as stack:
            peers = [await stack.enter_async_context(raw_peer(address)) for _ in range(PEERS)]
            for peer in peers:
                peer.send(struct.pack(">I", FRAME_BYTES))
            for _ in range(14):
                for peer in peers:
                    peer.send(bytes(MB))
                    with suppress(ConnectionError):  # dropped, as it should be
                        await peer.writer.drain()
            async with connected(address) as client:
                reply = await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
                assert reply.code == ResponseCode.SUCCESS

    with (
        small_container(90 * MB) as launcher,
        broker_process(tmp_path / "store", around=launcher) as broker,
    ):
        address = f"127.0.0.1:{broker.port}"
        asyncio.run(attack(address))
        log = broker.process.output()
        assert "90 MB of memory: peers may fill 11 MB of it with incomplete frames" in log
        assert "bytes of an incomplete frame, all peers together" in log
        broker.process.stop()
