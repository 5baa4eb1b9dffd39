"""The decision of ACL 1.0: identity, then rights. Pure.

In the order of Java's PlainPermissionManager.validate: the global white list, the access key, the account's own white
list, the signature, the administrator, each resource. The sentences are Apache's. Unlike there, an unknown account
costs as much time as a wrong signature, a message for the trace topic excuses no other resource, and the secret of
Apache's sample files is valid on this machine only.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from hanabi.access.address import Address
from hanabi.access.identity import WrongIdentity, certified_account, check_agreement
from hanabi.access.needs import Action, Kind, Need
from hanabi.access.plain.account import Account, Rules
from hanabi.errors import NoPermission
from hanabi.wire.settings_text import shortened
from hanabi.wire.signature import ACCESS_KEY, is_signed_by
from hanabi.wire.system_names import TRACE_TOPIC

_NO_SECRET: Final = (b"of an account that does not exist",)


def identify(
    rules: Rules,
    address: Address | None,
    code: int,
    fields: Mapping[str, str],
    body: bytes,
    certificate: tuple[str, ...] = (),
) -> Account | None:
    """Return the account that signed the request, or that the names of its client's certificate name; None if its
    address needs no account. Raise NoPermission."""
    if rules.white_list.matches(address):
        return None
    access_key, certified = fields.get(ACCESS_KEY), certified_account(certificate, rules.accounts)
    if access_key is None:
        if certified is not None:
            return rules.accounts[certified]
        raise NoPermission("No accessKey is configured")
    check_agreement(certified, access_key)
    account = rules.accounts.get(access_key)
    if account is not None and account.white_list.matches(address):
        return None
    is_signed = is_signed_by(code, fields, body, account.secrets if account is not None else _NO_SECRET)
    if account is None:
        raise WrongIdentity(f"No acl config for {shortened(access_key)}")
    if not is_signed:
        raise WrongIdentity(f"Check signature failed for accessKey={access_key}")
    if not account.is_valid_from(address):
        raise NoPermission(f"The secretKey of accessKey={access_key} is a published sample: change it")
    return account


def refusal(account: Account, code: int, needs: Iterable[Need]) -> str | None:
    """Return why *account* may not have all of *needs*; None if it may."""
    for need in needs:
        if need.kind is Kind.CLUSTER:
            if not account.is_admin:
                return f"Need admin permission for request code={code}, but accessKey={account.access_key} is not"
        elif not (account.is_unlimited or _is_trace(need) or account.allows(need)):
            return f"No default permission for {need.kind.lower()}:{need.name}"
    return None


def _is_trace(need: Need) -> bool:
    """Return whether this is a trace message: each client may send those."""
    return need == Need(Kind.TOPIC, TRACE_TOPIC, Action.PUB)
