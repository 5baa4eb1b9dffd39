"""Messages whose properties have long runs of NUL bytes: acknowledged with SYNC_FLUSH, killed, and all delivered."""

import queue
from pathlib import Path

import hanabi
from hanabi import Message, TransactionState
from tests.faults.our_servers import OurServers

TOPIC = "Zeros"
ZEROS = {"zeros": "\0" * 2_000, "last": "\0"}
DEADLINE_S = 60
PLAIN = {f"plain {number}" for number in range(10)}


def send_all(namesrv: str) -> None:
    """Plain messages around one of each kind that the broker looks up by its place in the log."""
    producer = hanabi.TransactionProducer("zeros-tx", namesrv=namesrv)
    producer.check(lambda _message: TransactionState.COMMIT)
    with producer:
        for number in range(5):
            producer.send(Message(TOPIC, f"plain {number}".encode()))
        producer.send(Message(TOPIC, b"zeros", properties=ZEROS))
        producer.send(Message(TOPIC, b"returned", properties=ZEROS))
        producer.send(Message(TOPIC, b"delayed", properties=ZEROS, delay_level=1))
        half = Message(TOPIC, b"committed", properties=ZEROS)
        producer.send_in_transaction(half, lambda _message, _sent: TransactionState.COMMIT)
        for number in range(5, 10):
            producer.send(Message(TOPIC, f"plain {number}".encode()))


def consume(namesrv: str, expected: set[str]) -> None:
    """Take messages until all *expected* bodies were seen; the one to be returned fails at first."""
    heard: queue.Queue[str] = queue.Queue()
    consumer = hanabi.PushConsumer("zeros", namesrv=namesrv, consume_from="first")
    consumer.subscribe(TOPIC)

    @consumer.listener
    def hear(messages: list[hanabi.StoredMessage]) -> None:
        for message in messages:
            body = message.body.decode()
            assert body in PLAIN or {name: message.properties[name] for name in ZEROS} == ZEROS
            if body == "returned" and message.reconsume_times == 0:
                raise ConnectionError("try again")
            heard.put(body)

    with consumer:
        while expected:
            expected.discard(heard.get(timeout=DEADLINE_S))


def test_no_message_is_lost_behind_one_with_zeros_in_its_properties(tmp_path: Path) -> None:
    servers = OurServers(tmp_path / "servers", {"flushDiskType": "SYNC_FLUSH"})
    try:
        servers.wait_ready()
        send_all(servers.namesrv)
        servers.process.kill()
        servers.start_again()
        consume(servers.namesrv, PLAIN | {"zeros", "returned", "delayed", "committed"})
    finally:
        servers.process.kill()
