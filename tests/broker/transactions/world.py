"""Transactions on a small real store, with a clock that a test sets and a producer that remembers what it is asked."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from hanabi.broker.config import BrokerConfig
from hanabi.broker.offsets.consumer_offsets import ConsumerOffsets
from hanabi.broker.send.intake import Intake
from hanabi.broker.settings import Settings
from hanabi.broker.stats.broker_stats import BrokerStats
from hanabi.broker.tables.topics import Topics
from hanabi.broker.transactions.transactions import Transactions
from hanabi.errors import ConnectionLostError
from hanabi.remoting.connection.dispatch import Reply
from hanabi.store.log.commit_log import AppendResult, PendingMessage
from hanabi.store.message_store import PutResult, PutStatus
from hanabi.testing.clock import ManualClock
from hanabi.wire.codes import RequestCode
from hanabi.wire.header import Header
from hanabi.wire.headers.transaction import CheckTransactionStateHeader, EndTransactionHeader
from hanabi.wire.message import sysflag
from hanabi.wire.message.hosts import encode_host
from hanabi.wire.message.properties import encode_properties
from hanabi.wire.message.record import Record, decode_record
from hanabi.wire.system_names import HALF_TOPIC, OP_HALF_TOPIC, TRANSACTION_GROUP
from tests.store.stores import copy_as_after_a_kill, open_store, read_queue

BORN_HOST = encode_host("192.168.7.7", 40001)
STORE_HOST = encode_host("127.0.0.1", 10911)
COMMIT, ROLLBACK, UNKNOWN = sysflag.TRANSACTION_COMMIT, sysflag.TRANSACTION_ROLLBACK, sysflag.TRANSACTION_NONE
GROUP, TOPIC, QUEUE_ID = "pg", "Orders", 2


class Question:
    """A question that a producer was asked."""

    def __init__(self, header: CheckTransactionStateHeader, body: bytes) -> None:
        self.header = header
        self.record = decode_record(body)


class FakeProducer:
    """A producer that only listens; with `is_gone` its connection is lost."""

    def __init__(self) -> None:
        self.questions: list[Question] = []
        self.is_gone = False

    def send_oneway(self, code: int, header: Header | None = None, body: bytes = b"") -> None:
        if self.is_gone:
            raise ConnectionLostError("gone")
        assert code == RequestCode.CHECK_TRANSACTION_STATE
        assert isinstance(header, CheckTransactionStateHeader)
        self.questions.append(Question(header, body))


class FakeProducers:
    def __init__(self) -> None:
        self.producer = FakeProducer()
        self.group = GROUP

    def pick(self, group: str) -> FakeProducer | None:
        return self.producer if group == self.group else None


def _no_delay(message: PendingMessage) -> PendingMessage:
    raise AssertionError(f"{message} is delayed")


class Tap:
    """The way into the store, which a test can close: for all messages or for those of one topic."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self.refused: PutResult | None = None
        self.refused_topic: str | None = None

    def put(self, message: PendingMessage) -> PutResult:
        if self.refused is not None and self.refused_topic in (None, message.topic):
            return self.refused
        return self._intake.put(message)

    @contextmanager
    def closed(
        self, status: PutStatus = PutStatus.SERVICE_NOT_AVAILABLE, *, topic: str | None = None
    ) -> Iterator[None]:
        self.refused, self.refused_topic = PutResult(status, reason="no room"), topic
        yield
        self.refused = None


