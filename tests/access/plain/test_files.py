"""Files of ACL 1.0 on a disk: which wins, reloads, changes over the wire, and what stays in force when one is bad."""

import logging
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from hanabi.access.needs import Action
from hanabi.access.plain.files import PlainFiles
from hanabi.errors import ConfigError
from hanabi.wire.bodies.topics import DataVersion
from hanabi.wire.headers.acl import CreateAccessConfigHeader

ORDERS = "- accessKey: orders-app\n  secretKey: secret-of-orders\n"
BILLING = "- accessKey: billing-app\n  secretKey: secret-of-billing\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "conf" / "acl").mkdir(parents=True)
    return tmp_path


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def opened(home: Path, *, allows_open_list: bool = False) -> PlainFiles:
    files = PlainFiles(home / "conf", now_ms=lambda: 1_700_000_000_000, allows_open_list=allows_open_list)
    files.load()
    return files


def asked(
    access_key: str = "orders-app", signed_with: str | None = "new-secret", **more: Any
) -> CreateAccessConfigHeader:
    return CreateAccessConfigHeader(access_key=access_key, secret_key=signed_with, **more)


def test_all_files_count_and_the_first_that_names_an_account_wins(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(home / "conf/acl/b.yml", f"globalWhiteRemoteAddresses: [10.0.0.2]\naccounts:\n{BILLING}")
    write(home / "conf/acl/deep/a.yaml", f"accounts:\n{ORDERS}  admin: true\n")
    write(home / "conf/acl/notes.txt", "not YAML: [")
    write(home / "conf/plain_acl.yml", f"globalWhiteRemoteAddresses: [10.0.0.1]\naccounts:\n{ORDERS}")
    rules = opened(home).rules
    assert set(rules.accounts) == {"orders-app", "billing-app"}
    assert rules.accounts["orders-app"].is_admin
    assert set(rules.white_list.patterns) == {"10.0.0.1", "10.0.0.2"}
    assert "orders-app is defined before" in caplog.text


def test_no_file_at_all_refuses_all_requests_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert not opened(tmp_path).rules.accounts
    assert "all requests are refused" in caplog.text


def test_a_bad_file_stops_the_start(home: Path) -> None:
    path = write(home / "conf/plain_acl.yml", "accounts: [")
    with pytest.raises(ConfigError, match=str(path)):
        opened(home)


def test_a_file_that_cannot_be_read_stops_the_start(home: Path) -> None:
    (home / "conf/acl/folder.yml").symlink_to(home / "conf/acl/nowhere.yml")
    (home / "conf/plain_acl.yml").mkdir()
    with pytest.raises(ConfigError, match=r"plain_acl\.yml"):
        opened(home)


def test_a_list_that_matches_each_address_must_be_meant(home: Path) -> None:
    write(home / "conf/plain_acl.yml", f"accounts:\n{ORDERS}  whiteRemoteAddress: '*'\n")
    with pytest.raises(ConfigError, match="aclOpenWhiteList"):
        opened(home)
    assert opened(home, allows_open_list=True).rules.accounts["orders-app"].white_list.is_open


def test_a_changed_a_new_and_a_removed_file_are_noticed(home: Path) -> None:
    path = write(home / "conf/plain_acl.yml", f"globalWhiteRemoteAddresses: [10.0.0.1]\naccounts:\n{ORDERS}")
    files = opened(home)
    generation = files.generation
    files.refresh()
    assert files.generation == generation
    write(path, f"accounts:\n{ORDERS}  admin: true\n")
    files.refresh()
    assert files.rules.accounts["orders-app"].is_admin
    assert files.rules.white_list.patterns == ()
    other = write(home / "conf/acl/other.yml", f"accounts:\n{BILLING}")
    files.refresh()
    assert set(files.rules.accounts) == {"orders-app", "billing-app"}
    other.unlink()
    files.refresh()
    assert set(files.rules.accounts) == {"orders-app"}
    assert files.generation == generation + 3


def test_a_change_with_an_older_time_is_noticed(home: Path) -> None:
    path = write(home / "conf/plain_acl.yml", f"accounts:\n{ORDERS}")
    files = opened(home)
    write(path, f"accounts:\n{BILLING}")
    os.utime(path, (1, 1))
    files.refresh()
    assert set(files.rules.accounts) == {"billing-app"}


@pytest.mark.parametrize("bad", ["accounts: [", "accounts:\n- accessKey: x", "", "globalWhiteRemoteAddresses: ['*']"])
def test_a_bad_file_keeps_the_old_rules_with_one_line(home: Path, caplog: pytest.LogCaptureFixture, bad: str) -> None:
    path = write(home / "conf/plain_acl.yml", f"accounts:\n{ORDERS}")
    files = opened(home)
    rules = files.rules
    write(path, bad)
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            files.refresh()
    assert files.rules is rules
    assert len(caplog.records) == 1
    assert "stay in force" in caplog.text
    write(path, f"accounts:\n{BILLING}")
    files.refresh()
    assert set(files.rules.accounts) == {"billing-app"}


def test_the_other_files_change_while_one_is_bad(home: Path) -> None:
    bad = write(home / "conf/acl/bad.yml", f"accounts:\n{BILLING}")
    good = write(home / "conf/plain_acl.yml", f"accounts:\n{ORDERS}")
    files = opened(home)
    write(bad, "accounts: [")
    write(good, f"accounts:\n{ORDERS}  admin: true\n")
    files.refresh()
    assert files.rules.accounts["orders-app"].is_admin
    assert "billing-app" in files.rules.accounts


def test_an_account_is_made_in_the_default_file(home: Path) -> None:
    files = opened(home)
    files.update_account(asked(topic_perms="orders=PUB|SUB, other=DENY", admin=True))
    path = home / "conf/plain_acl.yml"
    assert path.stat().st_mode & 0o777 == 0o600
    assert files.rules.accounts["orders-app"].topics == {"orders": Action.PUB | Action.SUB, "other": Action.NONE}
    # As Apache's broker reads it: texts, truths and numbers.
    assert yaml.safe_load(path.read_text()) == {
        "accounts": [
            {
                "accessKey": "orders-app",
                "secretKey": "new-secret",
                "admin": True,
                "topicPerms": ["orders=PUB|SUB", "other=DENY"],
            }
        ],
        "dataVersion": [{"counter": 1, "timestamp": 1_700_000_000_000}],
    }
    assert files.version() == DataVersion(counter=1, timestamp=1_700_000_000_000)


def test_an_account_is_changed_in_the_file_that_has_it(home: Path) -> None:
    path = write(
        home / "conf/acl/a.yml",
        f"globalWhiteRemoteAddresses: [10.0.0.1]\naccounts:\n{ORDERS}  previousSecretKey: older-secret\n"
        f"  topicPerms: [orders=SUB]\n  admin: true\n{BILLING}dataVersion:\n- counter: 7\n  timestamp: 5\n",
    )
    files = opened(home)
    files.update_account(asked(signed_with="12345678", group_perms="readers=SUB"))
    account = files.rules.accounts["orders-app"]
    assert account.secrets == (b"12345678",)  # the previous secret is gone, too
    assert not account.is_admin  # as with Apache: absent means false
    assert account.topics == {"orders": Action.SUB}
    assert account.groups == {"readers": Action.SUB}
    assert "billing-app" in files.rules.accounts
    assert files.rules.white_list.patterns == ("10.0.0.1",)
    assert files.versions() == {str(path): DataVersion(counter=8, timestamp=1_700_000_000_000)}
    assert opened(home).rules.accounts["orders-app"].secrets == (b"12345678",)
    generation = files.generation
    files.refresh()
    assert files.generation == generation  # our own write is no change


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (asked(access_key="short"), "longer than 6"),
        (asked(signed_with=None), "longer than 6"),
        (asked(signed_with="secret"), "longer than 6"),
        (asked(topic_perms="orders"), "The expected resource format"),
        (asked(group_perms="readers=PUBLISH"), "The expected permissions"),
        (asked(white_remote_address="1.2.3"), "address pattern"),
        (asked(white_remote_address="*"), "aclOpenWhiteList"),
    ],
)
def test_a_wrong_change_changes_nothing(home: Path, change: CreateAccessConfigHeader, reason: str) -> None:
    path = write(home / "conf/plain_acl.yml", f"accounts:\n{ORDERS}")
    files = opened(home)
    rules, text = files.rules, path.read_bytes()
    with pytest.raises(ConfigError) as caught:
        files.update_account(change)
    assert reason in str(caught.value)
    assert change.secret_key is None or f"{change.secret_key} " not in str(caught.value)
    assert (files.rules, path.read_bytes()) == (rules, text)


