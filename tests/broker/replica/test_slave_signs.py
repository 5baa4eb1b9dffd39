"""A slave of a master with access control: it signs with the broker's own credentials, and is refused without."""

from pathlib import Path
from typing import Any

import pytest

from hanabi.broker.config import BrokerConfig
from hanabi.broker.replica.roles import BrokerRole
from hanabi.testing.cluster import running_broker, running_cluster, small_store
from hanabi.testing.waiting import eventually
from tests.broker.test_access_control import OPERATOR, RULES, rules

INNER = f'{{"accessKey":"{OPERATOR.access_key}","secretKey":"{OPERATOR.secret_key}"}}'


@pytest.mark.parametrize("model", ["1.0", "2.0"])
async def test_a_slave_with_inner_credentials_copies_the_tables_of_its_master(tmp_path: Path, model: str) -> None:
    settings: dict[str, Any] = {"acl_enabled": True, "acl_folder": str(rules(tmp_path, RULES))}
    if model == "2.0":
        settings = {"authentication_enabled": True, "authorization_enabled": True}
    async with running_cluster(tmp_path, inner_credentials=INNER, **settings) as cluster:
        await cluster.create_topic("Orders", queues=3)
        config = BrokerConfig(
            broker_name="broker-a",
            broker_id=1,
            broker_role=BrokerRole.SLAVE,
            namesrv_addr=cluster.namesrv,
            inner_credentials=INNER,
            **settings,
        )
        async with running_broker(tmp_path / "slave", config, small_store(tmp_path / "slave")) as slave:
            await eventually(lambda: slave.slave_side is not None and slave.slave_side.sync.rounds > 0)
            assert slave.tables.topics.table().topic_config_table["Orders"].read_queue_nums == 3


async def test_a_slave_without_credentials_is_refused_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_cluster(tmp_path, inner_credentials=INNER, authentication_enabled=True) as cluster:
        config = BrokerConfig(
            broker_name="broker-a", broker_id=1, broker_role=BrokerRole.SLAVE, namesrv_addr=cluster.namesrv
        )
        async with running_broker(tmp_path / "slave", config, small_store(tmp_path / "slave")) as slave:
            await eventually(lambda: "username cannot be null." in caplog.text)
            assert slave.slave_side is not None
            assert slave.slave_side.sync.rounds == 0
    assert OPERATOR.secret_key not in caplog.text
