"""Refusal of changes on a slave, which copies its topics and groups from its master."""

from hanabi.broker.settings import Settings
from hanabi.errors import UnknownReplyError


def refuse_on_slave(settings: Settings) -> None:
    """Raise an error in Apache's words if this broker is a slave."""
    if settings.is_slave:
        raise UnknownReplyError(
            "Can't modify topic or subscription group from slave broker, please execute it from master broker."
        )
