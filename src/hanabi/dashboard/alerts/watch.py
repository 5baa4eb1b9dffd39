"""The watch over the cluster: each round of the sampler is judged, and changes go to the webhook."""

from hanabi.dashboard.alerts.config import AlertConfig
from hanabi.dashboard.alerts.rules import LetterCounts, findings
from hanabi.dashboard.alerts.state import AlertBook
from hanabi.dashboard.alerts.webhook import Poster
from hanabi.dashboard.history.sampler import Round


class Watch:
    """Rules, alerts and webhook of one dashboard."""

    def __init__(self, config: AlertConfig) -> None:
        self.config = config
        self.book = AlertBook()
        self.poster = Poster(config.webhook)
        self.judged_ms: int | None = None
        self._letters = LetterCounts()

    async def on_round(self, round_: Round) -> None:
        """Judge what one round learned."""
        found, judged = findings(round_, self.config.limits, self._letters)
        self.poster.put(self.book.note(found, judged, round_.at_ms))
        self.judged_ms = round_.at_ms