class World:
    def __init__(
        self, root: Path, clock: ManualClock | None = None, *, store: Mapping[str, int] | None = None, **broker: object
    ) -> None:
        self.root, self.clock = root, clock or ManualClock()
        self._files = store or {"commit_log_segment_bytes": 1 << 20, "index_slots": 1000, "index_entries": 4000}
        self.broker = BrokerConfig(broker_name="broker-a", **broker)  # type: ignore[arg-type]
        self.producers = FakeProducers()
        self.open()

    def open(self) -> None:
        self.store = open_store(self.root, clock=self.clock, **self._files)  # type: ignore[arg-type]
        self.settings = Settings(self.broker, self.store.config)
        self.topics = Topics(None, self.settings, self.clock)
        self.offsets = ConsumerOffsets(self.root / "config" / "consumerOffset.json")
        self.stats = BrokerStats("DefaultCluster", self.clock)
        self.intake = Tap(Intake(self.store, self.stats, _no_delay))
        self.transactions = Transactions(
            self.store, self.intake, self.offsets, self.producers, self.topics, self.settings, self.clock
        )

    def restart(self) -> None:
        """Stop cleanly and start again."""
        self.offsets.save()
        self.store.close()
        self.open()

    def crash(self) -> None:
        """Start again from the files as they are now, which is all that the next process finds: not the offsets
        since they were saved, as after a power cut (a kill alone leaves their marks)."""
        self.root = copy_as_after_a_kill(self.store, self.root.with_name(self.root.name + "+"))
        (self.root / "config" / "consumerOffset.marks").unlink(missing_ok=True)
        self.store.close()
        self.open()

    def close(self) -> None:
        self.store.close()

    # What producers do

    def send(self, body: bytes = b"hello", *, key: str | None = "K1", group: str = GROUP, **more: str) -> AppendResult:
        """Store a half message."""
        properties: dict[str, str] = {"TAGS": "A", "TRAN_MSG": "true", "PGROUP": group, **more}
        if key is not None:
            properties["UNIQ_KEY"] = key
        result = self.transactions.put_half(self.message(body, properties))
        assert result.status is PutStatus.PUT_OK
        return result.appended[0]

    def message(self, body: bytes, properties: Mapping[str, str]) -> PendingMessage:
        return PendingMessage(
            TOPIC,
            QUEUE_ID,
            body,
            encode_properties(properties),
            self.clock.ms,
            BORN_HOST,
            STORE_HOST,
            flag=77,
            sys_flag=sysflag.TRANSACTION_PREPARED | sysflag.MULTI_TAGS,
            reconsume_times=1,
        )

    def end(self, half: AppendResult, how: int, *, key: str = "K1", group: str = GROUP, **changes: int) -> Reply:
        header = EndTransactionHeader(
            producer_group=group,
            tran_state_table_offset=half.queue_offset,
            commit_log_offset=half.log_offset,
            commit_or_rollback=how,
            msg_id=key,
        )
        return self.transactions.end(msgspec.structs.replace(header, **changes))

    def answer(self, question: Question, how: int) -> Reply:
        """Answer as a Java producer that has been asked."""
        asked = question.header
        return self.transactions.end(
            EndTransactionHeader(
                producer_group=GROUP,
                tran_state_table_offset=asked.tran_state_table_offset,
                commit_log_offset=asked.commit_log_offset,
                commit_or_rollback=how,
                msg_id=asked.msg_id or "",
                transaction_id=asked.transaction_id,
                from_transaction_check=True,
            )
        )

    # What time does

    def check(self, after_ms: int = 0) -> list[Question]:
        """Let *after_ms* pass, then one round; return the questions of this round."""
        self.clock.ms += after_ms
        before = len(self.producers.producer.questions)
        for _ in self.transactions.check():
            pass
        return self.producers.producer.questions[before:]

    # What can be seen

    def delivered(self) -> list[Record]:
        return read_queue(self.store, TOPIC, QUEUE_ID)

    def bodies(self) -> list[bytes]:
        return [record.body for record in self.delivered()]

    def halves(self) -> list[Record]:
        return read_queue(self.store, HALF_TOPIC)

    def ops(self) -> list[bytes]:
        return [record.body for record in read_queue(self.store, OP_HALF_TOPIC)]

    def offset(self, topic: str) -> int:
        return self.offsets.find(TRANSACTION_GROUP, topic, 0)
