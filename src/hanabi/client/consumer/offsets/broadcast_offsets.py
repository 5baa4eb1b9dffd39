"""Offsets of a broadcasting member at the brokers, under a name that survives a changed address.

Apache's clients keep them in a file under the client's address: a container that moves to another machine, or loses its
disk, starts over. Here each member commits as a group of its own, `GROUP_broadcast_INSTANCE`, so the program gives each
member a stable `instance`. Brokers make that group at the first request, where they make groups by themselves.
"""

from hanabi.client.cluster.core import Core
from hanabi.client.config import DEFAULT_INSTANCE, ClientConfig
from hanabi.client.consumer.offsets.offset_store import ReadFrom, RemoteOffsets
from hanabi.client.consumer.pull_request import Pulling
from hanabi.client.consumer.subscription import ALL, subscription_data
from hanabi.client.validation import check_group
from hanabi.errors import ConfigError
from hanabi.message import MessageQueue


def member_group(group: str, config: ClientConfig) -> str:
    """Return the group under which one member of *group* commits. Pure."""
    if config.instance == DEFAULT_INSTANCE:
        raise ConfigError(
            'broadcast_offsets="broker" needs a stable name of each member: set instance, such as "worker-3"'
        )
    name = f"{group}_broadcast_{config.instance}"
    check_group(name)
    return name


class BroadcastOffsets(RemoteOffsets):
    """Offsets of one member of a broadcasting group."""

    def __init__(self, core: Core, group: str) -> None:
        name = member_group(group, core.config)
        super().__init__(core, name)
        self._pulling = Pulling(core, name, tells_subscription=True)
        self._known_to: set[str] = set()  # names of brokers

    async def read(self, queue: MessageQueue, where: ReadFrom = ReadFrom.MEMORY_FIRST) -> int | None:
        if where is not ReadFrom.MEMORY and queue.broker_name not in self._known_to:
            # Brokers take offsets of known groups only, and a pull makes a group known.
            await self._pulling.pull(queue, 0, subscription_data(queue.topic, ALL, 0), count=1, hold_s=0)
            self._known_to.add(queue.broker_name)
        return await super().read(queue, where)

    def begin(self, queue: MessageQueue, offset: int) -> None:
        """Record the start: messages that arrive while this member is down are consumed afterwards."""
        self.update(queue, offset, increase_only=True)
