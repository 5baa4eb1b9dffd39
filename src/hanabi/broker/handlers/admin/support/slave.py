"""What a slave must not change: it copies its topics and groups from its master."""

from hanabi.broker.settings import Settings
from hanabi.errors import UnknownReplyError


def refuse_on_slave(settings: Settings) -> None:
    """Raise if this broker is a slave; the words are Apache's."""
    if settings.broker.broker_role == "SLAVE":
        raise UnknownReplyError(
            "Can't modify topic or subscription group from slave broker, please execute it from master broker."
        )
