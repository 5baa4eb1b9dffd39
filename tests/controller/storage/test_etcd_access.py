"""Access to etcd: TLS, users, answers of any size, and every refusal a sentence that says what to do."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from hanabi.controller.storage.etcd_access import PASSWORD_VARIABLE, etcd_access
from hanabi.controller.storage.etcd_client import EtcdAccess, EtcdClient, encoded, parse_endpoints
from hanabi.controller.storage.etcd_store import EtcdStore
from hanabi.controller.storage.store import ABSENT
from hanabi.errors import ConfigError, ControllerNotLeader, StateUnavailable
from tests.cli.admin_commands import run
from tests.cli.commands import refused
from tests.controller.rules.brokers import broker_set
from tests.controller.storage.etcd_process import Etcd, etcd_cluster, need_etcd, state_url
from tests.remoting.certificates import issue

RIGHT, WRONG = "right", "wrong"
ABSENT_FILE = "/nonexistent"


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[Etcd]:
    need_etcd()
    with ExitStack() as stack:
        (member,) = etcd_cluster(tmp_path / "etcd", 1)
        stack.callback(member.kill)
        yield member


def client(member: Etcd, access: EtcdAccess | None = None) -> EtcdClient:
    return EtcdClient(parse_endpoints(state_url([member])), access=access)


async def test_an_answer_of_any_size_is_read_to_its_end(etcd: Etcd) -> None:
    value = encoded(b"x" * 900_000)
    await client(etcd).call("/v3/kv/put", {"key": encoded("k"), "value": value})
    answer = await client(etcd).call("/v3/kv/range", {"key": encoded("k")})
    assert answer["kvs"][0]["value"] == value


async def test_of_two_controllers_that_think_they_lead_only_one_can_write(tmp_path: Path, etcd: Etcd) -> None:
    one = EtcdStore(client(etcd), tmp_path / "one", lease_seconds=60)
    await one.open("127.0.0.1:1")
    await client(etcd).call("/v3/kv/deleterange", {"key": encoded("/hanabi/controller/leader")})
    two = EtcdStore(client(etcd), tmp_path / "two", lease_seconds=60)
    await two.open("127.0.0.1:2")
    assert one.leads  # it has not heard of it
    assert two.leads
    assert await two.write("a", ABSENT, broker_set(1))
    with pytest.raises(ControllerNotLeader, match="nothing changed"):
        await one.write("b", ABSENT, broker_set(1, 2))
    assert not one.leads
    assert await two.read("b") is None
    await one.close()
    await two.close()


async def with_root(member: Etcd) -> None:
    """Turn on etcd's users; root has the password `right`."""
    open_client = client(member)
    for path, body in (
        ("/v3/auth/user/add", {"name": "root", "password": RIGHT}),
        ("/v3/auth/role/add", {"name": "root"}),
        ("/v3/auth/user/grant", {"user": "root", "role": "root"}),
        ("/v3/auth/enable", {}),
    ):
        await open_client.call(path, body)


async def test_a_user_is_needed_checked_and_known_again_after_a_restart_of_etcd(tmp_path: Path, etcd: Etcd) -> None:
    await with_root(etcd)
    with pytest.raises(StateUnavailable, match="this etcd needs a user, set etcdUser"):
        await client(etcd).call("/v3/kv/range", {"key": encoded("k")})
    with pytest.raises(StateUnavailable, match="authentication failed"):
        await client(etcd, EtcdAccess(user="root", password=WRONG)).call("/v3/kv/range", {"key": encoded("k")})
    store = EtcdStore(client(etcd, EtcdAccess(user="root", password=RIGHT)), tmp_path / "home", lease_seconds=2)
    await store.open("127.0.0.1:1")
    assert await store.write("a", ABSENT, broker_set(1))
    etcd.kill()
    etcd.start()  # it has forgotten its tokens
    etcd.wait_ready()
    stored = await store.read("a")
    assert stored is not None
    assert store.failures == 0
    await store.close()


def test_settings_of_access_that_contradict_each_other_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(PASSWORD_VARIABLE, raising=False)
    with pytest.raises(ConfigError, match="need --state etcds://"):
        etcd_access("etcd://h:1", ca_cert="ca.pem")
    with pytest.raises(ConfigError, match="go together"):
        etcd_access("etcds://h:1", cert="client.pem")
    with pytest.raises(ConfigError, match="etcdUser needs a password"):
        etcd_access("etcd://h:1", user="root")
    with pytest.raises(ConfigError, match=r"certificates of etcd .*No such file"):
        etcd_access("etcds://h:1", ca_cert="/nonexistent.pem")
    with pytest.raises(ConfigError, match="etcdPasswordFile /nonexistent: No such file"):
        etcd_access("etcd://h:1", user="root", password_file=ABSENT_FILE)
    with pytest.raises(ConfigError, match="takes no user and password"):
        parse_endpoints("etcd://root:right@h:1")
    (tmp_path / "secret").write_text(f"{RIGHT}\n")
    assert etcd_access("etcd://h:1", user="root", password_file=str(tmp_path / "secret")).password == RIGHT
    monkeypatch.setenv(PASSWORD_VARIABLE, WRONG)
    assert etcd_access("etcd://h:1", user="root").password == WRONG


def test_a_controller_without_its_etcd_does_not_start_and_says_what_to_do(tmp_path: Path) -> None:
    words = ("--home", str(tmp_path), "--host", "127.0.0.1", "--port", "0")
    sentence = refused(run("serve", "controller", "--state", "etcd://127.0.0.1:9", *words), 2)
    assert "127.0.0.1:9" in sentence
    assert "check --state, and that most members of etcd run" in sentence
    assert "--state must be etcd://" in refused(run("serve", "controller", "--state", "http://h:1", *words), 2)


def certificates(folder: Path) -> Path:
    """Write an authority, and certificates of a server and of a client; return their folder."""
    authority = issue(folder, "ca")
    for name in ("server", "client"):
        issue(folder, name, authority)
    return folder


async def test_etcd_by_tls_needs_the_right_authority_and_a_client_certificate(tmp_path: Path) -> None:
    need_etcd()
    files = certificates(tmp_path)
    options = [
        *("--cert-file", str(files / "server.pem"), "--key-file", str(files / "server.key")),
        *("--trusted-ca-file", str(files / "ca.pem"), "--client-cert-auth"),
    ]
    with ExitStack() as stack:
        (member,) = etcd_cluster(tmp_path / "etcd", 1, scheme="https", options=options)
        stack.callback(member.kill)
        url = state_url([member]).replace("etcd://", "etcds://")
        known = {"cert": str(files / "client.pem"), "key": str(files / "client.key")}
        right = etcd_access(url, ca_cert=str(files / "ca.pem"), **known)
        store = EtcdStore(EtcdClient(parse_endpoints(url), access=right), tmp_path / "home", lease_seconds=2)
        await store.open("127.0.0.1:1")
        assert await store.write("a", ABSENT, broker_set(1))
        await store.close()
        for wrong, reason in (
            (etcd_access(url, **known), "certificate verify failed"),
            (etcd_access(url, ca_cert=str(files / "ca.pem")), "ertificate"),
        ):
            with pytest.raises(StateUnavailable, match=reason):
                await EtcdClient(parse_endpoints(url), access=wrong).call("/v3/kv/range", {"key": encoded("k")})
        with pytest.raises(StateUnavailable, match="etcd does not answer"):  # plain words to a port with TLS
            await client(member).call("/v3/kv/range", {"key": encoded("k")})
