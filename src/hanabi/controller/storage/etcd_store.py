"""States in etcd, and leadership by a lease: two controllers can never both write.

    PREFIX/created        the identity of this state: another one means that etcd was wiped or exchanged
    PREFIX/leader         the leader, as JSON; gone when its lease expires
    PREFIX/members/ID     every controller, as JSON, with its lease
    PREFIX/state/NAME     the state of one broker name, as JSON

Every change is a transaction on the revision of its key, on the leader's key and on the identity. A controller that
was paused past its lease finds another leader there, and changes nothing.
"""

import asyncio
import base64
import logging
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from hanabi.controller.rules.state import BrokerSet
from hanabi.controller.storage.etcd_client import EtcdClient, encoded
from hanabi.controller.storage.store import Member, Stored
from hanabi.durable_table import DurableTable
from hanabi.errors import ConfigError, ControllerNotLeader, StateUnavailable

LEASE_SECONDS: Final = 5
ROUNDS: Final = 4  # keepalives in the time of a lease
IDENTITY_FILE: Final = "etcd-identity"

logger = logging.getLogger(__name__)

_states = msgspec.json.Decoder(BrokerSet)


class EtcdStore:
    """States below one prefix of etcd. *folder* keeps the identity of the state that this controller has seen."""

    def __init__(
        self,
        client: EtcdClient,
        folder: Path,
        *,
        prefix: str = "/hanabi/controller",
        lease_seconds: int = LEASE_SECONDS,
    ) -> None:
        self._client, self._prefix, self._lease_seconds = client, prefix, lease_seconds
        self._file: DurableTable[str] = DurableTable(folder / IDENTITY_FILE, encode=str.encode, decode=bytes.decode)
        self._identity = ""
        self._self = b""
        self._lease = 0
        self._leader: Member | None = None
        self._members: list[Member] = []
        self._leads_until = 0.0
        self._keeping: asyncio.Task[None] | None = None

    async def open(self, address: str) -> None:
        """Find the state, or begin it, and stand for leadership."""
        self._self = msgspec.json.encode(Member(uuid.uuid4().hex[:8], address))
        self._identity = await self._found_identity()
        await self._round()
        self._keeping = asyncio.create_task(self._keep())

    async def close(self) -> None:
        """Give the lease back, so that the next leader need not wait for its end."""
        if self._keeping is not None:
            self._keeping.cancel()
            with suppress(asyncio.CancelledError):
                await self._keeping
            self._keeping = None
        self._leads_until = 0.0
        if self._lease:
            with suppress(StateUnavailable):  # then it expires
                await self._client.call("/v3/lease/revoke", {"ID": str(self._lease)})
            self._lease = 0

    @property
    def leads(self) -> bool:
        """Return True while our lease is certainly alive."""
        return time.monotonic() < self._leads_until

    @property
    def leader(self) -> Member | None:
        """Return the leader of the last round."""
        return self._leader

    @property
    def members(self) -> list[Member]:
        """Return the controllers of the last round."""
        return self._members

    @property
    def failures(self) -> int:
        """Return how often no member of etcd answered."""
        return self._client.failures

    # ---- states ------------------------------------------------------------------------------------------------------

    async def read(self, name: str) -> Stored | None:
        """Return the present state of a broker name."""
        found = await self._range(self._key("state", name))
        return _stored(found[0]) if found else None

    async def read_all(self) -> list[Stored]:
        """Return the present states of all broker names."""
        return [_stored(each) for each in await self._range(self._key("state", ""), is_prefix=True)]

    async def write(self, name: str, revision: int, state: BrokerSet | None) -> bool:
        """Change the state at *revision*, if we lead."""
        key = self._key("state", name)
        if state is None:
            change: dict[str, Any] = {"request_delete_range": {"key": encoded(key)}}
        else:
            change = {"request_put": {"key": encoded(key), "value": encoded(msgspec.json.encode(state))}}
        compare = [
            {"key": encoded(key), "target": "MOD", "result": "EQUAL", "mod_revision": str(revision)},
            *self._still_leading(),
        ]
        look = [{"request_range": {"key": encoded(self._key("leader"))}}]
        transaction = {"compare": compare, "success": [change], "failure": look}
        answer = await self._client.call("/v3/kv/txn", transaction, once=True)
        if answer.get("succeeded"):
            return True
        leader = _values(answer["responses"][0]["response_range"])
        if leader != [self._self]:
            self._leads_until = 0.0
            raise ControllerNotLeader("The controller is not in leader state: its lease has expired, nothing changed")
        return False

    def _still_leading(self) -> list[dict[str, Any]]:
        expected = {self._key("leader"): self._self, self._key("created"): self._identity.encode()}
        return [
            {"key": encoded(key), "target": "VALUE", "result": "EQUAL", "value": encoded(value)}
            for key, value in expected.items()
        ]

    # ---- leadership --------------------------------------------------------------------------------------------------

    async def _keep(self) -> None:
        """Renew the lease and look for the leader, until cancelled."""
        is_well = True
        while True:
            await asyncio.sleep(self._lease_seconds / ROUNDS)
            try:
                await self._round()
            except StateUnavailable as error:
                if is_well:
                    logger.error("no elections until etcd answers again: %s", error)
                is_well = False
            else:
                is_well = True

    async def _round(self) -> None:
        began = time.monotonic()
        await self._renew()
        answer = await self._client.call("/v3/kv/txn", self._campaign())
        responses = answer["responses"]
        self._check_identity(_values(responses[1]["response_range"]))
        leader = [self._self] if answer.get("succeeded") else _values(responses[0]["response_range"])
        self._members = [_member(value) for value in _values(responses[2]["response_range"])]
        if leader == [self._self]:
            if not self.leads:
                logger.info("this controller leads")
            self._leads_until = began + self._lease_seconds
        else:
            self._leads_until = 0.0
        self._leader = _member(leader[0]) if leader else None

    async def _renew(self) -> None:
        if self._lease:
            answer = await self._client.call("/v3/lease/keepalive", {"ID": str(self._lease)})
            if int(answer.get("result", {}).get("TTL", 0)) > 0:
                return
            logger.warning("the lease in etcd has expired: this controller was paused, or etcd was away")
        answer = await self._client.call("/v3/lease/grant", {"TTL": str(self._lease_seconds)})
        self._lease = int(answer["ID"])
        member = {"key": encoded(self._key("members", _member(self._self).member_id)), "value": encoded(self._self)}
        await self._client.call("/v3/kv/put", {**member, "lease": str(self._lease)})

    def _campaign(self) -> dict[str, Any]:
        """Become leader if there is none; else read the leader. Read identity and members in any case."""
        leader = encoded(self._key("leader"))
        members = self._key("members", "")
        look = [
            {"request_range": {"key": encoded(self._key("created"))}},
            {"request_range": {"key": encoded(members), "range_end": encoded(_end(members))}},
        ]
        put = {"request_put": {"key": leader, "value": encoded(self._self), "lease": str(self._lease)}}
        created = {
            "key": encoded(self._key("created")),
            "target": "VALUE",
            "result": "EQUAL",
            "value": encoded(self._identity),
        }
        return {
            "compare": [{"key": leader, "target": "CREATE", "result": "EQUAL", "create_revision": "0"}, created],
            "success": [put, *look],
            "failure": [{"request_range": {"key": leader}}, *look],
        }

    # ---- identity ----------------------------------------------------------------------------------------------------

    async def _found_identity(self) -> str:
        """Return the identity of the state in etcd; a new one if neither etcd nor this home knows any."""
        known = self._file.load()
        key = self._key("created")
        if known is None:
            absent = {"key": encoded(key), "target": "CREATE", "result": "EQUAL", "create_revision": "0"}
            new = {"request_put": {"key": encoded(key), "value": encoded(uuid.uuid4().hex)}}
            await self._client.call("/v3/kv/txn", {"compare": [absent], "success": [new]})
        found = [base64.b64decode(each["value"]).decode() for each in await self._range(key)]
        if known is not None and found != [known]:
            raise ConfigError(self._wiped())
        self._file.save(found[0])
        return found[0]

    def _check_identity(self, found: list[bytes]) -> None:
        if found != [self._identity.encode()]:
            self._leads_until = 0.0
            raise StateUnavailable(self._wiped())

    def _wiped(self) -> str:
        return (
            f"etcd has lost the state of this controller below {self._prefix}, or it is another etcd: restore its data;"
            f" to begin again with new brokers, delete {self._file.path}"
        )

    # ---- etcd --------------------------------------------------------------------------------------------------------

    def _key(self, *parts: str) -> str:
        return "/".join((self._prefix, *parts))

    async def _range(self, key: str, *, is_prefix: bool = False) -> list[dict[str, Any]]:
        body = {"key": encoded(key), **({"range_end": encoded(_end(key))} if is_prefix else {})}
        answer = await self._client.call("/v3/kv/range", body)
        found: list[dict[str, Any]] = answer.get("kvs", [])
        return found


def _end(prefix: str) -> str:
    """Return the first key behind all keys with *prefix*, which ends with a slash."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


def _values(answer: dict[str, Any]) -> list[bytes]:
    return [base64.b64decode(each["value"]) for each in answer.get("kvs", [])]


def _stored(found: dict[str, Any]) -> Stored:
    try:
        return Stored(_states.decode(base64.b64decode(found["value"])), int(found["mod_revision"]))
    except msgspec.MsgspecError as error:
        key = base64.b64decode(found["key"]).decode(errors="replace")
        raise StateUnavailable(f"the value of {key} in etcd is not a state of this controller: {error}") from error


def _member(value: bytes) -> Member:
    return msgspec.json.decode(value, type=Member)