def test_an_account_is_deleted_once(home: Path) -> None:
    write(home / "conf/plain_acl.yml", f"accounts:\n{ORDERS}{BILLING}")
    files = opened(home)
    assert files.delete_account("orders-app")
    assert set(files.rules.accounts) == {"billing-app"}
    assert not files.delete_account("orders-app")
    assert set(opened(home).rules.accounts) == {"billing-app"}


def test_the_white_list_of_a_loaded_file_is_replaced_and_of_no_other(home: Path) -> None:
    other = write(home / "conf/acl/other.yml", "globalWhiteRemoteAddresses: [10.0.0.1]\n")
    outside = write(home / "outside.yml", "globalWhiteRemoteAddresses: [10.0.0.9]\n")
    files = opened(home)
    assert files.update_white_list(["10.0.0.2", "10.0.0.3"], str(other))
    assert list(files.rules.white_list.patterns) == ["10.0.0.2", "10.0.0.3"]
    for path in (outside, home / "conf/acl/../../outside.yml", home / "conf/acl/new.yml"):
        assert not files.update_white_list(["10.0.0.4"], str(path))
    assert "10.0.0.9" in outside.read_text()
    assert files.update_white_list(["10.0.0.5"], None)
    assert "10.0.0.5" in (home / "conf/plain_acl.yml").read_text()
    assert files.update_white_list([], str(other))
    assert list(files.rules.white_list.patterns) == ["10.0.0.5"]


def test_a_change_keeps_what_was_edited_meanwhile(home: Path) -> None:
    path = write(home / "conf/plain_acl.yml", f"accounts:\n{ORDERS}")
    files = opened(home)
    write(path, f"accounts:\n{ORDERS}{BILLING}")
    files.update_account(asked())
    assert set(files.rules.accounts) == {"orders-app", "billing-app"}
