"""Accounts at the gRPC port: quotas, client certificates, and what a refusal tells."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hanabi.broker.broker import Broker
from hanabi.broker.config import BrokerConfig
from hanabi.grpc.proto.numbers import Code
from hanabi.grpc.serving.port import BrokerPort
from hanabi.grpc.serving.replies import prefixed
from hanabi.remoting.transport.tls import ClientAuth, TlsConfig, TlsMode
from hanabi.testing.cluster import small_store
from tests.broker.talk import Peer
from tests.broker.test_access_control import APP, SEND, asked, rules, send_to
from tests.broker.test_policy_access import INIT
from tests.grpc.peers import (
    GrpcPeer,
    Place,
    ack_request,
    grpc_broker,
    message,
    new,
    receive_request,
    send_request,
    signed,
)
from tests.remoting.certificates import Issued, issue

LIMITED = "orders-app"
OWN = signed(LIMITED, "secret-of-orders")
OPERATOR = signed("operator", "secret-of-operator")
SEVERAL = 50  # more than the tests' quotas of a second


@asynccontextmanager
async def limited(home: Path, quota: dict[str, int] | None = None, **settings: Any) -> AsyncIterator[Place]:
    """Run a broker where one account has this quota."""
    quotas = json.dumps({LIMITED: quota}) if quota else ""
    async with grpc_broker(
        home / "broker", acl_enabled=True, acl_folder=str(rules(home)), account_quotas=quotas, **settings
    ) as place:
        for topic in ("Orders", "Own"):
            await place.create_topic(topic, queues=1)
        yield place


def meter(place: Place) -> Any:
    assert place.broker.access_control is not None
    return place.broker.access_control.metering.meters[LIMITED]


async def sent(peer: GrpcPeer, topic: str = "Orders", body: bytes = b"x", by: dict[str, str] | None = OWN) -> Any:
    """Send a message; return the status."""
    return (await peer.call("SendMessage", send_request(message(topic, body)), by)).status


async def test_without_quotas_no_call_is_counted(tmp_path: Path) -> None:
    async with limited(tmp_path) as place:
        assert (await sent(place.peer)).code == Code.OK
        assert place.broker.access_control is not None
        assert place.broker.access_control.metering.meters == {}


async def test_calls_over_the_quota_are_first_read_late_and_those_of_other_accounts_are_not(tmp_path: Path) -> None:
    async with limited(tmp_path, {"requestsPerSecond": 10}) as place:
        other = await GrpcPeer.open(place.address)
        calls = 0
        async with asyncio.timeout(60):
            while not calls or meter(place).delayed["requestsPerSecond"] < 15:
                assert (await sent(place.peer)).code == Code.OK  # one after the other: each is read when it may be
                calls += 1
        for _ in range(SEVERAL):
            assert (await sent(other, "Own", by=OPERATOR)).code == Code.OK
        assert meter(place).requests == calls
        assert not meter(place).refused
        await other.close()


async def test_an_account_that_owes_more_than_a_second_gets_too_many_requests_on_each_connection(
    tmp_path: Path,
) -> None:
    async with limited(tmp_path, {"bytesInPerSecond": 100}) as place:
        assert (await sent(place.peer, body=bytes(1_000_000))).code == Code.OK  # owes hours from now on
        for peer in (place.peer, await GrpcPeer.open(place.address)):
            refused = await sent(peer)
            assert refused.code == Code.TOO_MANY_REQUESTS
            assert refused.message == f"account {LIMITED} is over its quota: bytesInPerSecond = 100 (accountQuotas)"
            assert (await sent(peer, "Own", by=OPERATOR)).code == Code.OK  # another account on the same connection
            (part,) = await peer.replies_to("ReceiveMessage", receive_request("Orders", "readers"), OWN)
            assert part.status.code == Code.TOO_MANY_REQUESTS
            if peer is not place.peer:
                await peer.close()
        remoting = await Peer.connect(place.broker.address)
        assert (await asked(remoting, SEND, send_to("Orders"), APP)).code == 2  # the account, not the port
        await remoting.close()
        assert meter(place).bytes_in > 1_000_000
    lines = [json.loads(line) for line in (tmp_path / "broker" / "audit" / "audit.log").read_text().splitlines()]
    assert [(line["account"], line["resources"], line["reason"]) for line in lines] == [
        (LIMITED, ["Topic:Orders"], f"account {LIMITED} is over its quota: bytesInPerSecond = 100 (accountQuotas)")
    ]


async def test_a_burst_on_one_connection_is_served_for_two_seconds_of_the_quota_and_then_refused(
    tmp_path: Path,
) -> None:
    async with limited(tmp_path, {"requestsPerSecond": 5}) as place:
        calls = [place.peer.call("SendMessage", send_request(message("Orders")), OWN) for _ in range(SEVERAL)]
        codes = [reply.status.code for reply in await asyncio.gather(*calls)]
        assert set(codes) == {Code.OK, Code.TOO_MANY_REQUESTS}
        assert codes.count(Code.OK) >= 10
        assert meter(place).requests == codes.count(Code.OK)


async def test_messages_that_an_account_receives_count_as_its_bytes_out(tmp_path: Path) -> None:
    async with limited(tmp_path, {"bytesOutPerSecond": 10}) as place:
        assert (await sent(place.peer, body=bytes(100_000), by=OPERATOR)).code == Code.OK
        parts = await place.peer.replies_to("ReceiveMessage", receive_request("Orders", "readers"), OWN)
        (found,) = [part.message for part in parts if part.HasField("message")]
        assert meter(place).bytes_out > 100_000
        request = ack_request("Orders", "readers", found.system_properties.receipt_handle)
        assert (await place.peer.call("AckMessage", request, OWN)).status.code == Code.TOO_MANY_REQUESTS


async def test_a_connection_over_the_number_is_refused_until_another_closes_whatever_the_protocol(
    tmp_path: Path,
) -> None:
    async with limited(tmp_path, {"connections": 1}) as place:
        remoting = await Peer.connect(place.broker.address)
        assert (await sent(place.peer)).code == Code.OK
        assert (await asked(remoting, SEND, send_to("Orders"), APP)).code == 2
        other = await GrpcPeer.open(place.address)
        assert (await sent(other)).code == Code.TOO_MANY_REQUESTS
        await place.peer.close()
        async with asyncio.timeout(60):
            while (await sent(other)).code != Code.OK:
                pass  # each answer is a turn of the loop
        for closing in (remoting, other):
            await closing.close()


async def test_a_call_creates_no_topic_so_the_number_of_topics_holds(tmp_path: Path) -> None:
    async with limited(tmp_path, {"topics": 0}) as place:
        assert (await sent(place.peer)).code == Code.OK
        assert (await sent(place.peer, "Secrets")).code == Code.TOPIC_NOT_FOUND  # it may send to it
        assert place.broker.tables.topics.newest("Secrets") is None


async def test_settings_in_the_stream_are_requests_too(tmp_path: Path) -> None:
    async with limited(tmp_path, {"requestsPerSecond": 1}) as place:
        settings = new("TelemetryCommand")
        settings.settings.publishing.topics.add(name="Orders")
        meters = place.broker.access_control.metering.meters  # type: ignore[union-attr]
        stream, reply = place.peer.start("Telemetry", "TelemetryCommand", OWN)
        place.peer.say(stream, prefixed(settings.SerializeToString()))
        assert (await reply.next()).status.code == Code.OK
        assert meters[LIMITED].requests == 1
        assert meters[LIMITED].bytes_in == settings.settings.ByteSize()


async def test_rights_are_told_to_the_account_alone(tmp_path: Path) -> None:
    """A caller without the secret learns neither which accounts there are nor what they may do."""
    async with limited(tmp_path) as place:
        for account in ("unknown-app", LIMITED):
            for topic in ("Orders", "Own"):
                refused = await sent(place.peer, topic, by=signed(account, "a-wrong-secret"))
                assert (refused.code, refused.message) == (Code.UNAUTHORIZED, f"the signature of {account} is wrong")
        refused = await sent(place.peer, "Own")
        assert (refused.code, refused.message) == (Code.UNAUTHORIZED, f"{LIMITED} has no right to this")


async def test_answers_to_unknown_accounts_wait_as_those_to_wrong_signatures(tmp_path: Path) -> None:
    async with limited(tmp_path, guess_delay_ms=60_000) as place:
        for number in range(10):
            await sent(place.peer, by=signed(f"guess-{number}", "a-wrong-secret"))
        guesses = place.broker.access_control.guesses  # type: ignore[union-attr]
        assert guesses is not None
        assert guesses.failed("127.0.0.1", None) > 0


class Certified:
    """A broker whose gRPC port asks for client certificates, and connections with each of these."""

    def __init__(self, home: Path) -> None:
        self.folder = home
        self.authority = issue(home, "authority")
        self.server = issue(home, "server", self.authority)
        self.address = ("", 0)
        self.peers: list[GrpcPeer] = []

    def tls(self) -> TlsConfig:
        return TlsConfig(
            server_mode=TlsMode.ENFORCING,
            server_need_client_auth=ClientAuth.OPTIONAL,
            server_cert_path=str(self.server.certificate_path),
            server_key_path=str(self.server.key_path),
            server_trust_cert_path=str(self.authority.certificate_path),
        )

    async def peer(self, name: str | None, by: Issued | None = None) -> GrpcPeer:
        """Connect, with a certificate of this name."""
        context = ssl.create_default_context(cafile=str(self.authority.certificate_path))
        context.set_alpn_protocols(["h2"])
        if name is not None:
            own = issue(self.folder, name, by or self.authority)
            context.load_cert_chain(own.certificate_path, own.key_path)
        self.peers.append(await GrpcPeer.open(self.address, tls=context))
        return self.peers[-1]


@asynccontextmanager
async def certified(home: Path, **settings: Any) -> AsyncIterator[Certified]:
    site = Certified(home)
    async with Broker(BrokerConfig(broker_name="broker-a", **settings), small_store(home / "broker")) as broker:
        await broker.start("127.0.0.1", 0)
        port = BrokerPort(broker, tls=site.tls())
        site.address = await port.start("127.0.0.1", 0)
        for topic in ("Orders", "Own"):
            await Place(broker, port, site.address, None).create_topic(topic, queues=1)  # type: ignore[arg-type]
        try:
            yield site
        finally:
            for peer in site.peers:
                await peer.close()
            await port.stop()


def by_accounts(home: Path) -> dict[str, Any]:
    return {"acl_enabled": True, "acl_folder": str(rules(home)), "certificate_accounts": True}


async def test_a_certificate_names_the_account_of_a_call_and_must_agree_with_the_signature(tmp_path: Path) -> None:
    quotas = json.dumps({LIMITED: {"requestsPerSecond": 1_000}})
    async with certified(tmp_path, account_quotas=quotas, **by_accounts(tmp_path)) as site:
        app = await site.peer(LIMITED)
        assert (await sent(app, by=None)).code == Code.OK
        refused = await sent(app, "Own", by=None)
        assert (refused.code, refused.message) == (Code.UNAUTHORIZED, f"{LIMITED} has no right to this")
        assert (await sent(app)).code == Code.OK  # signed, too
        refused = await sent(app, "Own", by=signed("attacker", "secret-of-attacker"))  # its own topic, rightly signed
        assert refused.code == Code.UNAUTHORIZED
        assert refused.message == f"the client certificate is of account {LIMITED}, the request of attacker"
        wrong = await sent(app, by=signed(LIMITED, "a-wrong-secret"))
        assert (wrong.code, wrong.message) == (Code.UNAUTHORIZED, f"the signature of {LIMITED} is wrong")
    lines = [json.loads(line) for line in (tmp_path / "broker" / "audit" / "audit.log").read_text().splitlines()]
    assert [(line["certificate"][0], line.get("account")) for line in lines] == [
        (LIMITED, None),
        (LIMITED, "attacker"),
        (LIMITED, LIMITED),
    ]


async def test_without_a_certificate_of_an_account_the_signature_of_a_call_counts(tmp_path: Path) -> None:
    async with certified(tmp_path, **by_accounts(tmp_path)) as site:
        for name in (None, "machine-7"):
            peer = await site.peer(name)
            assert (await sent(peer, by=None)).code == Code.UNAUTHORIZED
            assert (await sent(peer)).code == Code.OK


async def test_a_certificate_is_no_identity_of_a_call_unless_the_key_says_so(tmp_path: Path) -> None:
    settings = by_accounts(tmp_path) | {"certificate_accounts": False}
    async with certified(tmp_path, **settings) as site:
        assert (await sent(await site.peer("operator"), by=None)).code == Code.UNAUTHORIZED


async def test_a_certificate_of_another_authority_makes_no_call(tmp_path: Path) -> None:
    async with certified(tmp_path, **by_accounts(tmp_path)) as site:
        other = issue(tmp_path, "another-authority")
        with pytest.raises((OSError, KeyError)):  # noqa: PT012 - refused at the handshake or at the first read
            peer = await site.peer("operator", other)
            await sent(peer, by=None)


async def test_users_of_5_are_named_by_certificates_of_calls_too(tmp_path: Path) -> None:
    users = {"authentication_enabled": True, "authorization_enabled": True, "init_user": INIT}
    async with certified(tmp_path, certificate_accounts=True, **users) as site:
        assert (await sent(await site.peer("operator"), by=None)).code == Code.OK
        refused = await sent(await site.peer("operator"), by=signed("stranger", "a-wrong-secret"))
        assert refused.code == Code.UNAUTHORIZED
