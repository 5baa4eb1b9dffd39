"""Our allocation gives every member of a group the queues that Apache's own classes give it."""

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from hanabi.client.consumer.group.allocate import (
    Allocate,
    ByConfig,
    ByMachineRoom,
    ConsistentHash,
    MachineRoomNearby,
    averagely,
    by_circle,
    sort_client_ids,
    sort_queues,
)
from hanabi.message import MessageQueue
from tests.interop.apache import QUICK_START, java, java_environment
from tests.interop.jars import ADMIN_4, ALL_5, JAVA, classpath

_SEED = 20_240_229
_CASES = 3_000
_TIMEOUT_S = 120
_SOURCE = JAVA / "judges" / "AllocationJudge.java"


class Case(NamedTuple):
    """One question: what does this client get?"""

    strategy: str
    argument: str
    client_id: str
    client_ids: list[str]
    queues: list[MessageQueue]


def _text(queues: list[MessageQueue]) -> str:
    """Format as the judge does, where an @ parts topic, broker and queue."""
    return ",".join(f"{queue.topic}@{queue.broker_name.replace('@', '/')}@{queue.queue_id}" for queue in queues)


def _strategy(name: str, argument: str) -> Allocate:
    plain: dict[str, Allocate] = {"averagely": averagely, "by_circle": by_circle, "consistent_hash": ConsistentHash()}
    if name == "by_config":
        return ByConfig(_parsed(argument))
    if name == "by_machine_room":
        return ByMachineRoom(frozenset(argument.split(",")))
    if name == "consistent_hash":
        return ConsistentHash(int(argument))
    if name == "nearby":
        return MachineRoomNearby(plain[argument], lambda queue: queue.broker_name[0], lambda client: client[0])
    return plain[name]


def _parsed(text: str) -> list[MessageQueue]:
    parts = (queue.split("@") for queue in text.split(","))
    return [MessageQueue(topic, broker.replace("/", "@"), int(number)) for topic, broker, number in parts]


def _ours(case: Case) -> str:
    share = _strategy(case.strategy, case.argument)(
        case.client_id, sort_queues(case.queues), sort_client_ids(case.client_ids)
    )
    return _text(share)


def _random_cases(seed: int, count: int) -> Iterator[Case]:
    chance = random.Random(seed)
    for _ in range(count):
        brokers = chance.sample(["a-1", "a-2", "b-1", "c-1", "r1@x", "r1@y", "r2@z", "r3@", "ü-1", "Broker"], 4)
        queues = [
            MessageQueue("Orders", broker, number)
            for broker in brokers[: chance.randint(1, 4)]
            for number in range(chance.randint(1, 12))
        ]
        ids = [f"{chance.choice('abcr')}{chance.getrandbits(24)}@{chance.randint(1, 99999)}" for _ in range(9)]
        client_ids = ids[: chance.randint(1, 9)] + chance.choice([[], ["10.0.0.1@DEFAULT"], ["漢😀\uffee"]])
        chance.shuffle(queues)
        chance.shuffle(client_ids)
        name, argument = chance.choice(
            [
                ("averagely", ""),
                ("by_circle", ""),
                ("by_config", _text(chance.sample(queues, chance.randint(1, len(queues))))),
                ("by_machine_room", chance.choice(["r1", "r1,r2", "nowhere", "r3"])),
                ("consistent_hash", chance.choice(["10", "10", "0", "1", "137"])),
                ("nearby", chance.choice(["averagely", "by_circle", "consistent_hash"])),
            ]
        )
        absent = chance.random() < 0.05
        yield Case(name, argument, "x-absent" if absent else chance.choice(client_ids), client_ids, queues)


def _apaches(home: Path, jar_set: str, cases: list[Case]) -> list[str]:
    questions = "".join(
        "\t".join((case.strategy, case.argument, case.client_id, ",".join(case.client_ids), _text(case.queues))) + "\n"
        for case in cases
    )
    done = subprocess.run(
        java(home, classpath(jar_set), str(_SOURCE), jvm=(*QUICK_START, "-Dfile.encoding=UTF-8")),
        input=questions,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=_TIMEOUT_S,
        env=java_environment(),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [line.removeprefix("= ") for line in done.stdout.splitlines() if line.startswith("= ")]


@pytest.mark.parametrize("jar_set", [ADMIN_4, ALL_5])
def test_every_member_gets_the_queues_that_apaches_classes_give_it(
    apache_jars: None, tmp_path: Path, jar_set: str
) -> None:
    cases = list(_random_cases(_SEED, _CASES))
    answers = _apaches(tmp_path, jar_set, cases)
    assert len(answers) == len(cases)
    differences = [
        f"{case}: Apache {theirs}, ours {ours}"
        for case, theirs in zip(cases, answers, strict=True)
        if theirs != (ours := _ours(case))
    ]
    assert differences[:5] == []
