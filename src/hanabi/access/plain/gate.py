"""The gate of ACL 1.0: requests against the rules that are in force.

Each signature is verified. The verdict on an account's rights is kept, for the rules under which it was made.
"""

from typing import Any, Final

from hanabi.access.demands import broker_demand
from hanabi.access.guard import Source
from hanabi.access.identity import certified_account
from hanabi.access.names import Surroundings
from hanabi.access.needs import Named, needs_of
from hanabi.access.plain.account import Account, Rules
from hanabi.access.plain.decision import identify, refusal
from hanabi.access.plain.files import PlainFiles
from hanabi.access.terms import Secrets
from hanabi.errors import NoPermission
from hanabi.wire.command import Command

VERDICTS_MAX: Final = 10_000
_KEPT_CHARACTERS_MAX: Final = 512  # of the names of one verdict: a peer chooses them


class PlainGate:
    """Checks requests to one broker."""

    def __init__(self, files: PlainFiles, around: Surroundings, *, uses_certificates: bool = False) -> None:
        """*uses_certificates*: a client's certificate names its account."""
        self._files, self._around, self._uses_certificates = files, around, uses_certificates
        self._rules = files.rules
        self._verdicts: dict[tuple[str, int, Named], str | None] = {}  # under those rules

    @property
    def verdicts_kept(self) -> int:
        """Number of verdicts that are kept."""
        return len(self._verdicts)

    def check(self, header: Any, request: Command, source: Source) -> str | None:
        """Return the account of the request; raise NoPermission with the reason if it is refused."""
        rules, code, body = self._files.rules, request.code, request.body
        certificate = source.certificate if self._uses_certificates else ()
        account = identify(rules, source.address, code, request.fields(), body, certificate)
        if account is None:
            return None  # an address that is not checked
        reason = self._verdict(rules, account, code, broker_demand(code).named(header, body, self._around))
        if reason is not None:
            raise NoPermission(reason)
        return account.access_key

    @property
    def generation(self) -> int:
        """Number of changes of the rules."""
        return self._files.generation

    def secrets_of(self, access_key: str) -> Secrets:
        """Return the secrets of an account, whatever its rights; empty if there is none of that name."""
        account = self._files.rules.accounts.get(access_key)
        return account.secrets if account is not None else ()

    def certified(self, source: Source) -> str | None:
        """Return the account that the certificate of *source* names, if certificates count."""
        return certified_account(source.certificate, self._files.rules.accounts) if self._uses_certificates else None

    def terms(self, code: int, access_key: str | None, named: Named, source: Source) -> Secrets | None:
        """Return the secrets of which one must have signed an allowed request; see `access.terms`."""
        rules = self._files.rules
        if rules.white_list.matches(source.address):
            return ()
        certified = self.certified(source)
        if access_key is None and certified is not None:
            return () if self._verdict(rules, rules.accounts[certified], code, named) is None else None
        account = rules.accounts.get(access_key) if access_key is not None else None
        if account is None or certified not in (None, access_key):
            return None
        if account.white_list.matches(source.address):
            return ()
        if not account.is_valid_from(source.address) or self._verdict(rules, account, code, named) is not None:
            return None
        return account.secrets

    def _verdict(self, rules: Rules, account: Account, code: int, named: Named) -> str | None:
        if rules is not self._rules or len(self._verdicts) >= VERDICTS_MAX:
            self._rules, self._verdicts = rules, {}
        key = (account.access_key, code, named)
        if key in self._verdicts:
            return self._verdicts[key]
        reason = refusal(account, code, needs_of(broker_demand(code).plain, named, self._around.cluster))
        if sum(map(len, (*named.topics, *named.groups))) <= _KEPT_CHARACTERS_MAX:
            self._verdicts[key] = reason
        return reason
