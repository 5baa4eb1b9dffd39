"""Our client does with Apache's brokers what it does with ours: the Java driver's scenarios, in Python."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from hanabi.remoting.loop import loop_factory
from tests.interop.client_columns import APACHE, BROKERS, OURS, SCENARIOS, Broker
from tests.interop.python_clients.playing import Ending, play

# What the Java driver does not have.
MORE = ("command_line", "leave_at_once", "inner_batch")
IMPOSSIBLE = {
    next(iter(APACHE)): {"timer": "4.9 has no timed messages"},
    OURS: {"inner_batch": "our broker keeps the messages of a batch one by one"},
}


@pytest.fixture(scope="module")
def endings(
    apache_jars: None, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[dict[tuple[str, str], Ending]]:
    """Yield how each scenario ended with each broker of which a test will be run."""
    wanted = [pair for item in request.session.items if (pair := _pair(item))]
    home = tmp_path_factory.mktemp("python-client")
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setenv("ROCKETMQ_OFFSETS_DIR", str(home / "offsets"))
        names = [name for name in BROKERS if any(name == broker for broker, _ in wanted)]
        brokers = {name: Broker(home / name, name, stack) for name in names}
        for broker in brokers.values():
            broker.wait_ready()
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            yield runner.run(_play_all({name: broker.namesrv for name, broker in brokers.items()}, wanted))


async def _play_all(namesrv: dict[str, str], wanted: list[tuple[str, str]]) -> dict[tuple[str, str], Ending]:
    async def play_at(name: str) -> dict[tuple[str, str], Ending]:
        scenarios = [each for broker, each in wanted if broker == name and each not in IMPOSSIBLE.get(name, {})]
        return {(name, each): ending for each, ending in (await play(namesrv[name], scenarios)).items()}

    played = await asyncio.gather(*map(play_at, namesrv))
    return {pair: ending for column in played for pair, ending in column.items()}


def _pair(item: pytest.Item) -> tuple[str, str] | None:
    callspec = getattr(item, "callspec", None)
    if callspec is None or item.path.name != Path(__file__).name:
        return None
    return callspec.params["broker"], callspec.params["scenario"]


@pytest.mark.parametrize("scenario", [*SCENARIOS, *MORE])
@pytest.mark.parametrize("broker", [OURS, *APACHE])
def test_our_client_does(endings: dict[tuple[str, str], Ending], broker: str, scenario: str) -> None:
    if reason := IMPOSSIBLE.get(broker, {}).get(scenario):
        pytest.skip(reason)
    ending = endings[broker, scenario]
    assert ending.error is None, f"{scenario} after {ending.seconds:.1f} s:\n{ending.error}"
