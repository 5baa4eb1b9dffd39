"""Clients that Apache does not make, with our broker: rocketmq-rust's, and rocketmq from npm.

rocketmq-rust's is built where HANABI_SLOW_TESTS is set; a build that is there is used in any case.
"""

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.interop.client_starts import Peer, make_topic, peer, site
from tests.interop.jars import JavaUnavailable, required

COUNT = 8
SECONDS = 3  # in which a start that is not late has everything
ALWAYS_IN_CI = ("npm",)


@pytest.fixture(scope="module", params=["npm", "rust"])
def client(request: pytest.FixtureRequest) -> Peer:
    try:
        return peer(request.param)
    except JavaUnavailable as error:
        if required() and request.param in ALWAYS_IN_CI:
            pytest.fail(f"CI must run the client {request.param}, but {error}", pytrace=False)
        pytest.skip(f"no {request.param} client here: {error}")


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    with site("ours", tmp_path_factory.mktemp("site")) as addresses:
        yield addresses


@pytest.fixture
def topic(request: pytest.FixtureRequest, servers: tuple[str, str]) -> str:
    name = f"T{abs(hash(request.node.name))}"
    make_topic(*servers, name)
    return name


def expected(numbers: range) -> list[str]:
    return sorted(f"{'odd' if number % 2 else 'even'} key-{number} message {number}" for number in numbers)


def test_every_message_is_stored_and_its_id_is_told(client: Peer, servers: tuple[str, str], topic: str) -> None:
    told = client.run("send", servers[0], topic, str(COUNT))
    assert len(told) == len(set(told)) == COUNT
    assert all("SEND_OK" in line or "SendOk" in line for line in told)


def test_a_group_gets_every_message_by_tag_and_goes_on_where_it_was(
    client: Peer, servers: tuple[str, str], topic: str
) -> None:
    namesrv = servers[0]
    client.run("send", namesrv, topic, str(COUNT))
    # A start may be late, or have two loops for one queue: races of these clients, with Apache's broker as well
    # (docs/compatibility.md). So it may take a second one, and a message may come twice.
    assert sorted(collected(client, namesrv, topic, "*", COUNT)) == expected(range(COUNT))
    assert sorted(collected(client, namesrv, topic, "even", COUNT // 2)) == expected(range(0, COUNT, 2))


def test_what_a_group_has_consumed_does_not_come_again_at_its_next_start(
    client: Peer, servers: tuple[str, str], topic: str
) -> None:
    namesrv = servers[0]
    client.run("send", namesrv, topic, str(COUNT))
    collected(client, namesrv, topic, "*", COUNT)
    assert client.consumed(namesrv, topic, f"g_{topic}_all", seconds=SECONDS) == []


def collected(client: Peer, namesrv: str, topic: str, tags: str, count: int) -> set[str]:
    """Return the messages of one group, which is started until it has *count* of them, at most three times."""
    got: Counter[str] = Counter()
    group = f"g_{topic}_{'all' if tags == '*' else tags}"
    for _ in range(3):
        got.update(client.consumed(namesrv, topic, group, tags=tags, seconds=SECONDS))
        if len(got) >= count:
            break
    return set(got)


def test_an_ordered_listener_of_rust_gets_each_queue_in_order(servers: tuple[str, str], topic: str) -> None:
    try:
        client = peer("rust")
    except JavaUnavailable as error:
        pytest.skip(f"no rust client here: {error}")
    namesrv = servers[0]
    client.run("send", namesrv, topic, str(COUNT))
    lines = client.run("consume", namesrv, topic, f"g_{topic}", "*", "25", "orderly")
    by_queue: dict[str, list[int]] = {}
    for line in lines:
        if line.startswith("got "):
            _, _, queue, offset, _ = line.split(maxsplit=4)
            by_queue.setdefault(queue, []).append(int(offset))
    assert sum(map(len, by_queue.values())) == COUNT
    assert all(offsets == sorted(offsets) for offsets in by_queue.values())
