"""Identities of requests: by a signature, by a client certificate, or by both, which must agree. Pure."""

from collections.abc import Container

from hanabi.errors import NoPermission
from hanabi.wire.settings_text import shortened


class WrongIdentity(NoPermission):
    """The proof of an identity is wrong: an unknown account or a wrong signature, which may be a guess."""


def certified_account(names: tuple[str, ...], accounts: Container[str]) -> str | None:
    """Return the account that a verified certificate names: the first of its *names* that is one."""
    return next((name for name in names if name in accounts), None)


def check_agreement(certified: str | None, access_key: str) -> None:
    """Raise NoPermission if the certificate is of one account and the signature of another."""
    if certified is not None and certified != access_key:
        raise NoPermission(
            f"the client certificate is of account {shortened(certified)}, the request of {shortened(access_key)}"
        )
