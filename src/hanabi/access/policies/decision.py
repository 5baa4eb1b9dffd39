"""The decision of ACL 2.0: authentication, then authorization. Pure.

Agrees with Java's DefaultAuthenticationHandler and AclAuthorizationHandler. The most specific entry decides, as in
Apache's development branch; 5.3.3 prefers the shortest prefix. The sentences are Apache's. An unknown user costs as
much time as a wrong signature.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from hanabi.access.address import Address
from hanabi.access.identity import WrongIdentity, certified_account, check_agreement
from hanabi.access.needs import Need
from hanabi.access.policies.model import Acl, Entry, User, UserStatus, UserType
from hanabi.errors import NoPermission
from hanabi.wire.settings_text import shortened
from hanabi.wire.signature import ACCESS_KEY, is_signed_by

_NO_SECRET: Final = (b"of a user that does not exist",)


def authenticate(
    users: Mapping[str, User],
    code: int,
    fields: Mapping[str, str],
    body: bytes,
    certificate: tuple[str, ...] = (),
) -> User:
    """Return the user who signed the request, or whom the names of its client's certificate name; raise
    NoPermission."""
    username, certified = fields.get(ACCESS_KEY), certified_account(certificate, users)
    if not username:
        if certified is None:
            raise NoPermission("username cannot be null.")
        if users[certified].user_status is UserStatus.DISABLE:
            raise NoPermission(f"User:{certified} is disabled.")
        return users[certified]
    check_agreement(certified, username)
    user = users.get(username)
    is_signed = is_signed_by(code, fields, body, user.secrets if user is not None else _NO_SECRET)
    if user is None:
        raise WrongIdentity(f"User:{shortened(username)} is not found.")
    if user.user_status is UserStatus.DISABLE:
        raise NoPermission(f"User:{username} is disabled.")
    if not is_signed:
        raise WrongIdentity("check signature failed.")
    return user


def refusal(user: User, acl: Acl, needs: Iterable[Need], address: Address | None, source: str) -> str | None:
    """Return why *user* may not have all of *needs* from *address*, which is *source* in words; None if it may."""
    if user.user_type is UserType.SUPER:
        return None
    for need in needs:
        entry = deciding_entry(acl, need, address)
        if entry is None or not entry.allows:
            why = "the decision is deny." if entry is not None else "no matched policies."
            what = f"{need.kind}:{shortened(need.name)}"
            return f"User:{user.username} has no permission to access {what} from {source}, {why}"
    return None


def deciding_entry(acl: Acl, need: Need, address: Address | None) -> Entry | None:
    """Return the entry that decides on *need*: the most specific one of the type Custom, else of the type Default."""
    for entries in (acl.custom, acl.default):
        matching = [entry for entry in entries if entry.matches(need, address)]
        if matching:
            return min(matching, key=lambda entry: entry.resource.rank)
    return None
