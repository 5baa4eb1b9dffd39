"""Name servers: settings, key-value pairs, and brokers' write permission.

Each name server gets its own request: they do not replicate. Agrees with mqadmin's getNamesrvConfig,
updateNamesrvConfig, updateKvConfig, deleteKvConfig, wipeWritePerm and addWritePerm.
"""

from collections.abc import Mapping

from hanabi.admin.access import SUCCESS, Access, Where
from hanabi.admin.answer import Answer
from hanabi.errors import ConfigError, QueryNotFound
from hanabi.wire.bodies.route import KVTable
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.fastjson import decode_body
from hanabi.wire.headers.namesrv import (
    AddWritePermHeader,
    AddWritePermReplyHeader,
    DeleteKVConfigHeader,
    GetKVConfigHeader,
    GetKVConfigReplyHeader,
    GetKVListHeader,
    PutKVConfigHeader,
    WipeWritePermHeader,
    WipeWritePermReplyHeader,
)
from hanabi.wire.java_properties import decode_properties, format_properties

_OR_NOTHING = SUCCESS | {int(ResponseCode.QUERY_NOT_FOUND)}


class NameServerTable(Answer, frozen=True, kw_only=True):
    """Settings, or values of a namespace, of one name server."""

    name_server: str
    values: dict[str, str]


class WritePerm(Answer, frozen=True, kw_only=True):
    """Number of a broker's topics that one name server has changed."""

    name_server: str
    broker: str
    writable: bool
    topics: int


class NameServerAdmin:
    """Queries and actions about name servers."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def config(self) -> list[NameServerTable]:
        """Return the settings of each name server."""
        replies = await self._access.ask_all_name_servers(RequestCode.GET_NAMESRV_CONFIG)
        return [
            NameServerTable(name_server=address, values=dict(sorted(decode_properties(bytes(reply.body)).items())))
            for address, reply in replies.items()
        ]

    async def configure(self, settings: Mapping[str, str]) -> list[NameServerTable]:
        """Change settings of all name servers; each decides which can be changed."""
        if not settings:
            raise ConfigError("nothing to change: give KEY=VALUE")
        body = format_properties(dict(settings)).encode()
        await self._access.ask_all_name_servers(RequestCode.UPDATE_NAMESRV_CONFIG, None, body)
        return [
            NameServerTable(
                name_server=each.name_server,
                values={key: value for key, value in each.values.items() if key in settings},
            )
            for each in await self.config()
        ]

    async def values(self, namespace: str) -> list[NameServerTable]:
        """Return all keys and values of a namespace, at each name server."""
        header = GetKVListHeader(namespace=namespace)
        replies = await self._access.ask_all_name_servers(
            RequestCode.GET_KVLIST_BY_NAMESPACE, header, accept=_OR_NOTHING
        )
        return [
            NameServerTable(
                name_server=address,
                values=decode_body(reply.body, KVTable).table if reply.code == ResponseCode.SUCCESS else {},
            )
            for address, reply in replies.items()
        ]

    async def value(self, namespace: str, key: str) -> list[NameServerTable]:
        """Return one value, at each name server; raise if none has it."""
        header = GetKVConfigHeader(namespace=namespace, key=key)
        replies = await self._access.ask_all_name_servers(RequestCode.GET_KV_CONFIG, header, accept=_OR_NOTHING)
        found = {
            address: reply.header(GetKVConfigReplyHeader).value if reply.code == ResponseCode.SUCCESS else None
            for address, reply in replies.items()
        }
        if not any(value is not None for value in found.values()):
            raise QueryNotFound(f"no name server of {', '.join(found)} has a value {key} in {namespace}")
        return [
            NameServerTable(name_server=address, values={} if value is None else {key: value})
            for address, value in found.items()
        ]

    async def put(self, namespace: str, key: str, value: str) -> list[NameServerTable]:
        """Store a value under a key, at all name servers."""
        header = PutKVConfigHeader(namespace=namespace, key=key, value=value)
        await self._access.ask_all_name_servers(RequestCode.PUT_KV_CONFIG, header)
        return await self.value(namespace, key)

    async def delete(self, namespace: str, key: str) -> None:
        """Delete a key, at all name servers."""
        header = DeleteKVConfigHeader(namespace=namespace, key=key)
        await self._access.ask_all_name_servers(RequestCode.DELETE_KV_CONFIG, header, accept=_OR_NOTHING)

    async def write_perm(self, broker: str, *, writable: bool) -> list[WritePerm]:
        """Allow or forbid producers to write to a broker, for example before stopping it; it can still be read."""
        await self._access.brokers(Where(broker=broker))
        if writable:
            header = AddWritePermHeader(broker_name=broker)
            replies = await self._access.ask_all_name_servers(RequestCode.ADD_WRITE_PERM_OF_BROKER, header)
            counts = {name: reply.header(AddWritePermReplyHeader).add_topic_count for name, reply in replies.items()}
        else:
            wipe = WipeWritePermHeader(broker_name=broker)
            replies = await self._access.ask_all_name_servers(RequestCode.WIPE_WRITE_PERM_OF_BROKER, wipe)
            counts = {name: reply.header(WipeWritePermReplyHeader).wipe_topic_count for name, reply in replies.items()}
        return [
            WritePerm(name_server=address, broker=broker, writable=writable, topics=count)
            for address, count in counts.items()
        ]
