"""A server process with a large home, another client that watches it, and inputs sent one after the other."""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from hanabi.broker.handlers.admin.support.limits import QUEUES_MAX
from hanabi.message import MessageQueue
from hanabi.wire.bodies.offsets import ConsumerStatus
from hanabi.wire.codes import RequestCode, request_name
from hanabi.wire.command import Command, decode_command, encode_request
from hanabi.wire.fastjson import encode_body
from hanabi.wire.headers.send import SendMessageV2Header
from tests.broker.talk import Peer
from tests.interop.processes import ServerProcess
from tests.watchdog.broker_inputs import LARGEST_BODY, MEMBER, MEMBER_GROUP, PRODUCER_GROUP, consumer, heartbeat
from tests.watchdog.large_home import BUSY, CONF, WIDE
from tests.watchdog.stall import Stall, longest
from tests.watchdog.worst_input import World, Worst

STALL_S_MAX: Final = 0.2
TRIES: Final = 3
SETTLE_S: Final = 0.1  # for what a request leaves to be done after its answer
ANSWER_S: Final = 120.0
HEARTBEAT_S: Final = 30.0


OFFSETS_OF_A_CLIENT: Final = encode_body(
    ConsumerStatus(message_queue_table={MessageQueue(WIDE, "broker-a", number): 1 for number in range(QUEUES_MAX)})
)


class Servers:
    """`hanabi serve` with a home, on free ports."""

    def __init__(self, folder: Path, home: Path) -> None:
        conf = folder / "broker.conf"
        conf.write_text(CONF)
        command = [sys.executable, "-m", "hanabi", "serve", "-c", str(conf), "--home", str(home)]
        self._process = ServerProcess(
            "hanabi serve", [*command, "--namesrv-port", "0", "--broker-port", "0"], folder / "console.log"
        )
        self.pid = self._process.pid
        self.namesrv = self._process.wait_for_line("ready namesrv ").split()[-1]
        self.broker = self._process.wait_for_line("ready broker ").split()[-1]

    def stop(self) -> None:
        self._process.stop()

    def kill(self) -> None:
        self._process.kill()


class Probe:
    """The other client, and what it saw."""

    def __init__(self, servers: Servers, file: Path) -> None:
        host, _, port = servers.broker.rpartition(":")
        self._file = file
        command = [sys.executable, "-m", "tests.watchdog.probe", host, port, str(servers.pid), str(file)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE)
        while not (file.exists() and file.read_bytes()):
            assert self._process.poll() is None, "the probe does not start"
            time.sleep(0.01)

    def stalls(self) -> list[Stall]:
        assert self._process.poll() is None, "the probe has ended"
        lines = self._file.read_bytes().splitlines()[1:]
        return [msgspec.json.decode(line, type=Stall) for line in lines]

    def stop(self) -> None:
        self._process.communicate()


