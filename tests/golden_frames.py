"""The frames that Apache RocketMQ 4.9.8 wrote, for tests to read."""

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec

GOLDEN = Path(__file__).parent / "golden"


class GoldenFrame(msgspec.Struct, frozen=True):
    """One recorded frame and what the recorder knew about it."""

    number: int
    server: str  # "namesrv" or "broker"
    sent_by: str  # "client" or "server"
    request_code: int
    code: int
    response: bool
    opaque: int
    frame: bytes  # with its length prefix

    def __str__(self) -> str:
        kind = "reply" if self.response else "request"
        return f"{self.number}-{self.server}-{self.request_code}-{kind}-{self.code}"


def golden_frames(name: str) -> Iterator[GoldenFrame]:
    """Yield the frames of `frames-json.jsonl` or `frames-binary.jsonl`, in time order."""
    for number, line in enumerate((GOLDEN / name).read_text().splitlines(), start=1):
        row = json.loads(line)
        yield GoldenFrame(
            number=number,
            server=row["server"],
            sent_by=row["sent_by"],
            request_code=row["request_code"],
            code=row["code"],
            response=row["response"],
            opaque=row["opaque"],
            frame=bytes.fromhex(row["frame"]),
        )


ALL_FRAMES = [*golden_frames("frames-json.jsonl"), *golden_frames("frames-binary.jsonl")]
