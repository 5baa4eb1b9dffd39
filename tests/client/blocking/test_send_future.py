"""Futures of the blocking producer: results, errors, callbacks, room and flush."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from hanabi import InvalidMessage, Message, MQError, Producer, SendResult, SendStatus
from hanabi.errors import RequestTimeoutError, TooManyRequestsError
from hanabi.testing.embedded import EmbeddedCluster
from hanabi.testing.proxied import proxied_cluster
from hanabi.testing.threads import in_thread

SECONDS = 30


@pytest.fixture
def producer(hanabi_cluster: EmbeddedCluster) -> Iterator[Producer]:
    with Producer("futures", namesrv=hanabi_cluster.namesrv) as producer:
        yield producer


def test_futures_have_the_results_in_the_order_of_the_sends(producer: Producer) -> None:
    futures = [producer.send_future(Message("Futures", b"%d" % number)) for number in range(1_000)]
    producer.flush(SECONDS)
    assert all(future.done() for future in futures)
    results = [future.result() for future in futures]
    assert {result.status for result in results} == {SendStatus.SEND_OK}
    assert len({result.message_id for result in results}) == 1_000


def test_a_callback_gets_the_result_or_the_error(producer: Producer) -> None:
    told: list[tuple[SendResult | None, BaseException | None]] = []

    def done(result: SendResult | None, error: BaseException | None) -> None:
        told.append((result, error))

    good = producer.send_future(Message("Futures", b"x"), callback=done)
    assert good.result(SECONDS).status is SendStatus.SEND_OK
    bad = producer.send_future(Message("Futures", b""), callback=done)
    with pytest.raises(InvalidMessage, match="empty"):
        bad.result(SECONDS)
    producer.flush(SECONDS)
    assert [result is None for result, _ in told] == [False, True]
    assert isinstance(told[1][1], InvalidMessage)


def test_a_callback_that_fails_is_logged_and_harms_nothing(
    producer: Producer, caplog: pytest.LogCaptureFixture
) -> None:
    def done(result: SendResult | None, error: BaseException | None) -> None:
        raise RuntimeError("of the program")

    producer.send_future(Message("Futures", b"x"), callback=done).result(SECONDS)
    producer.flush(SECONDS)
    assert "the callback of a send failed" in caplog.text
    assert producer.send(Message("Futures", b"x")).status is SendStatus.SEND_OK


def test_a_callback_may_send_the_next_message(producer: Producer) -> None:
    second: list[Future[SendResult]] = []
    ended = threading.Event()

    def done(result: SendResult | None, error: BaseException | None) -> None:
        second.append(producer.send_future(Message("Futures", b"second"), callback=lambda *_: ended.set()))

    producer.send_future(Message("Futures", b"first"), callback=done)
    assert ended.wait(SECONDS)
    assert second[0].result(SECONDS).status is SendStatus.SEND_OK


def test_shutdown_finishes_the_sends_and_later_ones_are_refused(hanabi_cluster: EmbeddedCluster) -> None:
    producer = Producer("futures", namesrv=hanabi_cluster.namesrv)
    producer.start()
    futures = [producer.send_future(Message("Futures", b"x")) for _ in range(100)]
    producer.shutdown()
    assert {future.result(SECONDS).status for future in futures} == {SendStatus.SEND_OK}
    with pytest.raises(MQError, match="not running"):
        producer.send_future(Message("Futures", b"x"))


def test_unfinished_sends_are_bounded_and_flush_has_a_timeout(tmp_path: Path) -> None:
    with in_thread(proxied_cluster(tmp_path, brokers=["broker-a"])) as run:
        run.run(run.it.create_topic("Orders"))
        with Producer("shop", namesrv=run.it.namesrv, in_flight_max=2, retries=0, send_timeout_s=3) as producer:
            producer.send(Message("Orders", b"x"))
            run.do(lambda cluster: cluster.hang("broker-a"))
            futures = [producer.send_future(Message("Orders", b"x")) for _ in range(2)]
            with pytest.raises(TooManyRequestsError, match="in_flight_max"):
                producer.send_future(Message("Orders", b"x"), timeout=0.05)
            with pytest.raises(RequestTimeoutError, match="2 sends have not ended"):
                producer.flush(0.05)
            for future in futures:
                assert isinstance(future.exception(SECONDS), MQError)
            producer.flush(SECONDS)
