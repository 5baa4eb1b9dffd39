"""Profiles: where they are kept, which one a command uses, and that secrets stay secret."""

import json
import os
from pathlib import Path

import pytest

from hanabi.cli.shared.cluster import client_config, with_ports
from hanabi.cli.shared.profiles import read_profiles
from hanabi.errors import ConfigError
from tests.cli.admin_commands import run
from tests.cli.commands import refused
from tests.serving import Serving

SECRET = "secret-of-app-77"  # noqa: S105


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give commands a file of their own for profiles, and no other way to a cluster."""
    path = tmp_path / "config" / "profiles.json"
    monkeypatch.setenv("HANABI_CONFIG", str(path))
    for name in ("NAMESRV_ADDR", "HANABI_ACCESS_KEY", "HANABI_SECRET_KEY", "HANABI_CREDENTIALS", "HANABI_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    return path


def works(*arguments: str) -> str:
    result = run(*arguments)
    assert (result.returncode, result.stderr) == (0, ""), result.stderr
    return result.stdout


def test_the_first_profile_is_in_use_and_another_can_be_chosen(kept: Path) -> None:
    works("profile", "add", "home", "-n", "localhost")
    works("profile", "add", "work", "-n", "a.example:1234;b.example")
    assert client_config(None, "", None, None).namesrv == "localhost:9876"
    works("profile", "use", "work")
    assert client_config(None, "", None, None).namesrv == "a.example:1234;b.example:9876"
    marked = [line.split()[:2] for line in works("profile", "list").splitlines() if line.startswith("*")]
    assert marked == [["*", "work"]]


def test_options_and_environment_precede_the_profile_and_its_key_goes_nowhere_else(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    credentials = tmp_path / "tools.yml"
    credentials.write_text(f"accessKey: app\nsecretKey: {SECRET}\n")
    works("profile", "add", "work", "-n", "work.example", "--access-key", f"file:{credentials}")
    own = client_config(None, "", None, None).access
    assert own is not None
    assert (own.access_key, own.secret_key) == ("app", SECRET)
    assert client_config("other.example", "", None, None).access is None
    monkeypatch.setenv("NAMESRV_ADDR", "variable.example")
    config = client_config(None, "", None, None)
    assert (config.namesrv, config.access) == ("variable.example:9876", None)


def test_a_variable_or_an_option_chooses_a_profile_for_one_command(kept: Path, cluster: Serving) -> None:
    works("profile", "add", "nowhere", "-n", "127.0.0.1:1")
    works("profile", "add", "here", "-n", cluster.namesrv)
    assert "broker-a" in works("--profile", "here", "cluster", "list")
    assert "127.0.0.1:1" in refused(run("topic", "list"), 1)
    result = run("--profile", "none", "topic", "list")
    assert refused(result, 2) == "--profile or $HANABI_PROFILE: there is no profile none; known profiles: here, nowhere"


def test_the_file_is_its_owners_alone_and_its_secret_is_never_shown(kept: Path, tmp_path: Path) -> None:
    credentials = tmp_path / "tools.yml"
    credentials.write_text(f"accessKey: app\nsecretKey: {SECRET}\n")
    shown = works("profile", "add", "work", "-n", "work.example", "--access-key", f"file:{credentials}")
    assert kept.stat().st_mode & 0o777 == 0o600
    shown += works("profile", "list") + works("profile", "list", "--json") + works("profile", "use", "work")
    assert SECRET not in shown
    assert SECRET not in repr(read_profiles(kept))
    kept.chmod(0o640)
    assert f"other users can read its secrets; run: chmod 600 {kept}" in refused(run("topic", "list"), 2)


def test_a_damaged_file_is_named_and_its_content_is_not_shown(kept: Path) -> None:
    kept.parent.mkdir()
    kept.write_text('{"profiles": {"work": {"namesrv": "x", "secret": "' + SECRET + '"}}}')
    kept.chmod(0o600)
    sentence = refused(run("profile", "list"), 2)
    assert str(kept) in sentence
    assert SECRET not in sentence


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("add", "../x", "-n", "a"), "profile '../x': a name has at most 64 letters"),
        (("add", "x", "-n", "a:b"), "namesrv: 'a:b' has no port between 1 and 65535"),
        (("add", "x", "-n", "a", "--access-key", "app"), "its secret must be in the variable HANABI_SECRET_KEY"),
        (("use", "x"), "there is no profile x; add it with: hanabi profile add NAME -n HOST:PORT"),
        (("delete", "x"), "there is no profile x"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_kept(kept: Path, arguments: tuple[str, ...], sentence: str) -> None:
    assert sentence in refused(run("profile", *arguments), 2)
    assert not kept.exists()


def test_a_profile_is_replaced_only_if_asked_and_can_be_deleted(kept: Path) -> None:
    works("profile", "add", "home", "-n", "a")
    assert "say --replace" in refused(run("profile", "add", "home", "-n", "b"), 2)
    works("profile", "add", "home", "-n", "b", "--replace")
    (line,) = json.loads(works("profile", "list", "--json"))
    assert (line["namesrv"], line["inUse"]) == ("b:9876", True)
    works("profile", "delete", "home")
    assert client_config(None, "", None, None).namesrv == "127.0.0.1:9876"


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("host", "host:9876"),
        ("host:1", "host:1"),
        ("[::1]", "[::1]:9876"),
        ("[::1]:7", "[::1]:7"),
        ("a, b ; c:1", "a:9876;b:9876;c:1"),
    ],
)
def test_a_name_server_without_a_port_has_the_default_port(given: str, meant: str) -> None:
    assert with_ports(given) == meant


def test_a_bare_ipv6_address_is_refused_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANABI_CONFIG", os.devnull)
    with pytest.raises(ConfigError):
        client_config("::x", "", None, None)
