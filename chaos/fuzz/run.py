"""One live fuzz: servers, a normal client, and attackers in bursts with quiet in between; then the judgement."""

import asyncio
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from chaos.fuzz.attack import Attackers
from chaos.fuzz.vitals import FIELDS, Vitals, growth, hogged, quiet
from chaos.fuzz.witness import Witness
from tests.golden_frames import ALL_FRAMES

ATTACKERS: Final = 24  # against each server
PAUSE_S: Final = 0.12
BURST_S: Final = 20.0
QUIET_S: Final = 5.0
SETTLE_S: Final = 2.0  # after the last attacker has gone
START_S: Final = 60.0
SLOW_S: Final = 15.0  # nothing that the normal client asks for may take longer, on a machine that is busy with us

CONF: Final = """\
brokerName=broker-a
mappedFileSizeCommitLog=16777216
mappedFileSizeConsumeQueue=60000
maxHashSlotNum=5000
maxIndexNum=20000
messageDelayLevel=1s 2s 3s
transactionTimeOut=2000
transactionCheckInterval=2000
topicsMax=300
groupsMax=300
waitTimeMillsInSendQueue=10000
"""
_COMPLAINT: Final = re.compile(r"^Traceback|was never retrieved|never awaited|MemoryError")

Tell = Callable[[str], None]


class FuzzReport(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about one live fuzz."""

    seed: int
    seconds: float
    frames: dict[str, int]
    connections: int
    answers: dict[int, int]  # by code
    witness_sent: int
    witness_send_s: dict[str, float]
    witness_delivery_s: dict[str, float]
    busy_s: float  # the longest that the servers' loop worked without a break
    quiet: list[Vitals]
    violations: list[str]


class Servers:
    """One process with both."""

    def __init__(self, home: Path) -> None:
        home.mkdir(parents=True)
        (home / "broker.conf").write_text(CONF)
        self.vitals_file, self.log = home / "vitals.jsonl", home / "console.log"
        command = [
            sys.executable,
            "-m",
            "chaos.fuzz.serving",
            str(home / "broker.conf"),
            str(home),
            str(self.vitals_file),
        ]
        with self.log.open("wb") as output:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        self.namesrv = self._address("ready namesrv ")
        self.broker = self._address("ready broker ")

    def _address(self, start: str) -> tuple[str, int]:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and self._process.poll() is None:
            for line in self.log.read_text(errors="replace").splitlines():
                if line.startswith(start):
                    host, _, port = line.split()[-1].rpartition(":")
                    return host, int(port)
            time.sleep(0.02)
        raise SystemExit(f"no {start!r} from the servers:\n{self.log.read_text(errors='replace')[-3000:]}")

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def vitals(self) -> list[Vitals]:
        whole, _, _ = self.vitals_file.read_bytes().rpartition(b"\n")
        return [msgspec.json.decode(line, type=Vitals) for line in whole.splitlines()]

    def complaints(self) -> list[str]:
        """What our code was surprised by; each with the lines that follow."""
        lines = self.log.read_text(errors="replace").splitlines()
        return [
            "\n".join(lines[max(0, number - 1) : number + 25])
            for number, line in enumerate(lines)
            if _COMPLAINT.search(line.strip())
        ]

    def stop(self) -> str | None:
        """SIGTERM; what went wrong, if it does not end well."""
        if not self.is_running:
            return f"the servers ended by themselves with {self._process.returncode}"
        self._process.terminate()
        try:
            code = self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return "the servers had not stopped 30 s after SIGTERM"
        return None if code == 0 else f"the servers ended with {code} after SIGTERM"


async def fuzz(
    seed: int, seconds: float, home: Path, tell: Tell, *, burst_s: float = BURST_S, quiet_s: float = QUIET_S
) -> FuzzReport:
    """*home* gets store and logs, and is the caller's to remove."""
    servers = await asyncio.to_thread(Servers, home)
    witness = Witness(f"{servers.namesrv[0]}:{servers.namesrv[1]}")
    frames = [each.frame for each in ALL_FRAMES]
    dice = random.Random(seed)
    sides = [
        Attackers(random.Random(dice.random()), address, frames, pause_s=PAUSE_S)
        for address in (servers.broker, servers.namesrv)
    ]
    quiet_times: list[tuple[float, float]] = []
    violations: list[str] = []
    watching = asyncio.create_task(witness.run())
    try:
        ends = time.monotonic() + seconds
        while time.monotonic() < ends and servers.is_running and not watching.done():
            await asyncio.gather(*(side.run(ATTACKERS, burst_s) for side in sides))
            await asyncio.sleep(SETTLE_S)
            began = time.monotonic()
            await asyncio.sleep(quiet_s)
            quiet_times.append((began, time.monotonic()))
            readings = quiet(servers.vitals(), quiet_times[-1:])
            tell(f"{sum(side.sent.total() for side in sides)} frames; {_shown(readings)}; witness sent {witness.sent}")
        witness.stop()
        await watching
    except Exception as error:  # noqa: BLE001 - whatever it was, it is told, and the rest is judged too
        violations.append(f"the normal client failed: {type(error).__name__}: {error}")
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        readings = servers.vitals()
        if (trouble := await asyncio.to_thread(servers.stop)) is not None:
            violations.append(trouble)
    at_rest = quiet(readings, quiet_times)
    violations += growth(at_rest)
    violations += hogged(readings)
    violations += judge_witness(witness)
    violations += [f"a server answered with nonsense: {text}" for side in sides for text in side.nonsense]
    violations += [f"the servers were surprised:\n{text}" for text in servers.complaints()]
    return FuzzReport(
        seed=seed,
        seconds=seconds,
        frames={style: sum(side.sent[style] for side in sides) for style in sides[0].sent | sides[1].sent},
        connections=sum(side.connections for side in sides),
        answers=dict(sorted((sides[0].answers + sides[1].answers).items())),
        witness_sent=witness.sent,
        witness_send_s=percentiles(witness.send_s),
        witness_delivery_s=percentiles(witness.delivery_s),
        busy_s=max((each.busy_s for each in readings), default=0.0),
        quiet=at_rest,
        violations=violations,
    )


def judge_witness(witness: Witness) -> list[str]:
    found = [f"the normal client was refused: {text}" for text in witness.refused]
    if witness.missing:
        found.append(
            f"{len(witness.missing)} messages of the normal client are missing, the first {witness.missing[:5]}"
        )
    for what, times in (("send", witness.send_s), ("delivery", witness.delivery_s)):
        if times and max(times) > SLOW_S:
            found.append(f"a {what} of the normal client took {max(times):.1f} s, more than {SLOW_S:g}")
    return found


def percentiles(times: Sequence[float]) -> dict[str, float]:
    ascending = sorted(times)
    if not ascending:
        return {}
    return {f"p{p}": round(ascending[min(len(ascending) - 1, len(ascending) * p // 100)], 4) for p in (50, 99, 100)}


def _shown(readings: Sequence[Vitals]) -> str:
    return ", ".join(f"{name} {getattr(each, name)}" for each in readings[-1:] for name in FIELDS)
