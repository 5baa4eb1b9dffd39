"""Replication of brokers: each master, its slaves, and how far behind they are.

Asks masters and slaves for GET_BROKER_HA_STATUS (mqadmin's haStatus). Brokers before 5.0 do not know that request: the
ends of their logs are compared by the runtime information, which does not tell whether a slave is connected.
"""

from collections.abc import Iterable

import msgspec

from hanabi.admin.access import EVERYWHERE, Access, BrokerAt, Where, each
from hanabi.admin.replication_report import BrokerReplication, BrokerReport, joined, number
from hanabi.client.cluster.routes import MASTER_ID
from hanabi.errors import BrokerError, RequestCodeNotSupported, TransportError
from hanabi.wire.bodies.ha_status import HAStatus
from hanabi.wire.bodies.route import KVTable
from hanabi.wire.codes import RequestCode
from hanabi.wire.fastjson import decode_body
from hanabi.wire.java_properties import decode_properties


class Replication:
    """Queries about replication."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def all(self, where: Where = EVERYWHERE) -> list[BrokerReplication]:
        """Return the replication of the chosen brokers. The address of a slave chooses that slave."""
        chosen = await self._access.brokers(where)
        names = {(broker.cluster, broker.broker) for broker in chosen}
        known = await self._access.brokers()  # a slave's lag is known by its master
        found = await self.of(at for at in known if (at.cluster, at.broker) in names)
        return [_chosen(each, chosen) for each in found]

    async def of(self, brokers: Iterable[BrokerAt]) -> list[BrokerReplication]:
        """Return the replication of these masters and slaves, one answer for each broker name."""
        by_name: dict[tuple[str, str], list[BrokerReport]] = {}
        for report in await each(brokers, self._report):
            by_name.setdefault((report.at.cluster, report.at.broker), []).append(report)
        return [joined(by_name[name]) for name in sorted(by_name)]

    async def _report(self, at: BrokerAt) -> BrokerReport:
        try:
            settings = decode_properties(bytes((await self._access.ask(at, RequestCode.GET_BROKER_CONFIG)).body))
            try:
                reply = await self._access.ask(at, RequestCode.GET_BROKER_HA_STATUS)
            except RequestCodeNotSupported:
                table = (await self._access.ask_for(at, RequestCode.GET_BROKER_RUNTIME_INFO, KVTable)).table
                return BrokerReport(at, settings, log_end=number(table.get("commitLogMaxOffset")))
        except (BrokerError, TransportError) as error:  # Apache's 4.9 fails in its first seconds
            return BrokerReport(at, problem=str(error))
        status = decode_body(reply.body, HAStatus)
        end = status.master_commit_log_max_offset if status.master else status.ha_client_runtime_info.max_offset
        return BrokerReport(at, settings, status, log_end=end)


def _chosen(found: BrokerReplication, chosen: Iterable[BrokerAt]) -> BrokerReplication:
    """Leave out the slaves that were not chosen, unless their master was."""
    ids = {at.broker_id for at in chosen if (at.cluster, at.broker) == (found.cluster, found.broker)}
    if MASTER_ID in ids:
        return found
    return msgspec.structs.replace(found, slaves=[slave for slave in found.slaves if slave.broker_id in ids])
