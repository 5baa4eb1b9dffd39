"""The gate of ACL 2.0: requests against the users and policies that are in force."""

from typing import Any, Final

from hanabi.access.demands import broker_demand
from hanabi.access.guard import Source
from hanabi.access.identity import certified_account
from hanabi.access.names import Surroundings
from hanabi.access.needs import Named, needs_of
from hanabi.access.policies.decision import authenticate, refusal
from hanabi.access.policies.directory import Directory
from hanabi.access.policies.model import User, UserStatus
from hanabi.access.secret import is_sample
from hanabi.access.terms import Secrets
from hanabi.errors import NoPermission
from hanabi.wire.codes import RequestCode as Code
from hanabi.wire.command import Command
from hanabi.wire.signature import ACCESS_KEY

# Requests about users and policies need rights in any case: no key opens these to each client.
_ALWAYS_AUTHORIZED: Final = frozenset(range(Code.AUTH_CREATE_USER, Code.AUTH_LIST_ACL + 1))


class PolicyGate:
    """Checks requests to one broker. Codes in *unauthenticated* and *unauthorized* skip that half of the check.

    Rights need an identity: a code of the first list alone is authenticated all the same, where rights are checked.
    Apache's broker then trusts the name that the request gives.
    """

    def __init__(
        self,
        directory: Directory,
        around: Surroundings,
        *,
        authorizes: bool = True,
        unauthenticated: frozenset[int] = frozenset(),
        unauthorized: frozenset[int] = frozenset(),
        uses_certificates: bool = False,
    ) -> None:
        """*uses_certificates*: a client's certificate names its user."""
        self._directory, self._around, self._authorizes = directory, around, authorizes
        self._unauthenticated, self._unauthorized = unauthenticated, unauthorized
        self._uses_certificates = uses_certificates

    def check(self, header: Any, request: Command, source: Source) -> str | None:
        """Return the user of the request; raise NoPermission with the reason if it is refused."""
        code = request.code
        checks_rights = self._checks_rights(code)
        if code in self._unauthenticated and not checks_rights:
            return None
        user = self.user_of(request, source.certificate)
        if ACCESS_KEY in request.fields() and _is_published(user, source):
            raise NoPermission(f"The password of User:{user.username} is a published sample: change it")
        if not checks_rights:
            return user.username
        demand = broker_demand(code)
        named = demand.named(header, request.body, self._around)
        needs = needs_of(demand.policy, named, self._around.cluster)
        acl = self._directory.acl_of(user.username)
        if (reason := refusal(user, acl, needs, source.address, source.host)) is not None:
            raise NoPermission(reason)
        return user.username

    @property
    def generation(self) -> int:
        """Number of changes of the users and policies."""
        return self._directory.generation

    def secrets_of(self, access_key: str) -> Secrets:
        """Return the passwords of a user, whatever its rights; empty if there is none of that name."""
        user = self._directory.users.get(access_key)
        return user.secrets if user is not None else ()

    def certified(self, source: Source) -> str | None:
        """Return the account that the certificate of *source* names, if certificates count."""
        return certified_account(source.certificate, self._directory.users) if self._uses_certificates else None

    def terms(self, code: int, access_key: str | None, named: Named, source: Source) -> Secrets | None:
        """Return the secrets of which one must have signed an allowed request; see `access.terms`."""
        checks_rights = self._checks_rights(code)
        if code in self._unauthenticated and not checks_rights:
            return ()
        users = self._directory.users
        certified = self.certified(source)
        username = access_key or certified
        user = users.get(username) if username is not None else None
        if user is None or user.user_status is UserStatus.DISABLE or certified not in (None, username):
            return None
        if access_key and _is_published(user, source):
            return None
        secrets = user.secrets if access_key else ()
        if not checks_rights:
            return secrets
        needs = needs_of(broker_demand(code).policy, named, self._around.cluster)
        acl = self._directory.acl_of(user.username)
        return secrets if refusal(user, acl, needs, source.address, source.host) is None else None

    def user_of(self, request: Command, certificate: tuple[str, ...] = ()) -> User:
        """Return the user who signed *request*, or whom the client's certificate names; raise NoPermission."""
        names = certificate if self._uses_certificates else ()
        return authenticate(self._directory.users, request.code, request.fields(), request.body, names)

    def _checks_rights(self, code: int) -> bool:
        return code in _ALWAYS_AUTHORIZED or (self._authorizes and code not in self._unauthorized)


def _is_published(user: User, source: Source) -> bool:
    """Return whether the password is known to each reader of Apache's samples, and the request is from elsewhere."""
    return is_sample(user.password) and not (source.address is not None and source.address.is_loopback)
