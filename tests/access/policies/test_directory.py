"""Users and policies on a disk: kept, changed, deleted, and readable by their owner only."""

from pathlib import Path

import pytest

from hanabi.access.needs import Action, Kind, Need
from hanabi.access.plain.document import read_document
from hanabi.access.policies.decision import refusal
from hanabi.access.policies.directory import Directory, UserChange
from hanabi.access.policies.migration import migrated
from hanabi.access.policies.model import Acl, Entry, Pattern, PolicyType, Resource, User, UserStatus, UserType
from hanabi.access.policies.wording import merged
from hanabi.errors import NoPermission, StoreDamaged

APP = User(username="app", password="secret-of-app", previous_password="older")  # noqa: S106
ORDERS = Entry(Resource(Kind.TOPIC, Pattern.LITERAL, "orders"), Action.PUB, True)
EVERY = Entry(Resource(None, Pattern.ANY), Action.ALL, False)


def test_users_and_policies_are_there_after_a_restart(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    directory.create_user(APP)
    directory.merge_acl("app", lambda acl: merged(acl, PolicyType.CUSTOM, [ORDERS]))
    directory.merge_acl("app", lambda acl: merged(acl, PolicyType.DEFAULT, [EVERY]))
    assert directory.generation == 3
    again = Directory(tmp_path)
    assert again.users == {"app": APP}
    assert again.acls == {"app": Acl((ORDERS,), (EVERY,))}
    for name in ("users.json", "acls.json", "acls.json.bak"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600


def test_a_user_is_created_once(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    directory.create_user(APP)
    with pytest.raises(NoPermission, match="The user is existed"):
        directory.create_user(APP)


@pytest.mark.parametrize(
    ("user", "reason"),
    [
        (User(username=" ", password="x"), "username can not be blank"),  # noqa: S106
        (User(username="a" * 256, password="x"), "at most 255"),  # noqa: S106
        (User(username="a\nb", password="x"), "printable"),  # noqa: S106
        (User(username="a", password=" "), "password can not be blank"),  # noqa: S106
    ],
)
def test_a_user_without_a_name_or_a_password_is_refused(tmp_path: Path, user: User, reason: str) -> None:
    with pytest.raises(NoPermission, match=reason):
        Directory(tmp_path).create_user(user)


def test_a_change_of_a_user_changes_what_it_names(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    directory.create_user(APP)
    directory.update_user("app", UserChange(user_type=UserType.SUPER))
    assert directory.users["app"].secrets == (b"secret-of-app", b"older")
    directory.update_user("app", UserChange(password="newer", user_status=UserStatus.DISABLE))  # noqa: S106
    changed = directory.users["app"]
    assert (changed.user_type, changed.user_status) == (UserType.SUPER, UserStatus.DISABLE)
    assert changed.secrets == (b"newer",)
    with pytest.raises(NoPermission, match="The user is not exist"):
        directory.update_user("nobody", UserChange())


def test_a_deleted_user_takes_its_policies_along(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    directory.create_user(APP)
    directory.merge_acl("app", lambda acl: merged(acl, PolicyType.CUSTOM, [ORDERS]))
    directory.delete_user("app")
    directory.delete_user("app")
    directory.create_user(APP)
    assert directory.acl_of("app") == Acl()


def test_policies_need_a_user_and_are_deleted_one_by_one_or_whole(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    with pytest.raises(NoPermission, match="The subject of User:app is not exist"):
        directory.merge_acl("app", lambda acl: acl)
    with pytest.raises(NoPermission, match="The subject is not exist"):
        directory.delete_acl("app", PolicyType.CUSTOM, None)
    directory.create_user(APP)
    with pytest.raises(NoPermission, match="The acl is not exist"):
        directory.delete_acl("app", PolicyType.CUSTOM, None)
    directory.merge_acl("app", lambda acl: merged(acl, PolicyType.CUSTOM, [ORDERS, EVERY]))
    directory.delete_acl("app", PolicyType.DEFAULT, EVERY.resource)
    assert directory.acl_of("app").custom == (ORDERS, EVERY)
    directory.delete_acl("app", PolicyType.CUSTOM, EVERY.resource)
    assert directory.acl_of("app").custom == (ORDERS,)
    directory.delete_acl("app", PolicyType.CUSTOM, ORDERS.resource)
    assert directory.acls == {}


def test_a_damaged_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "acls.json").write_text('{"User:app": {"policies": [{"entries": [{"resource": "x"}]}]}}')
    with pytest.raises(StoreDamaged, match=r"acls\.json"):
        Directory(tmp_path)


FILE = b"""
accounts:
- accessKey: operator
  secretKey: secret-of-operator
  admin: true
- accessKey: orders-app
  secretKey: secret-of-orders
  previousSecretKey: older-secret
  whiteRemoteAddress: 10.0.0.1
  defaultTopicPerm: SUB
  topicPerms:
  - orders=PUB|SUB
  - audit=DENY
  - typo=PUBLISH
  groupPerms:
  - readers=SUB
"""


def test_accounts_of_acl_1_become_users_with_the_same_rights(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    document, _ = read_document(FILE, "plain_acl.yml")
    assert [directory.add_migrated(*migrated(account)) for account in document.accounts] == [True, True]
    assert [directory.add_migrated(*migrated(account)) for account in document.accounts] == [False, False]
    assert directory.users["operator"].user_type is UserType.SUPER
    user = directory.users["orders-app"]
    assert user.secrets == (b"secret-of-orders", b"older-secret")
    acl = Directory(tmp_path).acl_of("orders-app")
    for account in document.accounts[1:]:
        for name in ("orders", "audit", "typo", "other"):
            for kind in (Kind.TOPIC, Kind.GROUP):
                for action in (Action.PUB, Action.SUB):
                    need = Need(kind, name, action)
                    assert (refusal(user, acl, [need], None, "") is None) == account.allows(need)
