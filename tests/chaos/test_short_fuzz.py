"""The live fuzz in its short form, and what judges it. `make fuzzlive` is the long form."""

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from chaos.fuzz.mutate import mutated
from chaos.fuzz.report import markdown
from chaos.fuzz.requests import HARMFUL_ON_PURPOSE, conversation, is_harmful, strange
from chaos.fuzz.run import fuzz, judge_witness
from chaos.fuzz.vitals import BUSY_S_MAX, FIELDS, Vitals, growth, hogged, quiet
from chaos.fuzz.witness import Witness
from hanabi.wire.codes import RequestCode
from hanabi.wire.command import decode_command, encode_request
from hanabi.wire.frame import FrameDecoder
from tests.golden_frames import ALL_FRAMES

FRAMES = [each.frame for each in ALL_FRAMES]
STEADY = Vitals(at=0.0, tasks=20, threads=8, descriptors=45, objects=35_000, memory_kib=22_000, busy_s=0.02)


def readings(change: Callable[[int], Vitals] = lambda _: STEADY, count: int = 30) -> list[Vitals]:
    return [msgspec.structs.replace(change(number), at=float(number)) for number in range(count)]


def test_what_stays_the_same_has_not_grown() -> None:
    assert growth(readings()) == []
    assert growth([]) == []


@pytest.mark.parametrize("field", FIELDS)
def test_what_grows_with_every_attack_is_found(field: str) -> None:
    step = {"tasks": 1, "threads": 1, "descriptors": 2, "objects": 3_000, "memory_kib": 4_000}[field]
    (found,) = growth(
        readings(lambda number: msgspec.structs.replace(STEADY, **{field: getattr(STEADY, field) + number * step}))
    )
    assert found.startswith(f"{field} grew from")


def test_what_grows_only_at_the_beginning_is_warming_up() -> None:
    grown = readings(lambda number: msgspec.structs.replace(STEADY, objects=20_000 + 10_000 * min(number, 8)))
    assert growth(grown) == []


def test_quiet_readings_are_those_of_quiet_times() -> None:
    loud = readings(lambda number: msgspec.structs.replace(STEADY, tasks=500 if number % 10 < 7 else 20))
    assert [each.tasks for each in quiet(loud, [(7.0, 9.5), (17.0, 19.5), (100.0, 101.0)])] == [20, 20]


def test_a_loop_that_works_too_long_without_a_break_is_found() -> None:
    busy = readings(lambda number: msgspec.structs.replace(STEADY, busy_s=BUSY_S_MAX + 0.1 if number == 3 else 0.1))
    assert len(hogged(busy)) == 1


def test_a_witness_that_was_refused_lost_something_or_had_to_wait_says_so() -> None:
    witness = Witness("127.0.0.1:1")
    assert judge_witness(witness) == []
    witness.refused.append("7: SendFailed: no")
    witness._sent[8] = 1.0
    witness.send_s.append(60.0)
    assert len(judge_witness(witness)) == 3


def test_the_same_dice_make_the_same_frames_and_they_are_whole_frames() -> None:
    def some(seed: int) -> list[bytes]:
        dice = random.Random(seed)
        return [*conversation(dice), *(strange(dice, [b"body"]) for _ in range(50))]

    assert some(1) == some(1)
    for frame in some(2):
        (content,) = FrameDecoder().feed(frame)
        decode_command(content)
    dice = random.Random(3)
    assert sum(mutated(dice, FRAMES[0], FRAMES) != FRAMES[0] for _ in range(50)) > 40


def test_what_servers_would_rightly_do_harm_for_is_not_sent() -> None:
    assert all(is_harmful(encode_request(code, 1, {"brokerName": "broker-a"})) for code in HARMFUL_ON_PURPOSE)
    assert not is_harmful(encode_request(RequestCode.SEND_MESSAGE_V2, 1))
    assert not is_harmful(b"\x00\x00\x00\x04none")


def test_live_servers_stand_what_nobody_should_send_and_serve_a_normal_client(tmp_path: Path) -> None:
    report = asyncio.run(fuzz(5, 6.0, tmp_path / "servers", lambda _: None, burst_s=3.0, quiet_s=1.0))
    assert report.violations == [], markdown(report)
    assert report.witness_sent > 20
    assert sum(report.frames.values()) > 100
    assert report.answers[0] > 20  # not everything was refused
    assert "nothing was found" in markdown(report)
