"""State of replication, for operators and for brokers of the same name (codes 906 to 908, 5.x).

    907   slaves and their lag, or the master that is followed: `mqadmin haStatus`
    906   a broker of this name asks where slaves connect to
    908   accepted without effect: it repairs a value that only Apache's slaves keep

906 can also tell a broker to follow another master. Any peer could send that, so it has no effect here: a slave
follows the master of its file or of the name servers. Agrees with AdminBrokerProcessor (5.3.3).
"""

import logging
from collections.abc import Callable
from typing import Final

from hanabi.broker.settings import Settings
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.wire.bodies.ha_status import HAStatus
from hanabi.wire.codes import RequestCode
from hanabi.wire.command import Command
from hanabi.wire.fastjson import encode_body
from hanabi.wire.header import NoHeader
from hanabi.wire.headers.v5.replication import (
    ExchangeHAInfoHeader,
    ExchangeHAInfoReplyHeader,
    ResetMasterFlushOffsetHeader,
)

logger = logging.getLogger(__name__)

_BODY_BYTES_MAX: Final = 64 << 10  # these requests have none


def replication_handlers(
    ha_status: Callable[[], HAStatus], settings: Settings, *, address: str, ha_address: str, first_end_offset: int
) -> dict[int, Handler]:
    """Return the handlers. *first_end_offset* is the end of the log when the broker started."""
    own = ExchangeHAInfoReplyHeader(
        master_ha_address=ha_address, master_flush_offset=first_end_offset, master_address=address
    )

    def show(_: NoHeader, request: Command, connection: Connection) -> Reply:
        return Reply(body=encode_body(ha_status()))

    def exchange(header: ExchangeHAInfoHeader, _: Command, connection: Connection) -> Reply:
        if header.master_ha_address is not None:
            logger.warning(
                "%s asks to follow %s: without effect, see haMasterAddress", connection.peer, header.master_ha_address
            )
            return Reply()
        return Reply(header=own) if not settings.broker.broker_id else Reply()

    def reset(_: ResetMasterFlushOffsetHeader, request: Command, connection: Connection) -> Reply:
        return Reply()

    return {
        RequestCode.GET_BROKER_HA_STATUS: Handler(NoHeader, show, _BODY_BYTES_MAX),
        RequestCode.EXCHANGE_BROKER_HA_INFO: Handler(ExchangeHAInfoHeader, exchange, _BODY_BYTES_MAX),
        RequestCode.RESET_MASTER_FLUSH_OFFSET: Handler(ResetMasterFlushOffsetHeader, reset, _BODY_BYTES_MAX),
    }
