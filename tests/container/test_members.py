"""Brokers of a container as their files describe them: what cannot run together is refused in one sentence."""

import os
from pathlib import Path

import pytest

from hanabi.container.config import ContainerConfig, read_config
from hanabi.container.member import FILE_BYTES_MAX, Identity, check_beside, read_member
from hanabi.errors import ConfigError


def written(folder: Path, name: str, **settings: object) -> Path:
    file = folder / f"{name}.conf"
    given = {"brokerName": name, "storePathRootDir": folder / name, **settings}
    file.write_text("".join(f"{key}={value}\n" for key, value in given.items()))
    return file


def test_a_broker_is_known_by_cluster_name_and_id(tmp_path: Path) -> None:
    slave = read_member(written(tmp_path, "a", brokerRole="SLAVE", brokerId=2, brokerClusterName="c"))
    assert (slave.identity, str(slave.identity), slave.label) == (Identity("c", "a", 2), "c_a_2", "a:2")
    master = read_member(written(tmp_path, "b", brokerRole="SYNC_MASTER", brokerId=7))
    assert master.identity.broker_id == 0  # as Apache forces it


def test_the_ports_of_a_broker_are_its_own_the_fast_one_and_that_for_slaves(tmp_path: Path) -> None:
    assert read_member(written(tmp_path, "a", listenPort=20000)).ports == {19998, 20000, 20001}
    assert read_member(written(tmp_path, "b", listenPort=20000, haListenPort=7)).ports == {19998, 20000, 7}
    assert read_member(written(tmp_path, "c", listenPort=0)).ports == frozenset()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"brokerRole": "SLAVE"}, "brokerRole = SLAVE needs a brokerId of 1 or more"),
        ({"inSyncReplicas": 2}, "invalid replicas number: totalReplicas 1 must be at least inSyncReplicas 2"),
        ({"minInSyncReplicas": 2, "totalReplicas": 2}, "at least minInSyncReplicas 2"),
        ({"listenPort": "x"}, "listenPort must be"),
    ],
)
def test_a_file_that_describes_no_broker_is_refused(settings: dict[str, object], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=sentence):
        read_member(written(tmp_path, "a", **settings))


def test_a_name_that_is_no_file_of_settings_is_refused_before_it_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # a read would wait for a writer
    (tmp_path / "large").write_bytes(b"#" * (FILE_BYTES_MAX + 1))
    for name, sentence in (
        ("/dev/zero", "not a regular file"),
        (tmp_path, "not a regular file"),
        (tmp_path / "pipe", "not a regular file"),
        (tmp_path / "large", "at most"),
        ("a\0b", "null byte"),
        ("a" * 5_000, "File name too long"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            read_member(Path(name))


def test_two_brokers_share_neither_identity_nor_directory_nor_port(tmp_path: Path) -> None:
    first = read_member(written(tmp_path, "a", listenPort=20000))
    check_beside(read_member(written(tmp_path, "b", listenPort=20010)), [first])
    for settings, sentence in (
        ({"brokerName": "a", "listenPort": 20010}, "DefaultCluster_a_0 has already been added"),
        ({"storePathRootDir": tmp_path / "a", "listenPort": 20010}, "storePathRootDir .* is that of"),
        ({"listenPort": 20003}, "port 20001 is also of"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            check_beside(read_member(written(tmp_path, "c", **settings)), [first])


def test_the_files_of_the_brokers_are_separated_by_colons(tmp_path: Path) -> None:
    file = tmp_path / "container.conf"
    file.write_text("listenPort=1\nbrokerConfigPaths=/etc/a.conf:/etc/b.conf\n")
    config = read_config(file)
    assert config.files == (Path("/etc/a.conf"), Path("/etc/b.conf"))
    assert config.listen_port == 1
    assert ContainerConfig().files == ()
