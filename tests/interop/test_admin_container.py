"""mqadmin of 5.3.3 with our container: addBroker and removeBroker, unchanged."""

from pathlib import Path

from tests.container.crossed import broker_file, running_container, running_namesrv
from tests.interop.mqadmin import MqAdmin


def test_mqadmin_adds_and_removes_a_broker(admin_5: MqAdmin, tmp_path: Path) -> None:
    with running_namesrv(tmp_path / "namesrv") as namesrv, running_container(tmp_path / "c") as container:
        file, where = broker_file(tmp_path / "a.conf", "broker-a", 0, namesrv), container.address
        absent = admin_5.run(namesrv, "addBroker", "-c", where, "-b", "/nonexistent.conf")
        assert "CODE: 1" in absent
        assert "/nonexistent.conf: No such file" in absent
        added = admin_5.run(namesrv, "addBroker", "-c", where, "-b", str(file))
        assert f"add broker to {where} success" in added
        again = admin_5.run(namesrv, "addBroker", "-c", where, "-b", str(file))
        assert "DefaultCluster_broker-a_0 has already been added to current broker container" in again
        assert "broker-a" in admin_5.run(namesrv, "clusterList")
        removed = admin_5.run(namesrv, "removeBroker", "-c", where, "-b", "DefaultCluster:broker-a:0")
        assert f"remove broker from {where} success" in removed
        assert "broker-a" not in admin_5.run(namesrv, "clusterList")
        gone = admin_5.run(namesrv, "removeBroker", "-c", where, "-b", "DefaultCluster:broker-a:0")
        assert "CODE: 211" in gone
        assert container.children() == []
