"""The attackers: connections that send what nobody should, read the answers or not, and go in every way there is."""

import asyncio
import contextlib
import random
import socket
import struct
from collections import Counter
from collections.abc import Sequence
from typing import Final

from chaos.fuzz.mutate import mutated
from chaos.fuzz.requests import conversation, is_harmful, strange
from hanabi.errors import RemoteProtocolError
from hanabi.wire.command import decode_command
from hanabi.wire.frame import FrameDecoder

FRAMES_A_CONNECTION: Final = 12
READ_S: Final = 0.3
CONNECT_S: Final = 5.0
STYLES: Final = ("mutated", "strange", "conversation", "garbage", "half a frame", "deaf")
_WEIGHTS: Final = (40, 30, 20, 4, 3, 3)
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


class Attackers:
    """So many connections at a time against one server. `sent` counts frames, `answers` the codes that came back."""

    def __init__(
        self, dice: random.Random, address: tuple[str, int], frames: Sequence[bytes], *, pause_s: float
    ) -> None:
        """*frames* are good ones, with their length in front; *pause_s* is between two frames of one attacker."""
        self._dice, self._address, self._frames, self._pause_s = dice, address, list(frames), pause_s
        self._bodies = [body for frame in frames if (body := _body_of(frame))]
        self.sent: Counter[str] = Counter()
        self.connections = 0
        self.refused = 0
        self.nonsense: list[str] = []  # what came back and is not our protocol
        self.answers: Counter[int] = Counter()

    async def run(self, count: int, seconds: float) -> None:
        """*count* of them, for so many *seconds*; all are gone when it returns."""
        ends = asyncio.get_running_loop().time() + seconds
        await asyncio.gather(*(self._attacker(random.Random(self._dice.random()), ends) for _ in range(count)))

    async def _attacker(self, dice: random.Random, ends: float) -> None:
        loop = asyncio.get_running_loop()
        while loop.time() < ends:
            style = dice.choices(STYLES, _WEIGHTS)[0]
            try:
                async with asyncio.timeout(CONNECT_S):
                    reader, writer = await asyncio.open_connection(*self._address)
            except (OSError, TimeoutError):
                self.refused += 1
                await asyncio.sleep(0.2)
                continue
            self.connections += 1
            try:
                async with asyncio.timeout_at(ends + 1.0):
                    await self._converse(dice, style, reader, writer)
            except (OSError, TimeoutError, asyncio.IncompleteReadError):
                pass  # hung up on us, as it may
            finally:
                _leave(dice, writer)

    async def _converse(
        self, dice: random.Random, style: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        reading = None if style == "deaf" else asyncio.ensure_future(self._read(reader))
        try:
            for frame in self._frames_of(dice, style):
                writer.write(frame)
                self.sent[style] += 1
                await writer.drain()
                await asyncio.sleep(self._pause_s * dice.uniform(0.2, 1.8))
            await asyncio.sleep(READ_S)
        finally:
            if reading is not None:
                reading.cancel()
                (ended,) = await asyncio.gather(reading, return_exceptions=True)
                if isinstance(ended, RemoteProtocolError):
                    self.nonsense.append(str(ended))

    def _frames_of(self, dice: random.Random, style: str) -> list[bytes]:
        count = dice.randint(1, FRAMES_A_CONNECTION)
        match style:
            case "conversation":
                return conversation(dice)
            case "garbage":
                return [dice.randbytes(dice.randint(1, 5_000))]
            case "half a frame":
                frame = dice.choice(self._frames)
                return [frame[: dice.randint(1, len(frame) - 1)]]
            case "strange":
                frames = [strange(dice, self._bodies) for _ in range(count)]
            case _:
                frames = [mutated(dice, dice.choice(self._frames), self._frames) for _ in range(count)]
        return [frame for frame in frames if not is_harmful(frame)]

    async def _read(self, reader: asyncio.StreamReader) -> None:
        decoder = FrameDecoder()
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                for frame in decoder.feed(data):  # a server that answers with nonsense is an error, and ends this
                    self.answers[decode_command(frame).code] += 1


def _leave(dice: random.Random, writer: asyncio.StreamWriter) -> None:
    """In order, or with a reset."""
    raw = writer.get_extra_info("socket")
    if raw is not None and dice.random() < 0.5:
        with contextlib.suppress(OSError):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    writer.transport.abort()


def _body_of(frame: bytes) -> bytes:
    try:
        return bytes(decode_command(frame[4:]).body)
    except RemoteProtocolError:
        return b""
