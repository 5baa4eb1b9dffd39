"""`hanabi cluster plan`: files that servers accept, and hosts that a form can have."""

import re
from pathlib import Path

import pytest

from hanabi.broker.config import BROKER_KEYS, read_broker_config
from hanabi.cli.cluster.forms import Asked, Form, Kind, every_file, file_text, planned, usual_hosts
from hanabi.cli.cluster.places import Hosts, ThisMachine
from hanabi.container.config import KEYS as CONTAINER_KEYS
from hanabi.container.config import read_config
from hanabi.container.member import check_beside, read_member
from hanabi.controller.config import KEYS as CONTROLLER_KEYS
from hanabi.namesrv.config import KEYS as NAMESRV_KEYS
from hanabi.store.config import STORE_KEYS
from tests.cli.admin_commands import run
from tests.cli.commands import refused

KEYS = {
    Kind.NAMESRV: set(NAMESRV_KEYS),
    Kind.CONTROLLER: set(CONTROLLER_KEYS),
    Kind.CONTAINER: set(CONTAINER_KEYS),
    Kind.BROKER: set(BROKER_KEYS) | set(STORE_KEYS),
}


@pytest.mark.parametrize("form", Form, ids=lambda form: form.value)
def test_every_file_of_a_form_is_one_that_its_server_takes(form: Form, tmp_path: Path) -> None:
    count = usual_hosts(form)
    hosts = Hosts([f"10.0.0.{number + 1}" for number in range(count)], tmp_path, tmp_path / "data")
    servers = planned(form, hosts, Asked(hosts=count, brokers=3, etcd="etcd://10.0.0.1:2379"))
    assert {server.host for server in servers} == set(range(count))
    for server in every_file(servers):
        assert set(server.settings) <= KEYS[server.kind], server.name
        Path(server.file).write_text(file_text(server))
    for server in servers:
        assert server.command[:4] == ["serve", server.kind.value, "-c", server.file]
        if server.kind is Kind.BROKER:
            read_broker_config(Path(server.file))
        elif server.kind is Kind.CONTAINER:
            assert [str(path) for path in read_config(Path(server.file)).files] == [
                each.file for each in server.members
            ]
            members = [read_member(Path(each.file)) for each in server.members]
            for number, member in enumerate(members):
                check_beside(member, members[:number])
                assert not member.waits_for_its_master


def test_a_machine_that_plays_all_of_them_gives_each_server_its_own_ports(tmp_path: Path) -> None:
    for form in Form:
        servers = every_file(planned(form, ThisMachine(tmp_path, 0), Asked(hosts=usual_hosts(form), namesrvs=1)))
        ports = [int(server.settings["listenPort"]) for server in servers]
        around = [port + distance for port in ports for distance in (-2, 0, 1)]
        assert len(set(around)) == len(around)
        assert len({server.data for server in servers}) == len(servers)


def test_the_crossed_form_puts_master_and_slave_of_a_name_on_different_hosts(tmp_path: Path) -> None:
    shown = run("cluster", "plan", "crossed", "--host", "one", "--host", "two", "--data-dir", "/d")
    assert shown.returncode == 0, shown.stderr
    where = dict(re.findall(r"==> (\w+)/(broker-\w(?:-s)?)\.conf", shown.stdout)[::-1])
    assert set(re.findall(r"==> (\w+)/(broker-\w(?:-s)?)\.conf", shown.stdout)) == {
        ("one", "broker-a"),
        ("one", "broker-b-s"),
        ("two", "broker-b"),
        ("two", "broker-a-s"),
    }
    assert where
    assert "storePathRootDir=/d/broker-a-s\n" in shown.stdout
    assert "namesrvAddr=one:9876;two:9876\n" in shown.stdout


def test_files_are_written_for_each_machine_and_an_old_plan_is_kept(tmp_path: Path) -> None:
    words = ("cluster", "plan", "controller", "--out", str(tmp_path / "plan"))
    assert run(*words).returncode == 0
    commands = (tmp_path / "plan" / "10.0.0.3" / "commands.txt").read_text()
    assert "serve controller -c /etc/hanabi/controller-3.conf" in commands
    assert "--state etcd://10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379" in commands
    assert "is there already" in refused(run(*words), 2)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["triangle"], "FORM must be one of single-master, "),
        (["crossed", "--host", "one"], "crossed needs 2 hosts, not 1"),
        (["crossed", "--host", "one", "--host", "one"], "an address twice"),
        (["several-masters", "--host", "one"], "several-masters needs 2 to 26 hosts"),
        (["masters-and-slaves-sync", "--host", "a", "--host", "b", "--host", "c"], "two hosts for each pair, not 3"),
        (["one-host", "--brokers", "27"], "--brokers must be 1 to 26"),
    ],
)
def test_hosts_that_a_form_cannot_have_are_refused(words: list[str], sentence: str) -> None:
    assert sentence in refused(run("cluster", "plan", *words), 2)


def test_a_cluster_is_started_only_on_this_machine() -> None:
    assert "add --local" in refused(run("cluster", "up", "one-host"), 2)
