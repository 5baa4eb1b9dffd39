"""Requests to a slave that may act as master (5.x).

    905   a name server: the smallest id of this broker's name has changed. Not believed: the name servers are asked
    906   the returning master, which is not registered yet, says where slaves connect to. Our work is saved before the
          reply, so that it finds all of it

A slave that is connected to its master ignores 906, so that no peer can lead it away from there.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.remoting.connection.turns import with_turns
from hanabi.wire.codes import RequestCode
from hanabi.wire.command import Command
from hanabi.wire.headers.v5.replication import ExchangeHAInfoHeader, NotifyMinBrokerIdChangeHeader

_BODY_BYTES_MAX: Final = 64 << 10  # these requests have none


def acting_handlers(ask: Callable[[], None], follow: Callable[[str, str], Awaitable[None]]) -> dict[int, Handler]:
    """Return the handlers. *ask* asks the name servers for the members; *follow* gets the master's address for slaves
    and the peer that named it."""

    def notified(_: NotifyMinBrokerIdChangeHeader, request: Command, connection: Connection) -> Reply:
        ask()
        return Reply()

    async def exchange(header: ExchangeHAInfoHeader, _: Command, connection: Connection) -> Reply:
        if header.master_ha_address is not None:
            await follow(header.master_ha_address, connection.peer)
        return Reply()

    return with_turns(
        {
            RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE: Handler(NotifyMinBrokerIdChangeHeader, notified, _BODY_BYTES_MAX),
            RequestCode.EXCHANGE_BROKER_HA_INFO: Handler(ExchangeHAInfoHeader, exchange, _BODY_BYTES_MAX),
        }
    )
