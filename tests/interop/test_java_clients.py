"""The official Java clients do with our broker what they do with Apache's: the same driver, the same scenarios."""

from collections.abc import Iterator

import pytest

from tests.interop.client_columns import APACHE, BROKERS, CLIENTS, SCENARIOS, Column, Driver, Outcome, played

COLUMNS = [Column(client, broker) for broker in BROKERS for client in CLIENTS]

_OLD_BROKER = min(APACHE)
_OLD_CLIENT = min(CLIENTS)


@pytest.fixture(scope="module")
def drivers(
    apache_jars: None, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[dict[Column, Driver]]:
    """What came of each column of which a test will be run."""
    wanted = {item.callspec.params["column"] for item in request.session.items if _is_ours(item)}
    with played(tmp_path_factory.mktemp("java-clients"), [column for column in COLUMNS if column in wanted]) as result:
        yield result


def _is_ours(item: pytest.Item) -> bool:
    return item.path.name == "test_java_clients.py" and "column" in getattr(item, "callspec").params  # noqa: B009


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: f"client-{column.client}-{column.broker}")
def test_clients_do(drivers: dict[Column, Driver], column: Column, scenario: str) -> None:
    driver = drivers[column]
    outcome = driver.outcomes().get(scenario, Outcome("MISSING", "the driver said nothing about it"))
    if scenario == "timer" and (column.client == _OLD_CLIENT or column.broker == _OLD_BROKER):
        pytest.skip("4.9 has no timed messages")
    assert outcome.result == "OK", f"{scenario}: {outcome.words}\n{driver.complaint(scenario)}"
