"""RocketMQ's write buffers (transientStorePoolEnable) would lose what is in them with the process: there are none."""

from pathlib import Path

from tests.faults.broker_process import broker_process
from tests.faults.exchange import Exchange, talk

SETTINGS = {"transientStorePoolEnable": "true", "commitIntervalCommitLog": 3_600_000}


def test_what_was_acknowledged_survives_a_kill_whatever_the_file_says_of_write_buffers(tmp_path: Path) -> None:
    sent = [b"%d" % number for number in range(50)]
    with broker_process(tmp_path / "store", SETTINGS) as broker:
        talk(broker.port, lambda exchange: exchange.send_all(sent))
        assert "transientStorePoolEnable = true has no effect" in broker.process.log.read_text()
        broker.process.kill()

    async def bodies(exchange: Exchange) -> list[bytes]:
        return await exchange.bodies()

    with broker_process(tmp_path / "store", SETTINGS) as broker:
        assert talk(broker.port, bodies) == sent
