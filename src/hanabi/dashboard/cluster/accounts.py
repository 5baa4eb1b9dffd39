"""Accounts of the brokers that logged in: each sees the cluster by requests that are signed with it, so its rights at
the brokers are the user's rights here. Answers of one account are not shown to another.
"""

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Final

import msgspec

from hanabi.admin import Admin
from hanabi.client.config import ClientConfig, Credentials
from hanabi.dashboard.cluster.collector import Collector
from hanabi.dashboard.cluster.view import ClusterView
from hanabi.errors import BrokerError, ConfigError, MQError
from hanabi.wire.bodies.heartbeat import HeartbeatData

ACCOUNTS_MAX: Final = 32
USER_PREFIX: Final = "account:"  # no local user has a colon in its name


class NotAccepted(MQError):
    """A login that the brokers did not confirm. `is_wrong`: name and secret do not match."""

    def __init__(self, reason: str, *, is_wrong: bool) -> None:
        super().__init__(reason)
        self.is_wrong = is_wrong


class Account:
    """One account: its requests, and the cluster as it sees it."""

    def __init__(self, client: ClientConfig, cluster: ClusterView, stack: AsyncExitStack) -> None:
        self.client, self.cluster, self._stack = client, cluster, stack

    async def close(self) -> None:
        """Cancel its questions and close its connections."""
        await self.cluster.collector.close()
        await self._stack.aclose()


class Accounts:
    """Accounts that are logged in. Of too many, the one that was used the longest ago is logged out."""

    def __init__(
        self,
        client: ClientConfig,
        now_ms: Callable[[], int],
        page_seconds: float,
        gate: asyncio.Semaphore,
        on_close: Callable[[str], None],
    ) -> None:
        self._client, self._now_ms, self._page_seconds = client, now_ms, page_seconds
        self._gate, self._on_close = gate, on_close
        self._open: OrderedDict[str, Account] = OrderedDict()

    def find(self, user: str) -> Account | None:
        """Return the account of a user of a session."""
        if user in self._open:
            self._open.move_to_end(user)
        return self._open.get(user)

    async def login(self, access_key: str, secret_key: str) -> str:
        """Log in; return the name of the user. Raise `NotAccepted` unless brokers check signatures and this one is
        right.
        """
        try:
            credentials = Credentials(access_key, secret_key)
        except ConfigError as error:
            raise NotAccepted(str(error), is_wrong=True) from error
        await self._check_that_signatures_count(access_key)
        account = await self.opened(msgspec.structs.replace(self._client, access=credentials))
        try:
            accepted = await _heartbeats(account.cluster.admin)
        except BaseException:
            await account.close()
            raise
        if not accepted:
            await account.close()
            raise NotAccepted("no broker accepts this account and secret", is_wrong=True)
        user = USER_PREFIX + access_key
        await self.remember(user, account)
        return user

    async def remember(self, user: str, account: Account) -> None:
        """Keep an account that was confirmed, in place of an older one of the same name."""
        before = self._open.pop(user, None)
        self._open[user] = account
        if before is not None:
            await before.close()
        while len(self._open) > ACCOUNTS_MAX:
            oldest, closed = self._open.popitem(last=False)
            self._on_close(oldest)
            await closed.close()

    async def close(self) -> None:
        """Close all accounts."""
        while self._open:
            _, account = self._open.popitem()
            await account.close()

    async def _check_that_signatures_count(self, access_key: str) -> None:
        """Raise unless each broker that answers refuses this account with another secret: access control may be off, or
        the address of this dashboard may be on a white list. Any secret would be right then.
        """
        wrong = Credentials(access_key, secrets.token_urlsafe(24))
        async with Admin(msgspec.structs.replace(self._client, access=wrong)) as admin:
            if await _heartbeats(admin):
                reason = "the brokers do not check signatures of this dashboard: log in as a user of the dashboard"
                raise NotAccepted(reason, is_wrong=False)

    async def opened(self, client: ClientConfig) -> Account:
        """Open the cluster for the account that *client* signs with."""
        stack = AsyncExitStack()
        admin = await stack.enter_async_context(Admin(client))
        collector = Collector(self._now_ms, self._page_seconds, self._gate)
        return Account(client, ClusterView(admin, collector, self._now_ms), stack)


async def _heartbeats(admin: Admin) -> int:
    """Send each master a heartbeat without groups, which needs an account and no rights; return how many accept it."""
    accepted, reached = 0, 0
    problem = "no broker is known"
    data = HeartbeatData(client_id=f"hanabi-dashboard@{secrets.token_hex(4)}")
    for broker in await admin.access.masters():
        try:
            await admin.access.api.heartbeat(broker.address, data, timeout=admin.access.seconds)
            accepted += 1
            reached += 1
        except BrokerError:
            reached += 1
        except MQError as error:
            problem = str(error)
    if not reached:
        raise NotAccepted(f"no broker can confirm the account: {problem}", is_wrong=False)
    return accepted
