"""Accounts of ACL 1.0 as users and policies of ACL 2.0. Pure.

Agrees with Java's AuthMigrator: an administrator becomes Super, permissions become entries of the type Custom and
defaults entries of the type Default. Unlike there, an unknown permission word stays DENY. White lists are not carried
over: ACL 2.0 has none.
"""

from collections.abc import Mapping

from hanabi.access.needs import Action, Kind
from hanabi.access.plain.account import Account
from hanabi.access.policies.model import Acl, Entry, Pattern, Resource, User, UserType


def migrated(account: Account) -> tuple[User, Acl]:
    """Return *account* as a user and its policies."""
    secret, *previous = (secret.decode() for secret in account.secrets)
    user = User(
        username=account.access_key,
        password=secret,
        previous_password=previous[0] if previous else None,
        user_type=UserType.SUPER if account.is_admin else UserType.NORMAL,
    )
    custom = (*_entries(Kind.TOPIC, account.topics), *_entries(Kind.GROUP, account.groups))
    defaults = ((Kind.TOPIC, account.default_topic), (Kind.GROUP, account.default_group))
    default = tuple(_entry(Resource(kind, Pattern.ANY), actions) for kind, actions in defaults if actions)
    return user, Acl(custom, default)


def _entries(kind: Kind, permissions: Mapping[str, Action]) -> list[Entry]:
    return [_entry(Resource(kind, Pattern.LITERAL, name), actions) for name, actions in permissions.items()]


def _entry(resource: Resource, actions: Action) -> Entry:
    return Entry(resource, actions, True) if actions else Entry(resource, Action.ALL, False)
