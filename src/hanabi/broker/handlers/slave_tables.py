"""Tables that only slaves of 5.x ask for; topics, groups and offsets are in the files of their subjects.

    60   progress of the timer            61   timed messages that wait, by topic        402  which groups use POP

This broker does not count timed messages by topic: it returns what it has found in the file of Apache's broker, or has
copied from its master. Agrees with AdminBrokerProcessor (5.3.3).
"""

from collections.abc import Callable
from typing import Final

from hanabi.broker.settings import Settings
from hanabi.broker.tables.foreign_table import ForeignTable
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.wire.bodies.offsets import TimerCheckpoint, TimerMetricsTable, encode_timer_checkpoint
from hanabi.wire.bodies.pop import MessageRequestModeTable
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.fastjson import encode_body
from hanabi.wire.header import NoHeader

NO_BODY_BYTES_MAX: Final = 4 * 1024


def slave_table_handlers(
    settings: Settings,
    timer_checkpoint: Callable[[], TimerCheckpoint | None],
    timer_metrics: ForeignTable[TimerMetricsTable],
    request_modes: ForeignTable[MessageRequestModeTable],
) -> dict[int, Handler]:
    """Return the handlers. *timer_checkpoint* returns None while a slave does not know its master's."""

    def checkpoint(_header: NoHeader, _request: Command, _connection: Connection) -> Reply:
        found = timer_checkpoint() if settings.broker.timer_enabled else None
        if found is None:
            return Reply(ResponseCode.SYSTEM_ERROR, "The checkpoint is null")
        return Reply(body=encode_timer_checkpoint(found))

    def metrics(_header: NoHeader, _request: Command, _connection: Connection) -> Reply:
        if not settings.broker.timer_enabled:
            return Reply(ResponseCode.SYSTEM_ERROR, "The timer message store is null")
        return Reply(body=encode_body(timer_metrics.table))

    def modes(_header: NoHeader, _request: Command, _connection: Connection) -> Reply:
        return Reply(body=encode_body(request_modes.table))

    return {
        RequestCode.GET_TIMER_CHECK_POINT: Handler(NoHeader, checkpoint, NO_BODY_BYTES_MAX),
        RequestCode.GET_TIMER_METRICS: Handler(NoHeader, metrics, NO_BODY_BYTES_MAX),
        RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: Handler(NoHeader, modes, NO_BODY_BYTES_MAX),
    }
