"""The official Java clients do with our broker what they do with Apache's: the same driver, the same scenarios."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.client_columns import BROKERS, CLIENTS, IMPOSSIBLE, OURS, SCENARIOS, Column, Driver, Outcome, played

COLUMNS = [Column(client, broker) for broker in BROKERS for client in CLIENTS]

# What they do with Apache's brokers is how we know what to expect; it changes only when the driver does.
PLAYED = [pytest.param(column, marks=() if column.broker == OURS else pytest.mark.slow) for column in COLUMNS]


@pytest.fixture(scope="module")
def drivers(
    apache_jars: None, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[dict[Column, Driver]]:
    """Yield what came of each column of which a test will be run."""
    wanted = {column for item in request.session.items if (column := _column(item))}
    with played(tmp_path_factory.mktemp("java-clients"), [column for column in COLUMNS if column in wanted]) as result:
        yield result


def _column(item: pytest.Item) -> Column | None:
    callspec = getattr(item, "callspec", None)
    return callspec.params.get("column") if callspec is not None and item.path.name == Path(__file__).name else None


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("column", PLAYED, ids=lambda column: f"client-{column.client}-{column.broker}")
def test_clients_do(drivers: dict[Column, Driver], column: Column, scenario: str) -> None:
    if reason := IMPOSSIBLE.get(column, {}).get(scenario):
        pytest.skip(reason)
    driver = drivers[column]
    outcome = driver.outcomes().get(scenario, Outcome("MISSING", "the driver said nothing about it"))
    assert outcome.result == "OK", f"{scenario}: {outcome.words}\n{driver.complaint(scenario)}"
