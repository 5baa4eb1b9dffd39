"""A machine on which no thread can be started: a running broker goes on, and one that starts says why it cannot."""

import errno
from pathlib import Path
from typing import Final

import pytest

from hanabi.testing.waiting import wait_until
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.headers.query import QueryMessageHeader
from tests.faults.broker_process import broker_process
from tests.faults.exchange import Exchange, talk
from tests.faults.shim import Faults

SETTINGS: Final = {
    "flushConsumerOffsetInterval": 100,
    "flushDelayOffsetInterval": 100,
    "messageDelayLevel": "1s",
    "mappedFileSizeCommitLog": 1 << 17,
}


def test_a_running_broker_sends_saves_and_delivers_without_a_new_thread(faults: Faults, tmp_path: Path) -> None:
    store = tmp_path / "store"

    async def use(client: Exchange) -> None:
        for number in range(40):
            answer = await client.send(b"x" * 9000, {"KEYS": f"k{number}"}, topic=f"Topic{number % 5}")
            assert answer.code == ResponseCode.SUCCESS, answer
        await client.send_all([b"later"], {"DELAY": "1"})
        await client.commit(5, topic="Topic0")
        query = QueryMessageHeader(topic="Topic1", key="k1", max_num=8, begin_timestamp=0, end_timestamp=2**62)
        answer = await client.peer.ask(RequestCode.QUERY_MESSAGE, query)
        assert answer.code == ResponseCode.SUCCESS, answer

    with broker_process(store, SETTINGS, env=faults.environment) as broker:
        broker.wait_ready()
        with faults.rule("pthread_create", errno.EAGAIN) as rule:
            talk(broker.port, use)
            wait_until(
                lambda: '"Topic0@Readers"' in text(store / "config" / "consumerOffset.json"), "offsets are saved"
            )
            wait_until(
                lambda: talk(broker.port, lambda client: client.bodies()) == [b"later"], "what was delayed comes"
            )
            wait_until(lambda: '"offsetTable":{1:1' in text(store / "config" / "delayOffset.json"), "and that is saved")
        assert "Traceback" not in broker.process.output()
        assert rule.counts.hit == 0
        assert talk(broker.port, lambda client: client.end(topic="Topic1")) == 8


def text(path: Path) -> str:
    return "".join(path.read_text().split()) if path.exists() else ""


@pytest.mark.parametrize("after", range(0, 13, 3))
def test_a_broker_that_cannot_start_its_threads_says_so_in_one_sentence(
    faults: Faults, tmp_path: Path, after: int
) -> None:
    with (
        faults.rule("pthread_create", errno.EAGAIN, after=after) as rule,
        broker_process(tmp_path / "store", SETTINGS, env=faults.environment) as broker,
    ):
        assert broker.process.wait_ended() == 2
        assert rule.counts.hit > 0
        assert "no thread can be started: a server needs about" in broker.process.output()
        assert "Traceback" not in broker.process.output()
