"""POP: Java's push consumer pops from our broker, and raw requests are answered as by Apache 5.3.3."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from hanabi.wire.codes import RequestCode
from hanabi.wire.command import Command
from hanabi.wire.header import header_fields
from hanabi.wire.headers.send import SendMessageHeader
from hanabi.wire.headers.topic import CreateTopicHeader
from hanabi.wire.message.record import decode_records
from tests.interop.apache import ApacheBroker, java, java_environment
from tests.interop.client_columns import PATIENT_JVM
from tests.interop.jars import driver_classpath
from tests.interop.ours import OurBroker, OurNameServer
from tests.interop.probe import Conversation, ask, routes_to
from tests.interop.processes import ServerProcess

JARS, TOPIC, GROUP, QUEUES, BROKER = "all-5", "PopTopic", "PopGroup", 4, "broker-a"
MESSAGES = [f"m{number}" for number in range(40)]


@pytest.fixture
def site(apache_jars: None, tmp_path: Path) -> Iterator[tuple[str, OurBroker]]:
    with ExitStack() as stack:
        namesrv = OurNameServer(tmp_path / "namesrv")
        stack.callback(namesrv.process.kill)
        namesrv.wait_ready()
        broker = OurBroker(tmp_path / BROKER, name=BROKER, namesrv=namesrv.address)
        stack.callback(broker.process.kill)
        broker.wait_ready()
        create_topic(broker.address)
        broker.process.wait_until(lambda: routes_to(namesrv.address, TOPIC, BROKER), "register the topic")
        yield namesrv.address, broker


def create_topic(address: str, topic: str = TOPIC) -> None:
    header = CreateTopicHeader(
        topic=topic,
        default_topic="TBW102",
        read_queue_nums=QUEUES,
        write_queue_nums=QUEUES,
        perm=6,
        topic_filter_type="SINGLE_TAG",
        order=False,
    )
    assert ask(address, RequestCode.UPDATE_AND_CREATE_TOPIC, header_fields(header)).code == 0


def send(address: str, *bodies: str, queue_id: int | None = None, topic: str = TOPIC) -> None:
    with Conversation(address) as talk:
        for number, body in enumerate(bodies):
            header = SendMessageHeader(
                producer_group="g",
                topic=topic,
                default_topic="TBW102",
                default_topic_queue_nums=QUEUES,
                queue_id=number % QUEUES if queue_id is None else queue_id,
                sys_flag=0,
                born_timestamp=1,
                flag=0,
            )
            assert talk.ask(RequestCode.SEND_MESSAGE, header_fields(header), body.encode()).code == 0


def set_mode(address: str, mode: str, topic: str = TOPIC) -> Command:
    body = {"topic": topic, "consumerGroup": GROUP, "mode": mode, "popShareQueueNum": 0}
    return ask(address, RequestCode.SET_MESSAGE_REQUEST_MODE, None, json.dumps(body).encode())


def member(home: Path, namesrv: str, name: str) -> ServerProcess:
    arguments = namesrv, GROUP, TOPIC, name
    command = java(home / name, driver_classpath(JARS), "PopMember", *arguments, jvm=PATIENT_JVM)
    return ServerProcess(name, command, home / f"{name}.log", java_environment())


def got(*members: ServerProcess) -> list[list[str]]:
    """Return body, tries and topic of each delivery."""
    lines = [line for each in members for line in each.output().splitlines()]
    return [line.split()[1:] for line in lines if line.startswith("GOT ")]


def test_members_in_java_pop_all_messages_of_all_queues(site: tuple[str, OurBroker], tmp_path: Path) -> None:
    namesrv, broker = site
    assert set_mode(broker.address, "POP").code == 0
    members = [member(tmp_path, namesrv, name) for name in ("first", "second")]
    try:
        for each in members:
            each.wait_for_line("STARTED")
        send(broker.address, *MESSAGES, "fail")
        wanted = len(MESSAGES) + 2  # the failed one comes again after 10 s
        members[0].wait_until(lambda: len(got(*members)) >= wanted, f"pop {wanted} messages", 60)
    finally:
        for each in members:
            each.kill()
    bodies = [body for body, _, _ in got(*members)]
    assert sorted(bodies) == sorted([*MESSAGES, "fail", "fail"])
    # Either member may get the second delivery, so the order is that of the members.
    assert sorted(tries for body, tries, _ in got(*members) if body == "fail") == ["0", "1"]
    assert {topic for _, _, topic in got(*members)} == {TOPIC}, "a retry has the name of its topic"
    stats = ask(broker.address, RequestCode.GET_CONSUME_STATS, {"consumerGroup": GROUP})
    assert stats.code == 0


# Raw requests, side by side


class Said(NamedTuple):
    step: str
    code: int
    remark: str | None


def popped(reply: Command) -> list[tuple[str, int, int]]:
    return [(each.body.decode(), each.queue_id, each.queue_offset) for each in decode_records(reply.body)]


def handle(reply: Command, queue_id: int, offset: int, broker: str = BROKER) -> str:
    fields = reply.fields()
    starts = {part.split()[1]: part.split()[2] for part in fields["startOffsetInfo"].split(";")}
    words = starts[str(queue_id)], fields["popTime"], fields["invisibleTime"], fields["reviveQid"], "0", broker
    return " ".join((*words, str(queue_id), str(offset)))


def conversation(address: str) -> list[Said]:
    """Say the same to a broker of any kind; return codes and, where they do not name times or addresses, remarks."""
    create_topic(address)
    send(address, "a", "b", "c", queue_id=0)
    said: list[Said] = []
    pop = {
        "consumerGroup": GROUP,
        "topic": TOPIC,
        "queueId": "0",
        "maxMsgNums": "2",
        "invisibleTime": "30000",
        "pollTime": "0",
        "initMode": "0",
    }

    def tell(step: str, code: int, fields: dict[str, str] | None = None, body: bytes = b"") -> Command:
        reply = ask(address, code, fields, body)
        said.append(Said(step, reply.code, reply.remark if reply.remark in ("FOUND", "NO_MESSAGE_IN_QUEUE") else None))
        return reply

    def tell_popped(step: str, **fields: str) -> Command:
        reply = tell(step, RequestCode.POP_MESSAGE, pop | fields)
        if reply.code == 0:
            texts = reply.fields()
            said.append(Said(f"{step}: {popped(reply)}", 0, f"{texts['startOffsetInfo']}|{texts['msgOffsetInfo']}"))
        return reply

    first = tell_popped("pop two")
    tell_popped("pop the rest")
    tell_popped("pop nothing")
    tell("too many", RequestCode.POP_MESSAGE, pop | {"maxMsgNums": "33"})
    tell("no topic", RequestCode.POP_MESSAGE, pop | {"topic": "Nothing"})
    tell("no queue", RequestCode.POP_MESSAGE, pop | {"queueId": "99"})
    tell("bad filter", RequestCode.POP_MESSAGE, pop | {"exp": "a >", "expType": "SQL92"})
    tell("late", RequestCode.POP_MESSAGE, pop | {"bornTime": "1"})
    ack = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0", "extraInfo": handle(first, 0, 0), "offset": "0"}
    tell("ack", RequestCode.ACK_MESSAGE, ack)
    tell("ack again", RequestCode.ACK_MESSAGE, ack)
    tell("ack no topic", RequestCode.ACK_MESSAGE, ack | {"topic": "Nothing"})
    tell("ack no queue", RequestCode.ACK_MESSAGE, ack | {"queueId": "99"})
    tell("ack no offset", RequestCode.ACK_MESSAGE, ack | {"offset": "99"})
    tell("ack broken", RequestCode.ACK_MESSAGE, ack | {"extraInfo": "broken"})
    change = ack | {"offset": "1", "extraInfo": handle(first, 0, 1), "invisibleTime": "60000"}
    changed = tell("change", RequestCode.CHANGE_MESSAGE_INVISIBLETIME, change)
    said.append(Said("changed", 0, ",".join(sorted(changed.fields()))))
    tell("change no offset", RequestCode.CHANGE_MESSAGE_INVISIBLETIME, change | {"offset": "3"})
    tell("batch of nothing", RequestCode.BATCH_ACK_MESSAGE, None, b'{"acks":[],"brokerName":"broker-a"}')
    view = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "1"}
    tell("peek nothing", RequestCode.PEEK_MESSAGE, view | {"maxMsgNums": "1"})
    notice = tell("notification", RequestCode.NOTIFICATION, view | {"pollTime": "0", "bornTime": "0"})
    said.append(Said("notified", 0, notice.fields().get("hasMsg")))
    polling = tell("polling", RequestCode.POLLING_INFO, view)
    said.append(Said("polled", 0, polling.fields().get("pollingNum")))
    for step, topic in (("mode", TOPIC), ("mode of a retry topic", "%RETRY%g"), ("mode of no topic", "Nothing")):
        said.append(Said(step, set_mode(address, "POP", topic).code, None))
    return said


@pytest.mark.slow
def test_raw_requests_are_answered_as_by_apache(site: tuple[str, OurBroker], tmp_path: Path) -> None:
    settings = {"timerWheelEnable": "true", "enablePropertyFilter": "true"}
    apache = ApacheBroker(
        tmp_path / "apache", JARS, name=BROKER, cluster="DefaultCluster", namesrv=None, settings=settings
    )
    try:
        apache.wait_ready()
        theirs = conversation(apache.address)
    finally:
        apache.process.kill()
    _, ours = site
    assert conversation(ours.address) == theirs
