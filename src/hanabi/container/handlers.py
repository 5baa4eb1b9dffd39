"""Request handlers of the container. Codes and headers are those of BrokerContainerProcessor of 5.3.3."""

import logging
from pathlib import Path
from typing import Protocol

from hanabi.container.config import ContainerConfig
from hanabi.container.member import Identity
from hanabi.errors import ConfigError
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.header import NoHeader
from hanabi.wire.headers.admin import AddBrokerHeader, RemoveBrokerHeader

BODY_BYTES_MAX = 256 * 1024

logger = logging.getLogger(__name__)


class Brokers(Protocol):
    """The brokers of a container."""

    async def add(self, file: Path) -> None:
        """Start the broker of a file."""

    async def remove(self, identity: Identity) -> bool:
        """Stop a broker."""


def container_handlers(brokers: Brokers, config: ContainerConfig) -> dict[int, Handler]:
    """Return the table from request code to handler."""
    own = ContainerHandlers(brokers, config)
    return {
        RequestCode.ADD_BROKER: Handler(AddBrokerHeader, own.add, BODY_BYTES_MAX),
        RequestCode.REMOVE_BROKER: Handler(RemoveBrokerHeader, own.remove, BODY_BYTES_MAX),
        RequestCode.GET_BROKER_CONFIG: Handler(NoHeader, own.show_config, BODY_BYTES_MAX),
        RequestCode.UPDATE_BROKER_CONFIG: Handler(NoHeader, own.update_config, BODY_BYTES_MAX),
    }


class ContainerHandlers:
    """Requests to the container itself."""

    def __init__(self, brokers: Brokers, config: ContainerConfig) -> None:
        self._brokers, self._config = brokers, config

    async def add(self, header: AddBrokerHeader, _: Command, connection: Connection) -> Reply:
        path = (header.config_path or "").strip()
        if not path:
            return Reply(ResponseCode.SYSTEM_ERROR, "addBroker config path is empty")
        try:
            await self._brokers.add(Path(path))
        except ConfigError as error:
            logger.warning("%s: broker of %s is not added: %s", connection.peer, path, error)
            return Reply(ResponseCode.SYSTEM_ERROR, str(error))
        logger.info("%s: broker of %s is added until this container ends", connection.peer, path)
        return Reply()

    async def remove(self, header: RemoveBrokerHeader, _: Command, connection: Connection) -> Reply:
        identity = Identity(header.broker_cluster_name, header.broker_name, header.broker_id)
        if not await self._brokers.remove(identity):
            return Reply(ResponseCode.BROKER_NOT_EXIST, f"Broker not exist: {identity}")
        logger.info("%s: broker %s is removed", connection.peer, identity)
        return Reply()

    def show_config(self, _: NoHeader, request: Command, connection: Connection) -> Reply:
        return Reply(body=self._config.text())

    def update_config(self, _: NoHeader, request: Command, connection: Connection) -> Reply:
        return Reply(
            ResponseCode.NO_PERMISSION,
            "settings of a container cannot be changed while it runs: change its file and start it again, or ask one"
            " of its brokers",
        )
