"""Notices to brokers: the smallest id of their name has changed (905, 5.x).

A notice is one-way and goes to the address that the broker advertises, as Java brokers do not read requests on the
connections that they opened. A lost notice does no harm: brokers also ask for their members every second.
"""

import asyncio
import logging
from typing import Final

from hanabi.errors import MQError
from hanabi.namesrv.route_table import SmallestChanged
from hanabi.remoting.transport.connector import Connector
from hanabi.remoting.transport.tls import TlsConfig
from hanabi.wire.codes import RequestCode
from hanabi.wire.headers.v5.replication import NotifyMinBrokerIdChangeHeader

TIMEOUT_SECONDS: Final = 1.0
PENDING_MAX: Final = 1_000  # a burst beyond this is not sent: the brokers find out by asking

logger = logging.getLogger(__name__)


class BrokerNotices:
    """Sends notices in the background, from the first one to `stop`."""

    def __init__(self, tls: TlsConfig | None = None) -> None:
        self._connector = Connector(tls=tls)
        self._tasks: set[asyncio.Task[None]] = set()

    def smallest_changed(self, change: SmallestChanged) -> None:
        """Notify the members of a broker name."""
        for address in change.addresses[: PENDING_MAX - len(self._tasks)]:
            task = asyncio.get_running_loop().create_task(self._send(address, change.notice))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Give up the notices that are under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._connector.close()

    async def _send(self, address: str, notice: NotifyMinBrokerIdChangeHeader) -> None:
        try:
            await self._connector.send_oneway(
                address, RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, notice, timeout=TIMEOUT_SECONDS
            )
        except MQError as error:
            logger.info("%s is not told that broker %s has the smallest id: %s", address, notice.min_broker_id, error)
