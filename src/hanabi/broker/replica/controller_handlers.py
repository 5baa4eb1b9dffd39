"""Requests to a broker in controller mode (5.x).

1007   epochs of the log: `mqadmin getBrokerEpoch`
1008   notice of an election; the broker asks its controller, as any peer could send one
"""

from collections.abc import Callable

from hanabi.broker.settings import Settings
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.replication.autoswitch.epochs import EpochFile, ends
from hanabi.replication.rules.role_news import RoleNews
from hanabi.wire.bodies.v5.controller import EpochEntry, EpochEntryCache
from hanabi.wire.codes import RequestCode
from hanabi.wire.command import Command
from hanabi.wire.fastjson import encode_body
from hanabi.wire.header import NoHeader
from hanabi.wire.headers.v5.replication import NotifyBrokerRoleChangedHeader

_BODY_BYTES_MAX = 64 << 10


def controller_mode_handlers(
    settings: Settings, epochs: EpochFile, end_offset: Callable[[], int], notified: Callable[[RoleNews], None]
) -> dict[int, Handler]:
    """Return the handlers. *notified* gets each notice."""

    def show(_: NoHeader, request: Command, connection: Connection) -> Reply:
        broker, end = settings.broker, end_offset()
        entries = [
            EpochEntry(epoch=epoch.number, start_offset=epoch.start, end_offset=until)
            for epoch, until in ends(epochs.epochs, end).items()
        ]
        return Reply(
            body=encode_body(
                EpochEntryCache(
                    cluster_name=broker.cluster_name,
                    broker_name=broker.broker_name,
                    broker_id=broker.broker_id,
                    epoch_list=entries,
                    max_offset=end,
                )
            )
        )

    def notice(header: NotifyBrokerRoleChangedHeader, _: Command, connection: Connection) -> Reply:
        news = RoleNews(
            master_id=header.master_broker_id,
            master_address=header.master_address,
            master_epoch=header.master_epoch or 0,
            members=frozenset(),
            set_epoch=header.sync_state_set_epoch or 0,
        )
        notified(news)
        return Reply()

    return {
        RequestCode.GET_BROKER_EPOCH_CACHE: Handler(NoHeader, show, _BODY_BYTES_MAX),
        RequestCode.NOTIFY_BROKER_ROLE_CHANGED: Handler(NotifyBrokerRoleChangedHeader, notice, _BODY_BYTES_MAX),
    }
