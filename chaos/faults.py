"""What each fault does to the world, and how it is healed. Every function returns when its fault is over."""

import asyncio
import contextlib
import errno
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Final

import msgspec

from chaos.plan import Fault, FaultKind
from chaos.world import World
from tests.faults.shim import Rule

STORES: Final = "*/store-*"
LOGS: Final = "*/store-*/commitlog/*"
HALF_FRAMES: Final = 8
HALF_FRAME_BYTES: Final = 2 << 20


class Played(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that happened. Moments are of the monotonic clock; *ready_s*: from its server's start to ready."""

    fault: Fault
    began: float
    ended: float
    ready_s: float | None = None


async def play(fault: Fault, world: World) -> Played:
    """Do it, heal it, and say when that was."""
    began = time.monotonic()
    ready_s = await _PLAY[fault.kind](fault, world)
    return Played(fault=fault, began=began, ended=time.monotonic(), ready_s=ready_s)


# Servers


async def _broker_kill(fault: Fault, world: World) -> float | None:
    server = world.servers[fault.target]
    await asyncio.to_thread(server.kill)
    await asyncio.sleep(fault.seconds)
    await asyncio.to_thread(server.start)
    return server.ready_s[-1]


async def _broker_pause(fault: Fault, world: World) -> None:
    server = world.servers[fault.target]
    server.pause()
    try:
        await asyncio.sleep(fault.seconds)
    finally:
        server.go_on()


async def _broker_restart(fault: Fault, world: World) -> float | None:
    server = world.servers[fault.target]
    await asyncio.to_thread(server.stop)
    await asyncio.sleep(fault.seconds)
    await asyncio.to_thread(server.start)
    return server.ready_s[-1]


async def _recovery_kill(fault: Fault, world: World) -> float | None:
    """Kill it, and again while it starts, each time a little later than the time before."""
    server = world.servers[fault.target]
    await asyncio.to_thread(server.kill)
    for number in range(round(fault.amount)):
        server.begin()
        await asyncio.sleep(fault.seconds * (number + 1))
        await asyncio.to_thread(server.kill)
    await asyncio.to_thread(server.start)
    return server.ready_s[-1]


async def _disk_full(fault: Fault, world: World) -> None:
    assert world.disk is not None
    await asyncio.to_thread(world.disk.fill)
    try:
        await asyncio.sleep(fault.seconds)
    finally:
        await asyncio.to_thread(world.disk.free)
    world.servers[fault.target].check_running()


async def _clock_jump(fault: Fault, world: World) -> None:
    """There, and after a while back again: two jumps, one in each direction."""
    clock = world.clocks[fault.target]
    clock.shift(fault.amount)
    try:
        await asyncio.sleep(fault.seconds)
    finally:
        clock.shift(0.0)
    world.servers[fault.target].check_running()


async def _while_rules(fault: Fault, world: World, *rules: AbstractContextManager[Rule]) -> None:
    with contextlib.ExitStack() as stack:
        for rule in rules:
            stack.enter_context(rule)
        await asyncio.sleep(fault.seconds)
    world.servers[fault.target].check_running()


async def _disk_slow(fault: Fault, world: World) -> None:
    rule = world.systems[fault.target].rule
    await _while_rules(
        fault, world, *(rule(call, path=STORES, delay_s=fault.amount) for call in ("fsync", "fdatasync", "msync"))
    )


async def _flush_failed(fault: Fault, world: World) -> float | None:
    """Let one flush of the log fail: the broker takes no messages until an operator restarts it, who does."""
    rule = world.systems[fault.target].rule
    calls = (rule(call, errno.EIO, path=LOGS, times=1) for call in ("fdatasync", "msync"))
    await _while_rules(fault, world, *calls)
    return await _broker_restart(fault, world)


async def _no_threads(fault: Fault, world: World) -> None:
    await _while_rules(fault, world, world.systems[fault.target].rule("pthread_create", errno.EAGAIN))


async def _no_files(fault: Fault, world: World) -> None:
    rule = world.systems[fault.target].rule
    await _while_rules(fault, world, rule("open", errno.EMFILE, path=STORES), rule("mmap", errno.ENOMEM, path=STORES))


async def _memory_limit(fault: Fault, world: World) -> float | None:
    """Leave the broker hardly any memory, and send it half frames. If the kernel kills it, an operator starts it again,
    with more memory."""
    memory, server = world.memory[fault.target], world.servers[fault.target]
    await asyncio.to_thread(memory.squeeze, round(fault.amount * (1 << 20)))
    try:
        async with _half_frames(world.addresses[fault.target]):
            await asyncio.to_thread(server.wait_ended, fault.seconds)
    finally:
        memory.release()
    if not server.was_killed():
        server.check_running()
        return None
    await asyncio.to_thread(server.start)
    return server.ready_s[-1]


@asynccontextmanager
async def _half_frames(address: str) -> AsyncIterator[None]:
    """Let a server hold 16 MiB of frames that never end."""
    host, _, port = address.rpartition(":")
    writers: list[asyncio.StreamWriter] = []
    with contextlib.suppress(OSError):  # it may be dead already
        for _ in range(HALF_FRAMES):
            _, writer = await asyncio.open_connection(host, int(port))
            writers.append(writer)
            writer.write((4 * HALF_FRAME_BYTES).to_bytes(4, "big") + bytes(HALF_FRAME_BYTES))
    try:
        yield
    finally:
        for writer in writers:
            writer.transport.abort()


# The network


async def _cut(fault: Fault, world: World) -> None:
    proxy = world.proxies[fault.target]
    proxy.refusing = True
    proxy.cut()
    try:
        await asyncio.sleep(fault.seconds)
    finally:
        proxy.refusing = False


async def _delay(fault: Fault, world: World) -> None:
    proxy = world.proxies[fault.target]
    proxy.latency_s = fault.amount
    try:
        await asyncio.sleep(fault.seconds)
    finally:
        proxy.latency_s = 0.0


async def _stall(fault: Fault, world: World) -> None:
    proxy = world.proxies[fault.target]
    proxy.stall()
    try:
        await asyncio.sleep(fault.seconds)
    finally:
        proxy.go_on()


# Clients


async def _consumer_join(fault: Fault, world: World) -> None:
    joined = world.consumers.start()
    await asyncio.sleep(fault.seconds)
    world.consumers.running.remove(joined)
    await asyncio.to_thread(joined.leave)


async def _consumer_leave(fault: Fault, world: World) -> None:
    await asyncio.to_thread(world.consumers.take(fault.target).leave)
    await asyncio.sleep(fault.seconds)
    world.consumers.start()


async def _consumer_kill(fault: Fault, world: World) -> None:
    await asyncio.to_thread(world.consumers.take(fault.target).kill)
    await asyncio.sleep(fault.seconds)
    world.consumers.start()


async def _consumer_pause(fault: Fault, world: World) -> None:
    chosen = world.consumers.choose(fault.target)
    chosen.signal(signal.SIGSTOP)
    try:
        await asyncio.sleep(fault.seconds)
    finally:
        with contextlib.suppress(ProcessLookupError):
            chosen.signal(signal.SIGCONT)


async def _producer_kill(fault: Fault, world: World) -> None:
    await asyncio.to_thread(world.producers.take(fault.target).kill)
    await asyncio.sleep(fault.seconds)
    world.producers.start()


_PLAY: Final[dict[FaultKind, Callable[[Fault, World], Awaitable[float | None]]]] = {
    FaultKind.BROKER_KILL: _broker_kill,
    FaultKind.BROKER_DOWN: _broker_kill,
    FaultKind.BROKER_PAUSE: _broker_pause,
    FaultKind.BROKER_RESTART: _broker_restart,
    FaultKind.RECOVERY_KILL: _recovery_kill,
    FaultKind.NAMESRV_KILL: _broker_kill,
    FaultKind.DISK_FULL: _disk_full,
    FaultKind.CLOCK_JUMP: _clock_jump,
    FaultKind.DISK_SLOW: _disk_slow,
    FaultKind.FLUSH_FAILED: _flush_failed,
    FaultKind.NO_THREADS: _no_threads,
    FaultKind.NO_FILES: _no_files,
    FaultKind.MEMORY_LIMIT: _memory_limit,
    FaultKind.CUT: _cut,
    FaultKind.DELAY: _delay,
    FaultKind.STALL: _stall,
    FaultKind.CONSUMER_JOIN: _consumer_join,
    FaultKind.CONSUMER_LEAVE: _consumer_leave,
    FaultKind.CONSUMER_KILL: _consumer_kill,
    FaultKind.CONSUMER_PAUSE: _consumer_pause,
    FaultKind.PRODUCER_KILL: _producer_kill,
}
