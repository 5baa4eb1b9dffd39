"""Messages that wait: delayed by level, timed, and half messages of transactions."""

from typing import Final

import msgspec
from starlette.responses import Response

from hanabi.admin.topics import QueueStatus
from hanabi.dashboard.web.routing import PageRoute
from hanabi.dashboard.web.visit import Visit

DELAY_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
DONE_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
TIMER: Final = ("timerReadBehind", "timerOffsetBehind", "timerCongestNum", "timerEnqueueTps", "timerDequeueTps")


class DelayLevel(msgspec.Struct, frozen=True, kw_only=True):
    """One delay level of one broker: `delivered` of `stored` messages left it."""

    broker: str
    level: int
    delay: str
    delivered: int
    stored: int

    @property
    def waiting(self) -> int:
        return max(self.stored - self.delivered, 0)


def delay_levels(stored: list[QueueStatus], figures: dict[str, str], names: str) -> list[DelayLevel]:
    """Return the levels of a broker that have messages. A level is a queue; figures tell how far it was delivered, as
    "delivered,stored", and nothing if no message was. Pure.
    """
    delays = names.split()
    found = []
    for queue in stored:
        level = queue.queue_id + 1
        delivered = figures.get(f"scheduleMessageOffset_{level}", "0").partition(",")[0].strip()
        if queue.max_offset > 0:
            found.append(
                DelayLevel(
                    broker=queue.broker,
                    level=level,
                    delay=delays[level - 1] if level <= len(delays) else "",
                    delivered=int(delivered) if delivered.isdigit() else 0,
                    stored=queue.max_offset,
                )
            )
    return sorted(found, key=lambda each: each.level)


async def waiting(visit: Visit) -> Response:
    """Show delayed and timed messages of each master, and transactions."""
    cluster = visit.parts.cluster
    status = await cluster.collector.ask(("all-status",), cluster.admin.brokers.status)
    configs = await cluster.collector.ask(("all-configs",), cluster.admin.brokers.config, fresh_s=300.0)
    names = {table.address: table.values.get("messageDelayLevel", "") for table in configs.value or ()}
    masters = [table for table in status.value or () if table.broker_id == 0]
    values = {each.address: each.values for each in masters}
    delayed = await cluster.system_queues(DELAY_TOPIC)
    levels = [
        level
        for at, queues in (delayed.value.found if delayed.value else ())
        for level in delay_levels(queues, values.get(at.address, {}), names.get(at.address, ""))
    ]
    timers = [(each.broker, {key: each.values[key] for key in TIMER if key in each.values}) for each in masters]
    half, done = await cluster.system_queues(HALF_TOPIC), await cluster.system_queues(DONE_TOPIC)
    return visit.page("waiting.html", figures=status, levels=levels, timers=timers, half=half, done=done)


PAGES = [PageRoute("/waiting", waiting)]
