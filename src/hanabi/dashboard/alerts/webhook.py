"""The webhook: posts alerts that began or ended, one after the other, with retries. Runs off the event loop."""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from hanabi.dashboard.alerts.config import Webhook
from hanabi.dashboard.alerts.egress import NotPosted, post
from hanabi.dashboard.alerts.state import Alert

logger = logging.getLogger(__name__)

WAITING_MAX: Final = 200
RETRY_AFTER_S: Final = (1.0, 5.0, 25.0)


def payload(alert: Alert) -> dict[str, Any]:
    """Return an alert as the webhook tells it. `text` is for chats. Has no bodies, keys or secrets. Pure."""
    finding = alert.finding
    return {
        "version": 1,
        "state": alert.state,
        "rule": str(finding.rule),
        "subject": finding.subject,
        "severity": finding.severity,
        "text": f"[{alert.state}] {finding.sentence}",
        "value": round(finding.value, 3),
        "limit": finding.limit,
        "since": alert.since_ms,
        "ended": alert.ended_ms,
    }


class Poster:
    """A queue of alerts to post. If the webhook is down for long, the oldest are dropped and counted."""

    def __init__(self, hook: Webhook | None, retry_after_s: Sequence[float] = RETRY_AFTER_S) -> None:
        self.hook, self._retry_after_s = hook, retry_after_s
        self._waiting: deque[Alert] = deque()
        self._wake = asyncio.Event()
        self.posted = self.dropped = 0
        self.problem = ""

    def put(self, alerts: Sequence[Alert]) -> None:
        """Post these as soon as possible."""
        if self.hook is None:
            return
        self._waiting.extend(alerts)
        while len(self._waiting) > WAITING_MAX:
            self._waiting.popleft()
            self._drop("too many alerts wait")
        self._wake.set()

    async def run(self) -> None:
        """Post until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                await self._post(self._waiting.popleft())

    async def _post(self, alert: Alert) -> None:
        hook = self.hook
        if hook is None:
            return
        body = msgspec.json.encode(payload(alert))
        for wait in (*self._retry_after_s, None):
            try:
                await asyncio.to_thread(post, hook.url, body, hook.headers, hook.networks, hook.seconds)
            except NotPosted as error:
                self.problem = str(error)
                if wait is None or not error.again:
                    self._drop(self.problem)
                    return
                await asyncio.sleep(wait)
            else:
                self.posted += 1
                self.problem = ""
                return

    def _drop(self, reason: str) -> None:
        self.dropped += 1
        self.problem = reason
        shown = self.hook.shown if self.hook else ""
        logger.warning("an alert was not posted to %s: %s", shown, reason)
