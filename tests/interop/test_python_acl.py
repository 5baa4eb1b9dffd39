"""Our client's signatures are accepted by Apache's brokers of both lines, and a wrong secret is a clear error."""

import asyncio
import json
import queue
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import hanabi
from hanabi.client.cluster.core import Core
from hanabi.errors import NoPermission, SendFailed
from hanabi.remoting.loop import run
from hanabi.wire.headers.query import QueryMessageHeader
from hanabi.wire.message.record import decode_records
from tests.cli.admin_commands import run as run_command
from tests.cli.commands import refused
from tests.interop.apache import ApacheBroker
from tests.interop.jars import ALL_5, SERVERS_4
from tests.interop.ours import OurNameServer
from tests.interop.sites import CLUSTER

RIGHT = hanabi.Credentials("rocketmq2", "12345678")
WRONG = hanabi.Credentials("rocketmq2", "87654321")
STRANGER = hanabi.Credentials("stranger1", "12345678")

PLAIN_ACL = """
accounts:
- accessKey: rocketmq2
  secretKey: 12345678
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: DENY
  topicPerms:
  - Allowed=PUB|SUB
  groupPerms:
  - readers=SUB
"""


class Guarded:
    """A broker of Apache's that checks who asks."""

    def __init__(self, jar_set: str, namesrv: OurNameServer, home: Path) -> None:
        self.namesrv = namesrv
        self.name = f"guarded-{jar_set}"
        if jar_set == SERVERS_4:
            conf = home / "conf"
            conf.mkdir(parents=True)
            (conf / "plain_acl.yml").write_text(PLAIN_ACL)
            settings: dict[str, object] = {"aclEnable": "true"}
        else:
            provider = "org.apache.rocketmq.auth.authentication.provider"
            settings = {
                "authenticationEnabled": "true",
                "authenticationProvider": f"{provider}.DefaultAuthenticationProvider",
                "authenticationMetadataProvider": f"{provider}.LocalAuthenticationMetadataProvider",
                "initAuthenticationUser": '{"username":"rocketmq2","password":"12345678"}',
                "innerClientAuthenticationCredentials": '{"accessKey":"rocketmq2","secretKey":"12345678"}',
            }
        self.broker = ApacheBroker(
            home, jar_set, name=self.name, cluster=CLUSTER, namesrv=namesrv.address, settings=settings
        )


@pytest.fixture(scope="module", params=[SERVERS_4, ALL_5])
def guarded(
    request: pytest.FixtureRequest, apache_jars: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Guarded]:
    home = tmp_path_factory.mktemp(f"acl-{request.param}")
    with ExitStack() as stack:
        namesrv = OurNameServer(home / "namesrv")
        stack.callback(namesrv.process.kill)
        namesrv.wait_ready()
        site = Guarded(request.param, namesrv, home / "broker")
        stack.callback(site.broker.process.kill)
        site.broker.wait_ready()
        yield site


def test_the_right_secret_sends_consumes_and_queries(guarded: Guarded) -> None:
    with hanabi.Producer("senders", namesrv=guarded.namesrv.address, access=RIGHT) as producer:
        sent = producer.send(hanabi.Message("Allowed", "größe".encode(), keys=["schlüssel"], tags="t"))
        assert sent.status is hanabi.SendStatus.SEND_OK
        producer.send_batch([hanabi.Message("Allowed", b"one"), hanabi.Message("Allowed", b"two")])
        producer.send_oneway(hanabi.Message("Allowed", b"three"))

    async def look() -> list[bytes]:
        core = await Core.acquire(producer.config)
        try:
            address = (await core.routes.find("Allowed")).master_of(guarded.name)
            assert address is not None
            header = QueryMessageHeader(
                topic="Allowed",
                key=sent.message_id,
                max_num=9,
                begin_timestamp=0,
                end_timestamp=2**62,
                by_unique_key=True,
            )
            async with asyncio.timeout(60):
                while not (found := await core.api.query_message(address, header)):  # noqa: ASYNC110 - indexed later
                    await asyncio.sleep(0.05)
            return [record.body for record in decode_records(found)]
        finally:
            await core.release()

    assert run(look()) == ["größe".encode()]

    consumer = hanabi.PushConsumer("readers", config=producer.config, consume_from="first")
    consumer.subscribe("Allowed", "t")
    got: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    @consumer.listener
    def listen(messages: list[hanabi.StoredMessage]) -> None:
        for message in messages:
            got.put(message.body)

    with consumer:
        assert got.get(timeout=60) == "größe".encode()


def test_a_wrong_secret_is_an_error_that_names_the_access_key_and_the_broker(guarded: Guarded) -> None:
    with (
        hanabi.Producer("senders", namesrv=guarded.namesrv.address, access=WRONG, retries=0) as producer,
        pytest.raises((SendFailed, NoPermission)) as caught,
    ):
        producer.send(hanabi.Message("Allowed", b"x"))
    text = str(caught.value)
    assert "rocketmq2" in text
    assert guarded.name in text
    assert guarded.broker.address in text
    assert "87654321" not in text


@pytest.mark.parametrize("access", [WRONG, STRANGER, None], ids=["wrong secret", "stranger", "not signed"])
def test_a_consumer_that_is_refused_says_so_at_its_start(guarded: Guarded, access: hanabi.Credentials | None) -> None:
    with hanabi.Producer("senders", namesrv=guarded.namesrv.address, access=RIGHT) as producer:
        producer.send(hanabi.Message("Allowed", b"x"))  # the topic is there
    consumer = hanabi.PushConsumer("readers", namesrv=guarded.namesrv.address, access=access)
    consumer.subscribe("Allowed")

    @consumer.listener
    def listen(messages: list[hanabi.StoredMessage]) -> None: ...

    with pytest.raises(NoPermission) as caught:
        consumer.start()
    assert guarded.name in str(caught.value)
    assert ("Credentials" if access is None else access.access_key) in str(caught.value)


def test_a_topic_that_is_not_allowed_is_an_error_that_names_it(guarded: Guarded) -> None:
    message = hanabi.Message("Forbidden", b"x")
    with hanabi.Producer("senders", namesrv=guarded.namesrv.address, access=RIGHT, retries=0) as producer:
        if guarded.name.endswith(ALL_5):  # there we switched on who may ask, not what for
            assert producer.send(message).status is hanabi.SendStatus.SEND_OK
        else:
            with pytest.raises((SendFailed, NoPermission), match="Forbidden"):
                producer.send(message)


def test_an_administrator_without_rights_is_told_so_in_one_sentence(guarded: Guarded) -> None:
    cluster = ("-n", guarded.namesrv.address)
    assert guarded.name in refused(run_command("topic", "create", "New", *cluster), 1)
    told = run_command("doctor", "--interval", "0", "--json", *cluster)
    assert (told.returncode, told.stderr) == (1, "")
    findings = json.loads(told.stdout)["findings"]
    assert ("broker-refuses", guarded.name) in {(each["rule"], each["subject"]) for each in findings}