class Watch:
    """Sends inputs and says how long the probe had to wait meanwhile."""

    def __init__(self, world: World, probe: Probe) -> None:
        self.world, self._probe = world, probe

    async def stall_s(self, code: int, worst: Worst, address: str) -> float:
        """Return the shortest stall of a few tries: a stall of the server comes again, one of the machine does not."""
        least = float("inf")
        for _ in range(TRIES):
            least = min(least, await self._try(code, worst, address))
            if least <= STALL_S_MAX:
                break
        return least

    async def stall_until_s(self, is_over: Callable[[], bool]) -> float:
        """Return the longest stall until something is over that the server does by itself."""
        begin = time.monotonic()
        async with asyncio.timeout(ANSWER_S):
            while not is_over():  # noqa: ASYNC110 - another process does it
                await asyncio.sleep(SETTLE_S)
        return longest(self._probe.stalls(), begin, time.monotonic())

    async def storm_s(self, frames: Sequence[bytes], connections: int) -> float:
        """Measure as `stall_s` does, for *frames* sent at once on each of many connections."""
        least = float("inf")
        for _ in range(TRIES):
            least = min(least, await self._storm(frames, connections))
            if least <= STALL_S_MAX:
                break
        return least

    async def _storm(self, frames: Sequence[bytes], connections: int) -> float:
        peers = [await asyncio.open_connection(*_host_and_port(self.world.broker)) for _ in range(connections)]
        begin = time.monotonic()
        async with asyncio.timeout(ANSWER_S):
            await asyncio.gather(*(_ask_on(reader, writer, frames) for reader, writer in peers))
        await asyncio.sleep(SETTLE_S)
        end = time.monotonic()
        for _, writer in peers:
            writer.close()
        return longest(self._probe.stalls(), begin, end)

    async def _try(self, code: int, worst: Worst, address: str) -> float:
        world = self.world
        world.round += 1
        if worst.before is not None:
            await worst.before(world)
        requests = worst.requests(world)
        frames = [encode_request(code, number, each.header, each.body) for number, each in enumerate(requests)]
        begin = time.monotonic()
        async with asyncio.timeout(ANSWER_S):
            answers = await _ask_all(address, frames)
        await asyncio.sleep(SETTLE_S)
        for answer in answers:
            assert answer.code in worst.answers, f"{request_name(code)}: {answer.code} {answer.remark}"
        return longest(self._probe.stalls(), begin, time.monotonic())


async def _ask_all(address: str, frames: Sequence[bytes]) -> list[Command]:
    """Send all *frames* at once, and close the connection when all are answered. Answers may be of any length."""
    reader, writer = await asyncio.open_connection(*_host_and_port(address), limit=1 << 24)
    try:
        return await _ask_on(reader, writer, frames)
    finally:
        writer.close()


async def _ask_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, frames: Sequence[bytes]) -> list[Command]:
    writer.writelines(frames)
    answers: list[Command] = []
    while len(answers) < len(frames):
        frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
        command = decode_command(frame, len(frame))
        if command.is_response:  # and no notice
            answers.append(command)
    return answers


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


@asynccontextmanager
async def watching(folder: Path, servers: Servers) -> AsyncIterator[Watch]:
    """Yield a watch over running *servers*."""
    member = await Peer.connect(servers.broker)
    serving = asyncio.gather(_answer(member), _stay(member))
    probe = await asyncio.to_thread(Probe, servers, folder / "stalls.jsonl")
    try:
        world = World(servers.broker, servers.namesrv, member)
        await _prepare(world)
        yield Watch(world, probe)
    finally:
        await asyncio.to_thread(probe.stop)
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving
        await member.close()


async def _answer(member: Peer) -> None:
    """Answer whatever the broker asks; notices want no answer, and do not mind one."""
    while True:
        with suppress(TimeoutError):
            request = await member.request()
            of_offsets = request.code == RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT
            member.reply(request, body=OFFSETS_OF_A_CLIENT if of_offsets else b"{}")


async def _stay(member: Peer) -> None:
    """Give signs of life."""
    while True:
        await asyncio.sleep(HEARTBEAT_S)
        await _beat(member)


async def _beat(member: Peer) -> None:
    body = heartbeat(MEMBER, [consumer(MEMBER_GROUP, [])], [PRODUCER_GROUP])
    assert (await member.ask(RequestCode.HEART_BEAT, None, body)).code == 0


async def _prepare(world: World) -> None:
    """Join groups, and send a message of the largest size."""
    await _beat(world.member)
    header = SendMessageV2Header(
        producer_group=PRODUCER_GROUP,
        topic=BUSY,
        default_topic="TBW102",
        default_topic_queue_nums=1,
        queue_id=2,
        sys_flag=0,
        born_timestamp=1,
        flag=0,
        properties="",
    )
    answer = await world.member.ask(RequestCode.SEND_MESSAGE_V2, header, LARGEST_BODY)
    world.large_message_id = answer.fields()["msgId"]
    world.large_message = int(world.large_message_id[16:], 16)
