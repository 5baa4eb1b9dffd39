"""Second-stage services of a slave: while it acts as master, due messages leave for another master.

    start    delay levels, timer and transactions begin anew where the master stopped: the tables that were copied say
             how far it was, and the log shows what it delivered after that
    stop     their progress is saved; the master takes it over when it returns

Clients read, commit and lock at a slave as at a master; sends and the ends of transactions stay refused.
"""

import asyncio
import logging
from collections.abc import Callable

from hanabi.broker.acting.escape import Escape
from hanabi.broker.background import Background
from hanabi.broker.delay.escaping_put import EscapingPut
from hanabi.broker.parts import Services
from hanabi.errors import MQError

logger = logging.getLogger(__name__)


class StandIn:
    """The services of one slave. `set` whether it acts; a change runs in the background, one after another."""

    def __init__(self, services: Services, escape: Escape, is_acting: Callable[[], bool]) -> None:
        """*is_acting* returns the wanted state."""
        self._services, self._escape, self._is_wanted = services, escape, is_acting
        self._changed = asyncio.Event()
        self._settled = asyncio.Condition()
        self._work: Background | None = None

    @property
    def is_acting(self) -> bool:
        """Return whether the services run."""
        return self._work is not None

    def look(self) -> None:
        """Start or stop the services if the wanted state has changed."""
        if self._is_wanted() != self.is_acting:
            self._changed.set()

    async def settle(self) -> None:
        """Wait until the services are as wanted."""
        self.look()
        async with self._settled:
            await self._settled.wait_for(lambda: self._is_wanted() == self.is_acting)

    async def run(self) -> None:
        """Follow the wanted state until cancelled, then stop the services."""
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                if self._is_wanted() != self.is_acting:
                    await (self._start() if self._is_wanted() else self._stop())
                async with self._settled:
                    self._settled.notify_all()
        finally:
            await asyncio.shield(self._stop())

    async def _start(self) -> None:
        levels, timers = EscapingPut(self._escape.send), EscapingPut(self._escape.send)
        services = self._services
        await asyncio.to_thread(services.renew_delivery, levels, timers)
        services.listen()
        services.is_acting = True
        self._work = work = Background()
        work.run("escape of delayed messages", services.delivery.run)
        work.run("escape of timed messages", services.timer.run)
        work.run("escape of half messages", lambda: services.transactions.run_escape(self._escape.send))
        logger.warning("there is no master: this slave acts as master; due messages go to other masters")

    async def _stop(self) -> None:
        if self._work is None:
            return
        work, self._work = self._work, None
        await work.stop()
        self._services.stop_listening()
        self._services.acted, self._services.is_acting = self._services.timer_checkpoint(), False
        for save in (self._services.delivery.save, self._services.timer.save):
            try:
                await asyncio.to_thread(save)
            except (MQError, OSError) as error:
                logger.error("progress of delivery could not be saved: %s", error)
        logger.warning("this slave does not act as master any more")
