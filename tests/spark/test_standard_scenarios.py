"""The standard scenarios, played with every source, the sink and every pipeline (`scenario_subjects.SUBJECTS`)."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from hanabi.errors import MQError
from hanabi.spark.pipelines.catalogue import SUMMARIES
from hanabi.spark.pipelines.failures import plain_spark_errors
from tests.spark.scenario_subjects import SUBJECTS, Piped, Subject
from tests.spark.scenario_world import World, scenario_world

WIDE = 1_000


def made_again(subject: Subject, world: World) -> None:
    """Delete the topic and make it again between two runs, with more messages than before."""
    world.make(subject.topic, 2)
    subject.put(world, range(20), 2)
    assert subject.take(world) == 20
    world.make_again(subject.topic, 2)
    subject.put(world, range(100, 150), 2)
    _goes_on(subject, world, 50 + (20 if subject.keeps_place else 0))


def end_went_back(subject: Subject, world: World) -> None:
    """Put back a backup of the broker: messages that were read are not there any more."""
    world.make(subject.topic, 2)
    subject.put(world, range(10), 2)
    world.save()
    subject.put(world, range(10, 20), 2)
    assert subject.take(world) == 20
    world.put_back()
    subject.put(world, range(100, 106), 2)
    _goes_on(subject, world, 6 + (20 if subject.keeps_place else 10))


def poison(subject: Subject, world: World) -> None:
    """Send one body that says that it is compressed, and is not."""
    world.make(subject.topic, 1)
    subject.put(world, range(5), 1)
    world.put_poison(subject.topic)
    subject.put(world, range(5, 8), 1)
    if subject.reads_bodies:
        with pytest.raises(MQError, match=r"damaged.*on-?[dD]amage"), plain_spark_errors():
            subject.take(world)
        assert subject.take(world, skips=True) == 8
    else:
        assert subject.take(world) == 9


def wide(subject: Subject, world: World) -> None:
    """Use a topic of a thousand queues."""
    world.make(subject.topic, WIDE)
    subject.put(world, range(WIDE), WIDE)
    assert subject.take(world) == WIDE


def _goes_on(subject: Subject, world: World, count: int) -> None:
    """Told by those that keep their place, and then read without a gap; others read what there is now."""
    if subject.keeps_place:
        with (
            pytest.raises(MQError, match=r"re-created.*(failOnDataLoss=false|--no-fail-on-data-loss)"),
            plain_spark_errors(),
        ):
            subject.take(world)
    assert subject.take(world, is_lenient=True) == count
    assert subject.take(world) == count, "that was told once, and is over"


SCENARIOS: dict[str, Callable[[Subject, World], None]] = {
    "made again": made_again,
    "end went back": end_went_back,
    "poison": poison,
    "a thousand queues": wide,
}


def played() -> Iterable[object]:
    """Yield every subject with every scenario. With Spark, those that take long are for the long run."""
    for kind in SUBJECTS:
        for name in SCENARIOS:
            is_slow = issubclass(kind, Piped) and name in ("end went back", "a thousand queues")
            yield pytest.param(kind, name, id=f"{kind.name}-{name}", marks=[pytest.mark.slow] if is_slow else [])


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("kind", "scenario"), list(played()))
def test_nothing_is_lost_silently(
    kind: type[Subject], scenario: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    spark = request.getfixturevalue("spark") if kind.needs_spark else None
    with scenario_world(tmp_path, spark) as world:
        SCENARIOS[scenario](kind(), world)


def test_every_pipeline_is_played() -> None:
    assert {kind.name for kind in SUBJECTS if issubclass(kind, Piped)} >= set(SUMMARIES)
