"""Administration of a cluster, Hanabi's or Apache's 4.9 and 5.x: operators' actions, one coroutine each.

    async with Admin(namesrv="127.0.0.1:9876") as admin:
        await admin.topics.create("Orders", write_queues=8)
        print(await admin.groups.progress("billing"))

Names of topics and groups are those on the wire: with their namespace, if they are in one. Connects the parts; each
part has one file. Independent of terminals.
"""

from typing import Unpack

from hanabi.admin.access import Access, BrokerAt, Where
from hanabi.admin.brokers import Brokers, Clean
from hanabi.admin.controllers import Controllers
from hanabi.admin.dead_letters import DeadLetterOffice
from hanabi.admin.groups import GroupChange, Groups
from hanabi.admin.messages import Messages, Range
from hanabi.admin.name_servers import NameServerAdmin
from hanabi.admin.offsets import Offsets, Target
from hanabi.admin.replication import Replication
from hanabi.admin.topics import TopicChange, Topics
from hanabi.admin.users import Users
from hanabi.client.cluster.core import Core
from hanabi.client.config import ClientConfig, client_config
from hanabi.client.options import ClientOptions

__all__ = ["Admin", "BrokerAt", "Clean", "GroupChange", "Range", "Target", "TopicChange", "Where"]


class Admin:
    """All queries and actions of an operator; use it with `async with`."""

    access: Access  # requests to servers; for callers with requests of their own
    topics: Topics
    groups: Groups
    brokers: Brokers
    controllers: Controllers
    messages: Messages
    dead_letters: DeadLetterOffice
    name_servers: NameServerAdmin
    offsets: Offsets
    replication: Replication
    users: Users

    def __init__(self, config: ClientConfig | None = None, **options: Unpack[ClientOptions]) -> None:
        """Make an Admin. *options* are those of `ClientConfig`; they override *config*."""
        self._config = client_config(config, options)
        self._core: Core | None = None

    async def __aenter__(self) -> "Admin":
        self._core = await Core.acquire(self._config)
        self.access = access = Access(self._core)
        self.topics = Topics(access)
        self.groups = Groups(access)
        self.brokers = Brokers(access)
        self.controllers = Controllers(access)
        self.offsets = Offsets(access, self.groups)
        self.messages = Messages(access, self.groups)
        self.dead_letters = DeadLetterOffice(access, self.topics, self.messages)
        self.name_servers = NameServerAdmin(access)
        self.replication = Replication(access)
        self.users = Users(access)
        return self

    async def __aexit__(self, *_: object) -> None:
        core, self._core = self._core, None
        if core is not None:
            await core.release()
