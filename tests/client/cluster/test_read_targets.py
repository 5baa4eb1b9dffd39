"""From whom a queue is read."""

from collections.abc import Mapping

from hanabi.client.cluster.read_targets import ReadTargets
from hanabi.client.cluster.routes import Route, make_route
from hanabi.client.cluster.unresponsive_brokers import UnresponsiveBrokers
from hanabi.errors import ConnectError, ConnectionLostError
from hanabi.message import MessageQueue
from hanabi.wire.bodies.route import BrokerData, QueueData, TopicRoute

QUEUE = MessageQueue("Orders", "broker-a", 0)


def route(addresses: Mapping[int, str]) -> Route:
    source = TopicRoute(
        broker_datas=[BrokerData(cluster="c", broker_name="broker-a", broker_addrs=dict(addresses))],
        queue_datas=[
            QueueData(broker_name="broker-a", read_queue_nums=1, write_queue_nums=1, perm=6, topic_sys_flag=0)
        ],
    )
    return make_route("Orders", source, lambda address: address)


PAIR = route({0: "m:1", 1: "s:1"})


def test_the_master_is_read_until_an_answer_suggests_another_and_again_when_one_suggests_it() -> None:
    targets = ReadTargets(UnresponsiveBrokers())
    assert targets.address(PAIR, QUEUE) == "m:1"
    targets.answered(QUEUE, 1)
    assert targets.address(PAIR, QUEUE) == "s:1"
    assert targets.address(PAIR, MessageQueue("Orders", "broker-a", 1)) == "m:1"
    targets.answered(QUEUE, 0)
    assert targets.address(PAIR, QUEUE) == "m:1"


def test_a_suggested_id_that_nobody_has_means_the_next_slave_or_else_the_first_broker() -> None:
    targets = ReadTargets(UnresponsiveBrokers())
    targets.answered(QUEUE, 7)
    assert targets.address(PAIR, QUEUE) == "m:1"
    assert targets.address(route({0: "m:1", 8: "t:1"}), QUEUE) == "t:1"
    assert targets.address(route({3: "s:1"}), QUEUE) == "s:1"
    assert targets.address(route({}), QUEUE) is None


def test_a_master_that_is_out_of_the_route_is_replaced_by_a_slave_whatever_was_suggested() -> None:
    targets = ReadTargets(UnresponsiveBrokers())
    for suggested in (0, 1):
        targets.answered(QUEUE, suggested)
        assert targets.address(route({1: "s:1"}), QUEUE) == "s:1"


def test_a_broker_that_does_not_answer_is_replaced_until_it_does() -> None:
    now = 0.0
    silent = UnresponsiveBrokers(lambda: now)
    targets = ReadTargets(silent)
    silent.failed("m:1", ConnectionLostError("closed"))  # the next connection may work
    assert targets.address(PAIR, QUEUE) == "m:1"
    silent.failed("m:1", ConnectError("refused"))
    assert targets.address(PAIR, QUEUE) == "s:1"
    targets.answered(QUEUE, 0)  # the slave's suggestion does not lead to one that is known to be silent
    assert targets.address(PAIR, QUEUE) == "s:1"
    silent.answered("m:1")
    assert targets.address(PAIR, QUEUE) == "m:1"
    for address in ("m:1", "s:1"):
        silent.failed(address, ConnectError("refused"))
    assert targets.address(PAIR, QUEUE) == "m:1", "when nobody answers, the suggested one is tried"
