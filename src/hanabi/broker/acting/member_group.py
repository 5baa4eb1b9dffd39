"""Brokers of one name, as the name servers know them; and our heartbeats to the name servers.

    every second     904 to each name server: this broker is alive (one-way; 4.9 ignores it and expires late)
                     901 to each name server: which brokers has this name?      ─> `on_members`
    905              a name server says that the smallest id has changed: ask at once

A notice is not believed, as any peer can send one: it only makes us ask. A 4.9 name server does not know 901; it is
asked for the route of `rmq_sys_SYNC_BROKER_MEMBER_<name>`. Agrees with BrokerController and BrokerOuterAPI (5.3.3).
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from hanabi.broker.acting.member_rules import Members, joined
from hanabi.broker.registration import Identity
from hanabi.broker.settings import Settings
from hanabi.errors import BrokerError, MQError
from hanabi.remoting.transport.connector import Connector
from hanabi.wire.bodies.route import BrokerMemberGroupReply, TopicRoute
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.fastjson import decode_body
from hanabi.wire.headers.namesrv import BrokerHeartbeatHeader, GetBrokerMemberGroupHeader, GetRouteHeader
from hanabi.wire.system_names import MEMBER_GROUP_PREFIX

logger = logging.getLogger(__name__)

REST_SECONDS_MIN: Final = 0.2  # between two questions, however many notices come


class MemberGroup:
    """The members of one broker name. `run` until cancelled."""

    def __init__(self, identity: Identity, settings: Settings, connector: Connector) -> None:
        self._identity, self._settings, self._connector = identity, settings, connector
        self._wake = asyncio.Event()
        self.members: Members | None = None  # None: no name server has answered yet
        self.on_members: Callable[[Members], None] = lambda _: None

    def wake(self) -> None:
        """Ask the name servers now."""
        self._wake.set()

    async def run(self) -> None:
        """Send heartbeats and ask for the members periodically."""
        while True:
            await asyncio.gather(self._beat(), self._look())
            await asyncio.sleep(REST_SECONDS_MIN)
            seconds = self._settings.broker.heartbeat_interval_to_namesrv_ms / 1000 - REST_SECONDS_MIN
            try:
                async with asyncio.timeout(max(seconds, 0)):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()

    async def ask(self) -> Members | None:
        """Return the members now; None if no name server answers."""
        servers = self._settings.broker.namesrv_addresses
        return joined(await asyncio.gather(*(self._ask_one(server) for server in servers)))

    async def _look(self) -> None:
        members = await self.ask()
        if members is None:
            return  # the last answer holds
        if members != self.members:
            logger.info("brokers named %s: %s", self._identity.broker_name, dict(sorted(members.items())))
        self.members = members
        self.on_members(members)

    async def _beat(self) -> None:
        await asyncio.gather(*(self._beat_one(server) for server in self._settings.broker.namesrv_addresses))

    async def _beat_one(self, server: str) -> None:
        identity = self._identity
        header = BrokerHeartbeatHeader(
            cluster_name=identity.cluster_name, broker_addr=identity.address, broker_name=identity.broker_name
        )
        try:
            await self._connector.send_oneway(server, RequestCode.BROKER_HEARTBEAT, header, timeout=self._seconds)
        except MQError as error:
            logger.debug("no heartbeat to name server %s: %s", server, error)  # the registration reports it

    async def _ask_one(self, server: str) -> Members | None:
        identity = self._identity
        header = GetBrokerMemberGroupHeader(cluster_name=identity.cluster_name, broker_name=identity.broker_name)
        try:
            reply = await self._connector.request(
                server, RequestCode.GET_BROKER_MEMBER_GROUP, header, timeout=self._seconds
            )
            if reply.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                return await self._ask_for_route(server)
            if reply.code != ResponseCode.SUCCESS:
                raise BrokerError.from_reply(reply.code, reply.remark, asked=f"members at {server}")
            group = decode_body(bytes(reply.body), BrokerMemberGroupReply).broker_member_group
        except MQError as error:
            logger.debug("name server %s does not list the brokers of our name: %s", server, error)
            return None
        return dict(group.broker_addrs) if group is not None else {}

    async def _ask_for_route(self, server: str) -> Members | None:
        name = self._identity.broker_name
        header = GetRouteHeader(topic=f"{MEMBER_GROUP_PREFIX}{name}")
        reply = await self._connector.request(server, RequestCode.GET_ROUTEINFO_BY_TOPIC, header, timeout=self._seconds)
        if reply.code != ResponseCode.SUCCESS:
            return {} if reply.code == ResponseCode.TOPIC_NOT_EXIST else None
        datas = decode_body(bytes(reply.body), TopicRoute).broker_datas
        return next((dict(data.broker_addrs) for data in datas if data.broker_name == name), {})

    @property
    def _seconds(self) -> float:
        return self._settings.broker.heartbeat_timeout_to_namesrv_ms / 1000
