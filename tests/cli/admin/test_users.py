"""`hanabi user` and `hanabi acl`: with a broker that checks users, with one that checks accounts, and on files."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import hanabi
from hanabi.client.credentials import find_credentials, read_credentials
from hanabi.errors import ConfigError, NoPermission, SendFailed
from tests.cli.admin_commands import run
from tests.cli.commands import refused
from tests.cli.shapes import check, shape_of
from tests.serving import QUICK, Serving, serving

ROOT = {"username": "root", "password": "secret-of-root"}
USERS = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": json.dumps(ROOT),
}
ACCOUNTS = "accounts:\n- accessKey: operator\n  secretKey: secret-of-root\n  admin: true\n"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("users"), {**QUICK, **USERS}) as running:
        yield running


@pytest.fixture
def root(tmp_path: Path) -> str:
    path = tmp_path / "tools.yml"
    path.write_text("accessKey: root\nsecretKey: 'secret-of-root'\n")
    return f"file:{path}"


@pytest.fixture
def password(tmp_path: Path) -> str:
    path = tmp_path / "password"
    path.write_text("secret-of-app\n")
    return str(path)


class Commands:
    """Commands signed as one user."""

    def __init__(self, cluster: Serving, access: str) -> None:
        self.options = ("-n", cluster.namesrv, "--access-key", access)

    def said(self, *arguments: str) -> str:
        done = run(*arguments, *self.options)
        assert (done.returncode, done.stderr) == (0, ""), done
        assert "secret-of" not in done.stdout
        return done.stdout

    def answer(self, *arguments: str) -> object:
        text = self.said(*arguments, "--json")
        check(shape_of(arguments), text)
        return json.loads(text)


@pytest.fixture
def commands(cluster: Serving, root: str) -> Commands:
    return Commands(cluster, root)


def test_users_are_created_changed_and_deleted(commands: Commands, password: str) -> None:
    made = commands.answer("user", "create", "app", "--password-file", password)
    assert made == {"user": "app", "brokers": ["broker-a"]}
    assert commands.answer("user", "show", "app") == {"user": "app", "type": "Normal", "status": "enable"}
    commands.answer("user", "update", "app", "--status", "disable", "--type", "super")
    assert commands.answer("user", "list", "ap") == [{"user": "app", "type": "Super", "status": "disable"}]
    assert "root  Super" in commands.said("user", "list")
    commands.answer("user", "delete", "app", "--yes")
    assert commands.answer("user", "list", "app") == []
    assert "has no user app" in refused(run("user", "show", "app", *commands.options), 1)
    again = run("user", "create", "root", "--password-file", password, *commands.options)
    assert "The user is existed" in refused(again, 1)


def test_policies_are_granted_explained_and_revoked(cluster: Serving, commands: Commands, password: str) -> None:
    commands.said("user", "create", "sender", "--password-file", password)
    commands.answer("acl", "create", "sender", "Topic:Ord*", "-a", "pub", "--source", "127.0.0.0/8")
    commands.answer("acl", "update", "sender", "Topic:Orders-old", "-a", "all", "--deny")
    lines = commands.answer("acl", "show", "sender")
    assert isinstance(lines, list)
    assert [(line["resource"], line["actions"], line["decision"]) for line in lines] == [
        ("Topic:Ord*", ["Pub"], "Allow"),
        ("Topic:Orders-old", ["All"], "Deny"),
    ]
    assert commands.answer("acl", "list", "--user", "sender", "--resource", "Ord") == lines
    asked = ("acl", "explain", "sender", "--topic", "Orders", "--action", "pub")
    found = commands.answer(*asked, "--source", "127.0.0.1")
    assert isinstance(found, dict)
    assert (found["allowed"], found["rule"]) == (True, lines[0])
    assert commands.said(*asked, "--source", "10.1.2.3").startswith("refused: Pub on Topic:Orders for user sender\n")
    denied = commands.said("acl", "explain", "sender", "--topic", "Orders-old", "-a", "pub")
    assert "the decision is deny" in denied
    assert "Topic:Orders-old" in denied.splitlines()[-1]
    assert "Super users" in commands.said("acl", "explain", "root", "-a", "update")
    access = hanabi.Credentials("sender", "secret-of-app")
    with hanabi.Producer("senders", namesrv=cluster.namesrv, access=access, retries=0) as producer:
        assert producer.send(hanabi.Message("Orders", b"x")).status is hanabi.SendStatus.SEND_OK
        commands.answer("acl", "delete", "sender", "Topic:Ord*", "--yes")
        with pytest.raises((NoPermission, SendFailed), match="no matched policies"):
            producer.send(hanabi.Message("Orders", b"x"))
    commands.answer("acl", "delete", "sender", "--yes")
    assert commands.answer("acl", "show", "sender") == []


def test_two_passwords_are_valid_while_one_replaces_the_other(
    cluster: Serving, commands: Commands, password: str, tmp_path: Path
) -> None:
    def sends(secret: str) -> bool:
        access = hanabi.Credentials("rotating", secret)
        with hanabi.Producer("rotating", namesrv=cluster.namesrv, access=access, retries=0) as producer:
            try:
                return producer.send(hanabi.Message("Orders", b"x")).status is hanabi.SendStatus.SEND_OK
            except (NoPermission, SendFailed) as error:
                assert "check signature failed" in str(error)  # noqa: PT017
                return False

    new = tmp_path / "new.secret"
    new.write_text("secret-of-app-renewed\n")
    commands.said("user", "create", "rotating", "--password-file", password)
    commands.said("acl", "create", "rotating", "Topic:*", "-a", "pub")
    assert "goes with a new password" in refused(run("user", "update", "rotating", "--keep-old", *commands.options), 2)
    commands.said("user", "update", "rotating", "--password-file", str(new), "--keep-old")
    assert sends("secret-of-app")
    assert sends("secret-of-app-renewed")
    commands.said("user", "update", "rotating", "--drop-old")
    assert not sends("secret-of-app")
    assert sends("secret-of-app-renewed")


def test_users_and_policies_are_copied(commands: Commands, password: str) -> None:
    commands.said("user", "create", "copied", "--password-file", password)
    commands.said("acl", "create", "copied", "Topic:*", "-a", "pub", "-a", "sub")
    between = ("--from", "broker-a", "--to", "broker-a")
    assert commands.answer("user", "copy", *between, "copied") == {
        "users": ["copied"],
        "source": "broker-a",
        "target": "broker-a",
    }
    assert "copied" in commands.said("acl", "copy", *between)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("acl", "create", "x", "orders", "-a", "pub"), "The resource is null"),
        (("acl", "create", "x", "Topic:a*b", "-a", "pub"), "asterisk"),
        (("acl", "create", "x", "Topic:a", "-a", "pub", "--source", "nowhere"), "source ip is invalid"),
        (("acl", "explain", "x", "-a", "pub", "--topic", "t", "--group", "g"), "not both"),
        (("user", "update", "x"), "nothing to change"),
        (("user", "create", "x"), "no password of x"),
        (("user", "create", "x", "--password-file", "/no/such/file"), "No such file"),
    ],
)
def test_what_is_written_wrongly_is_one_sentence(
    commands: Commands, arguments: tuple[str, ...], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HANABI_PASSWORD", raising=False)
    assert reason in refused(run(*arguments, *commands.options), 2)


def test_a_command_without_credentials_is_refused(cluster: Serving) -> None:
    assert "username cannot be null." in refused(run("user", "list", "-n", cluster.namesrv), 1)


def test_accounts_of_4_9_are_changed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plain_acl.yml").write_text(ACCOUNTS)
    (tmp_path / "tools.yml").write_text("accessKey=operator\nsecretKey=secret-of-root\n")
    monkeypatch.setenv("HANABI_PASSWORD", "secret-of-new")
    settings = {**QUICK, "aclEnable": "true", "aclFolder": str(tmp_path)}
    with serving(tmp_path / "serving", settings) as running:
        commands = Commands(running, f"file:{tmp_path / 'tools.yml'}")
        commands.answer("user", "create", "new-app", "--account", "--topic", "Orders=PUB")
        access = hanabi.Credentials("new-app", "secret-of-new")
        with hanabi.Producer("senders", namesrv=running.namesrv, access=access, retries=0) as producer:
            producer.send(hanabi.Message("Orders", b"x"))
        commands.answer("user", "delete", "new-app", "--account", "--yes")
        off = refused(run("user", "list", *commands.options), 1)
        assert "has no users and policies: set authenticationEnabled=true" in off
        again = run("user", "delete", "new-app", "--account", "--yes", *commands.options)
        assert "new-app" in refused(again, 1)
    assert "secret-of" not in running.process.output()


def test_a_file_is_checked_without_a_broker(tmp_path: Path) -> None:
    path = tmp_path / "plain_acl.yml"
    path.write_text(ACCOUNTS)
    path.chmod(0o600)
    assert run("acl", "check", str(path)).stdout == f"{path}: 1 users\n"
    path.write_text(
        ACCOUNTS + "- accessKey: operator\n  secretKey: 12345678\n  topicPerms:\n  - Orders=PUBLISH\n"
        "globalWhiteRemoteAddresses:\n- '*'\n"
    )
    path.chmod(0o644)
    done = run("acl", "check", str(path), "--json")
    assert (done.returncode, done.stderr) == (1, "")
    check(shape_of(("acl", "check")), done.stdout)
    for word in ("PUBLISH", "2 times", "sample", "each address", "chmod 600"):
        assert word in done.stdout, word
    assert "secret-of" not in done.stdout
    path.write_text("accounts: [")
    assert "plain_acl.yml" in refused(run("acl", "check", str(path)), 2)
    users = tmp_path / "users.json"
    users.write_text('{"app": {"username": "app"}}')
    assert "users.json" in refused(run("acl", "check", str(users)), 2)
    acls = tmp_path / "acls.json"
    acls.write_text('{"User:app": {"policies": [{"entries": [{"resource": "x"}]}]}}')
    assert "acls.json" in refused(run("acl", "check", str(acls)), 2)
    assert "No such file" in refused(run("acl", "check", str(tmp_path / "none.yml")), 2)


def test_credentials_come_from_a_file_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tools.yml"
    path.write_text('# mine\naccessKey: "app"\nsecretKey : secret-x\nsecurityToken=t\n')
    expected = hanabi.Credentials("app", "secret-x", "t")
    assert read_credentials(path) == expected
    assert find_credentials(f"file:{path}", "--access-key") == expected
    monkeypatch.delenv("HANABI_CREDENTIALS", raising=False)
    assert find_credentials(None, "--access-key") is None
    monkeypatch.setenv("HANABI_CREDENTIALS", str(path))
    assert find_credentials(None, "--access-key") == expected
    path.write_text("secretKey: secret-x\n")
    with pytest.raises(ConfigError, match=r"tools\.yml: it needs the lines") as caught:
        read_credentials(path)
    assert "secret-x" not in str(caught.value)
