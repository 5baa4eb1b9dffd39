"""A log file that is cut under a running broker: pulls from there are answered with a sentence, and it stays alive."""

import os
import signal
from pathlib import Path

import pytest

from hanabi.errors import MQError
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.headers.pull import PullMessageHeader
from tests.faults.broker_process import broker_process
from tests.faults.exchange import GROUP, QUEUE, TOPIC, Exchange, talk

BODIES = [b"%03d" % number + b"x" * 1_000 for number in range(200)]


async def send(client: Exchange) -> None:
    await client.send_all(BODIES)


async def pull_all(client: Exchange) -> tuple[int, str]:
    """Pull until an answer has no messages; how many there were, and what that answer says."""
    offset = 0
    while True:
        pull = PullMessageHeader(
            consumer_group=GROUP,
            topic=TOPIC,
            queue_id=QUEUE,
            queue_offset=offset,
            max_msg_nums=32,
            sys_flag=4,
            commit_offset=0,
            suspend_timeout_millis=0,
            sub_version=0,
            subscription="*",
            expression_type="TAG",
        )
        answer = await client.peer.ask(RequestCode.PULL_MESSAGE, pull)
        if answer.code != ResponseCode.SUCCESS:
            return offset, answer.remark or ""
        offset += len(await client.pull(offset))


def test_pulls_from_a_part_of_the_log_that_cannot_be_read_are_answered_with_a_sentence(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with broker_process(store) as broker:
        talk(broker.port, send)
        broker.process.stop()
    with broker_process(store) as broker:
        broker.wait_ready()
        os.truncate(store / "commitlog" / f"{0:020d}", 40_960)
        found, told = talk(broker.port, pull_all)
        assert 25 < found < 45
        assert "commitlog/00000000000000000000: bytes" in told
        assert "cannot be read" in told
        assert talk(broker.port, pull_all) == (found, told)


async def pull_first(client: Exchange) -> None:
    await client.pull(0)


def test_a_recent_message_whose_page_is_gone_ends_the_process_with_a_stack_and_the_next_start_names_the_file(
    tmp_path: Path,
) -> None:
    # Its pages are taken for present, for the speed of pulls.
    store = tmp_path / "store"
    with broker_process(store) as broker:
        talk(broker.port, send)
        os.truncate(store / "commitlog" / f"{0:020d}", 0)
        with pytest.raises((OSError, MQError, EOFError, TimeoutError)):
            talk(broker.port, pull_first)
        assert broker.process.wait_ended() == -signal.SIGBUS
        assert "Fatal Python error: Bus error" in broker.process.output()
        assert "most recent call first" in broker.process.output()
    os.truncate(store / "commitlog" / f"{0:020d}", 40_960)
    with broker_process(store) as broker:  # after a crash the newest file gets its size again
        broker.wait_ready()
        assert "commitlog/00000000000000000000" in broker.process.output()
