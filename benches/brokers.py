"""Brokers that do nothing but be registered: they give a name server something to answer with."""

import socket
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from hanabi.wire.bodies.topics import DataVersion, RegisterBrokerBody, TopicConfig, TopicConfigTable
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command, decode_command, encode_request
from hanabi.wire.fastjson import encode_body
from hanabi.wire.frame import FrameDecoder
from hanabi.wire.headers.namesrv import RegisterBrokerHeader
from tests.interop.probe import ask

TOPIC_PREFIX = "BenchTopic-"
REPLY_TIMEOUT_S = 60
VERSION_TIMESTAMP_MS = 1_700_000_000_000


class RegisteredBroker:
    """A connection to a name server on which one broker has registered; closing it makes the broker gone."""

    def __init__(self, namesrv: str, number: int, topics: Sequence[int]) -> None:
        self.name = f"bench-broker-{number:02}"
        self.topics = len(topics)
        self._number = number
        self._table = {
            name: TopicConfig(topic_name=name, read_queue_nums=8, write_queue_nums=8)
            for name in (f"{TOPIC_PREFIX}{topic}" for topic in topics)
        }
        self.first_register_s = 0.0
        self._version = 0
        self._frame = b""
        host, _, port = namesrv.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=REPLY_TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._decoder = FrameDecoder()

    def change(self) -> None:
        """Change one topic, and so the version of all: a broker then sends all of them."""
        self._version += 1
        name = next(iter(self._table))
        self._table[name] = TopicConfig(topic_name=name, read_queue_nums=8 + self._version % 2, write_queue_nums=8)
        body = encode_body(
            RegisterBrokerBody(
                topic_config_serialize_wrapper=TopicConfigTable(
                    data_version=DataVersion(counter=self._version, timestamp=VERSION_TIMESTAMP_MS),
                    topic_config_table=self._table,
                )
            )
        )
        header = RegisterBrokerHeader(
            broker_name=self.name,
            broker_addr=f"127.0.0.1:{20_000 + self._number}",
            cluster_name="BenchCluster",
            ha_server_addr=f"127.0.0.1:{21_000 + self._number}",
            broker_id=0,
            body_crc32=zlib.crc32(body) & 0x7FFF_FFFF,  # Java's UtilAll.crc32 has no sign
        )
        self._frame = encode_request(RequestCode.REGISTER_BROKER, 1, header, body)

    def register(self) -> float:
        """Register, and return the seconds until the answer. The frame was made by `change`."""
        began = time.perf_counter()
        self._socket.sendall(self._frame)
        answer = self._answer()
        took = time.perf_counter() - began
        if answer.code != ResponseCode.SUCCESS:
            raise AssertionError(f"{self.name} was not registered: {answer.code} {answer.remark}")
        return took

    def _answer(self) -> Command:
        while data := self._socket.recv(1 << 16):
            for frame in self._decoder.feed(data):
                return decode_command(frame)
        raise ConnectionError("the name server closed the connection")

    def close(self) -> None:
        self._socket.close()


def placed(topics: int, brokers: int, per_topic: int) -> list[list[int]]:
    """Return which topics each broker has, when each topic is on *per_topic* of them, in turn."""
    table: list[list[int]] = [[] for _ in range(brokers)]
    for topic in range(topics):
        for copy in range(per_topic):
            table[(topic + copy) % brokers].append(topic)
    return table


@contextmanager
def registered(namesrv: str, placement: Sequence[Sequence[int]]) -> Iterator[list[RegisteredBroker]]:
    """Yield a broker for each list of topics, registered until the end of the block."""
    brokers: list[RegisteredBroker] = []
    try:
        for number, topics in enumerate(placement):
            brokers.append(RegisteredBroker(namesrv, number, topics))
            brokers[-1].change()
            brokers[-1].first_register_s = brokers[-1].register()
        yield brokers
    finally:
        for broker in brokers:
            broker.close()


def route_bytes(namesrv: str, topic: int, brokers: int) -> int:
    """Return the size of the route of a topic, which must name so many brokers."""
    answer = ask(namesrv, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": f"{TOPIC_PREFIX}{topic}"})
    named = answer.body.count(b'"brokerAddrs"'), answer.body.count(b'"readQueueNums"')
    if answer.code != ResponseCode.SUCCESS or named != (brokers, brokers):
        raise AssertionError(f"{namesrv}: the route of topic {topic} has {named} brokers, not {brokers}: {answer.code}")
    return len(answer.body)
