"""The broker's settings: show them (26), change some of them (25).

`Settings` decides what may be changed, and persists it. Agrees with AdminBrokerProcessor (4.9.8).
"""

import logging
from collections.abc import Callable

from hanabi.broker.handlers.admin.support.limits import NO_BODY_BYTES_MAX, SETTINGS_BYTES_MAX
from hanabi.broker.settings import Settings
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.wire.bodies.topics import DataVersion
from hanabi.wire.codes import RequestCode
from hanabi.wire.command import Command
from hanabi.wire.fastjson import encode_body
from hanabi.wire.header import NoHeader
from hanabi.wire.headers.admin import GetBrokerConfigReplyHeader

logger = logging.getLogger(__name__)


def config_handlers(settings: Settings, now_ms: Callable[[], int]) -> dict[int, Handler]:
    """Return the handlers that show and change settings."""
    handlers = ConfigHandlers(settings, now_ms)
    return {
        RequestCode.UPDATE_BROKER_CONFIG: Handler(NoHeader, handlers.update, SETTINGS_BYTES_MAX),
        RequestCode.GET_BROKER_CONFIG: Handler(NoHeader, handlers.show, NO_BODY_BYTES_MAX),
    }


class ConfigHandlers:
    """Settings as a properties file. Their version counts the changes since the start, as Java's Configuration does."""

    def __init__(self, settings: Settings, now_ms: Callable[[], int]) -> None:
        self._settings = settings
        self._now_ms = now_ms
        self._version = DataVersion(counter=0, timestamp=now_ms())

    async def update(self, _: NoHeader, request: Command, connection: Connection) -> Reply:
        if request.body:
            await self._settings.change(bytes(request.body))
            self._version = DataVersion(counter=self._version.counter + 1, timestamp=self._now_ms())
            logger.info("%s changed the settings", connection.peer)
        return Reply()

    def show(self, _: NoHeader, request: Command, connection: Connection) -> Reply:
        version = encode_body(self._version).decode()
        return Reply(header=GetBrokerConfigReplyHeader(version=version), body=self._settings.text().encode())
