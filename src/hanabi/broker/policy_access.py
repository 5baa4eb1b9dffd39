"""Users and policies of one broker (ACL 2.0): those of its files, those that its settings name, and accounts of 4.9.

In the order of Apache's broker: the user of initAuthenticationUser, the broker's own credentials, then accounts to
migrate; each only if there is no user of that name. Blocks for the disk.
"""

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path

from hanabi.access.inner import InnerCredentials
from hanabi.access.names import Surroundings
from hanabi.access.plain.account import Account
from hanabi.access.policies.directory import Directory
from hanabi.access.policies.gate import PolicyGate
from hanabi.access.policies.keys import read_codes, read_init_user
from hanabi.access.policies.migration import migrated
from hanabi.access.policies.model import User, UserType
from hanabi.broker.config import BrokerConfig
from hanabi.broker.handlers.admin.policies import policy_handlers
from hanabi.broker.handlers.admin.users import user_handlers
from hanabi.errors import ConfigError, NoPermission
from hanabi.remoting.connection.dispatch import Handler

logger = logging.getLogger(__name__)


class PolicyAccess:
    """The directory of users and policies, its gate and its handlers. *folder* has the files."""

    def __init__(self, broker: BrokerConfig, folder: Path) -> None:
        self._broker = broker
        self.directory = Directory(folder)
        if (folder / "users").is_dir() and not self.directory.users:
            logger.warning(
                "%s: users of Apache's broker are not read from there; start that broker and use mqadmin copyUser and"
                " copyAcl",
                folder / "users",
            )

    def prepare(self, inner: InnerCredentials | None, accounts: Iterable[Account]) -> None:
        """Create the users that the settings name, and *accounts* to migrate. Raise ConfigError."""
        users = [read_init_user(self._broker.init_user)]
        if inner is not None:
            users.append(User(username=inner.access_key, password=inner.secret_key, user_type=UserType.SUPER))
        try:
            for user in users:
                if user is not None and user.username not in self.directory.users:
                    self.directory.create_user(user)
                    logger.info("user %s of the settings is created", user.username)
            for account in accounts:
                if self.directory.add_migrated(*migrated(account)):
                    logger.info("account %s is migrated to a user", account.access_key)
        except NoPermission as error:
            raise ConfigError(f"a user of the settings cannot be created: {error}") from error
        if not any(user.user_type is UserType.SUPER for user in self.directory.users.values()):
            logger.warning("no Super user: set initAuthenticationUser, or no client can create users")

    def gate(self, around: Surroundings) -> PolicyGate:
        """Return the check in front of all handlers."""
        broker = self._broker
        return PolicyGate(
            self.directory,
            around,
            authorizes=broker.authorization_enabled,
            unauthenticated=read_codes("authenticationWhitelist", broker.authentication_white_list),
            unauthorized=read_codes("authorizationWhitelist", broker.authorization_white_list),
            uses_certificates=broker.certificate_accounts,
        )

    def handlers(self, gate: PolicyGate) -> Mapping[int, Handler]:
        """Return the handlers of users and policies."""
        return {**user_handlers(self.directory, gate.user_of), **policy_handlers(self.directory)}
