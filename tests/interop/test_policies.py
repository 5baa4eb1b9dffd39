"""Users and policies of 5.x side by side: mqadmin and Java clients of 5.3 with Apache's broker and with ours."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.admin_commands import run as run_command
from tests.interop.apache import ApacheBroker, java, java_environment
from tests.interop.jars import ALL_5, JAVA, classpath
from tests.interop.mqadmin import MqAdmin
from tests.interop.ours import OurBroker, OurNameServer
from tests.interop.sites import CLUSTER

THEIRS, OURS = "theirs", "ours"
PROVIDERS = "org.apache.rocketmq.auth"
SETTINGS = {
    "authenticationEnabled": "true",
    "authenticationProvider": f"{PROVIDERS}.authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": f"{PROVIDERS}.authentication.provider.LocalAuthenticationMetadataProvider",
    "authorizationEnabled": "true",
    "authorizationProvider": f"{PROVIDERS}.authorization.provider.DefaultAuthorizationProvider",
    "authorizationMetadataProvider": f"{PROVIDERS}.authorization.provider.LocalAuthorizationMetadataProvider",
    "initAuthenticationUser": '{"username":"operator1","password":"12345678"}',
    "innerClientAuthenticationCredentials": '{"accessKey":"inner1","secretKey":"secret-of-inner"}',
}


class Sites(NamedTuple):
    """Two guarded brokers, each with a name server, and mqadmin that signs as a Super user."""

    namesrvs: dict[str, OurNameServer]
    brokers: dict[str, ApacheBroker | OurBroker]
    mqadmin: MqAdmin

    def run(self, site: str, command: str, *arguments: str) -> str:
        """Return what mqadmin prints, without the address."""
        address = self.brokers[site].address
        printed = self.mqadmin.run(self.namesrvs[site].address, command, "-b", address, *arguments)
        return printed.replace(address, "BROKER")


@pytest.fixture(scope="module")
def sites(apache_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    home = tmp_path_factory.mktemp("policies")
    with ExitStack() as stack:
        namesrvs = {site: OurNameServer(home / f"namesrv-{site}") for site in (THEIRS, OURS)}
        for namesrv in namesrvs.values():
            stack.callback(namesrv.process.kill)
            namesrv.wait_ready()
        own, theirs = namesrvs[OURS].address, namesrvs[THEIRS].address
        brokers: dict[str, ApacheBroker | OurBroker] = {
            THEIRS: ApacheBroker(home / THEIRS, ALL_5, name=THEIRS, cluster=CLUSTER, namesrv=theirs, settings=SETTINGS),
            OURS: OurBroker(home / OURS, name=OURS, namesrv=own, settings={**SETTINGS, "brokerClusterName": CLUSTER}),
        }
        for broker in brokers.values():
            stack.callback(broker.process.kill)
        (home / "mqadmin" / "conf").mkdir(parents=True)
        (home / "mqadmin" / "conf" / "tools.yml").write_text("accessKey: operator1\nsecretKey: 12345678\n")
        mqadmin = MqAdmin(home / "mqadmin", ALL_5)
        stack.callback(mqadmin.close)
        for broker in brokers.values():
            broker.wait_ready()
        yield Sites(namesrvs, brokers, mqadmin)


CREATE = ("-d", "Allow")
SCRIPT = (
    ("createUser", "-u", "app", "-p", "secret-of-app"),
    ("createUser", "-u", "app", "-p", "secret-of-app"),
    ("updateUser", "-u", "app", "-s", "disable"),
    ("updateUser", "-u", "nobody", "-p", "another-secret"),
    ("getUser", "-u", "app"),
    ("getUser", "-u", "nobody"),
    ("listUser", "-f", "ap"),
    ("createAcl", "-s", "User:app", "-r", "Topic:orders,Topic:ord*", "-a", "Pub,Sub", *CREATE),
    ("createAcl", "-s", "User:app", "-r", "Group:*", "-a", "Sub", "-i", "192.168.0.0/16,10.1.2.3", "-d", "Deny"),
    ("createAcl", "-s", "User:nobody", "-r", "Topic:orders", "-a", "Pub", *CREATE),
    ("createAcl", "-s", "User:app", "-r", "orders", "-a", "Pub", *CREATE),
    ("createAcl", "-s", "User:app", "-r", "Topic:orders", "-a", "Any", *CREATE),
    ("createAcl", "-s", "User:app", "-r", "Topic:orders", "-a", "Pub", "-i", "nowhere", *CREATE),
    ("updateAcl", "-s", "User:app", "-r", "Topic:orders", "-a", "Get,List", *CREATE),
    ("getAcl", "-s", "User:app"),
    ("getAcl", "-s", "User:nobody"),
    ("listAcl", "-s", "ap", "-r", "ord"),
    ("deleteAcl", "-s", "User:app", "-r", "Topic:orders"),
    ("listAcl",),
    ("deleteAcl", "-s", "User:nobody"),
    ("deleteUser", "-u", "app"),
    ("listUser",),
)


def lines(printed: str) -> list[str]:
    """Return the lines that the broker decides, in any order: without Java's stacks and logs. Our broker also names the
    value that is wrong."""
    told = [
        re.sub(r"(is null|is invalid): .*", r"\1.", re.sub(r"[ \t]+", " ", line)).strip()
        for line in printed.splitlines()
        if not line.startswith("\tat ") and "more" not in line.split()[-1:] and "|-" not in line
    ]
    return sorted(line for line in told if line)


def test_mqadmin_gets_the_same_answers(sites: Sites) -> None:
    for command, *arguments in SCRIPT:
        theirs, ours = (lines(sites.run(site, command, *arguments)) for site in (THEIRS, OURS))
        assert ours == theirs, (command, arguments)


# The cases of AclClient.java; 127.0.0.1 is the source.
def forbidden(resource: str) -> str:
    return f"User:rocketmq2 has no permission to access {resource} from 127.0.0.1, no matched policies."


CASES = {
    "send right": None,
    "batch right": None,
    "send forbidden": forbidden("Topic:Forbidden"),
    "batch forbidden": forbidden("Topic:Forbidden"),
    "send retry": forbidden("Group:victims"),
    "send wrong": "check signature failed.",
    "batch wrong": "check signature failed.",
    "send stranger": "User:stranger1 is not found.",
    "batch stranger": "User:stranger1 is not found.",
    "send unsigned": "username cannot be null.",
    "batch unsigned": "username cannot be null.",
    "pull reader": None,
    "pull group": forbidden("Group:others"),
    "pull topic": forbidden("Topic:Forbidden"),
}
HOLES_OF_5 = {"send retry"}  # Apache's broker takes the group of a retry topic from the header


@pytest.mark.parametrize("site", [THEIRS, OURS])
def test_java_clients_are_allowed_and_refused_alike(sites: Sites, site: str, tmp_path: Path) -> None:
    sites.run(site, "updateTopic", "-t", "Allowed")
    sites.run(site, "createUser", "-u", "rocketmq2", "-p", "12345678")
    sites.run(site, "createAcl", "-s", "User:rocketmq2", "-r", "Topic:Allowed", "-a", "Pub,Sub", *CREATE)
    sites.run(site, "createAcl", "-s", "User:rocketmq2", "-r", "Group:readers", "-a", "Sub", *CREATE)
    program = str(JAVA / "acl" / "AclClient.java")
    command = java(tmp_path, classpath(ALL_5), program, sites.namesrvs[site].address, site)
    done = subprocess.run(
        command, env=java_environment(), capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path
    )
    told = dict(re.findall(r"^case (.+?): (.*)$", done.stdout, flags=re.MULTILINE))
    assert told.keys() == CASES.keys(), done.stdout + done.stderr
    holes = HOLES_OF_5 if site == THEIRS else set()
    for case, sentence in CASES.items():
        expected = "OK" if sentence is None else f"16 {sentence}"
        assert (told[case] == expected) == (case not in holes), (case, told[case])


def test_mqadmin_copies_users_and_policies_in_both_directions(sites: Sites) -> None:
    for here, there in ((THEIRS, OURS), (OURS, THEIRS)):
        name = f"from-{here}"
        sites.run(here, "createUser", "-u", name, "-p", f"secret-of-{name}")
        sites.run(
            here, "createAcl", "-s", f"User:{name}", "-r", "Topic:or*", "-a", "Pub,Get", "-i", "10.0.0.0/8", *CREATE
        )
        between = ("-f", sites.brokers[here].address, "-t", sites.brokers[there].address)
        namesrv = sites.namesrvs[here].address
        assert f"copy user of {name}" in sites.mqadmin.run(namesrv, "copyUser", *between, "-u", name)
        assert f"User:{name}" in sites.mqadmin.run(namesrv, "copyAcl", *between, "-s", f"User:{name}")
        for command in (("getUser", "-u", name), ("getAcl", "-s", f"User:{name}")):
            copied = lines(sites.run(there, *command))
            assert copied == lines(sites.run(here, *command))
            assert any(name in line for line in copied)


def test_our_slave_signs_its_requests_to_a_master_of_apache(sites: Sites, tmp_path: Path) -> None:
    sites.run(THEIRS, "updateTopic", "-t", "Copied", "-r", "3", "-w", "3")
    settings = {**SETTINGS, "brokerClusterName": CLUSTER, "brokerRole": "SLAVE", "brokerId": "1"}
    slave = OurBroker(tmp_path, name=THEIRS, namesrv=sites.namesrvs[THEIRS].address, settings=settings)
    try:
        topics = tmp_path / "store" / "config" / "topics.json"
        slave.process.wait_until(
            lambda: topics.exists() and '"Copied"' in topics.read_text(), "copy the topics of its master"
        )
        assert "could not be copied" not in slave.process.output()
    finally:
        slave.process.kill()


def test_our_commands_administer_both_brokers(sites: Sites, tmp_path: Path) -> None:
    (tmp_path / "admin.yml").write_text("accessKey: operator1\nsecretKey: 12345678\n")
    (tmp_path / "secret").write_text("secret-of-told\n")
    told: dict[str, list[object]] = {THEIRS: [], OURS: []}
    for site, answers in told.items():
        options = ("-n", sites.namesrvs[site].address, "--access-key", f"file:{tmp_path / 'admin.yml'}", "--json")
        for command in (
            ("user", "create", "told", "--password-file", str(tmp_path / "secret")),
            ("user", "list", "told"),
            ("acl", "create", "told", "Topic:Al*", "-a", "pub", "--source", "10.0.0.0/8"),
            ("acl", "show", "told"),
            ("acl", "explain", "told", "--topic", "Allowed", "-a", "pub", "--source", "10.1.2.3"),
            ("acl", "delete", "told", "Topic:Al*", "--yes"),
            ("acl", "list", "--user", "told"),
            ("user", "delete", "told", "--yes"),
        ):
            done = run_command(*command, *options)
            assert (done.returncode, done.stderr) == (0, ""), (site, command, done.stderr)
            answers.append(done.stdout.replace(site, "SITE"))
    assert told[OURS] == told[THEIRS]
    assert "secret-of" not in str(told)
