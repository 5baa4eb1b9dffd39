"""ali-ons, the Node client from npm, sends to our broker and receives from it."""

import json
import os
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

import hanabi
from hanabi.wire.codes import RequestCode
from tests.interop.jars import JavaUnavailable, node_modules, required
from tests.interop.ours import OurBroker, OurNameServer
from tests.interop.probe import ask, routes_to

DRIVER = Path(__file__).parent / "node" / "send_and_receive.js"
COUNT = 20


@pytest.fixture(scope="module")
def modules() -> Path:
    try:
        return node_modules()
    except JavaUnavailable as error:
        if required():
            pytest.fail(f"CI must run the Node client, but {error}", pytrace=False)
        pytest.skip(f"no Node client here: {error}")


def test_ali_ons_sends_and_receives_by_tag_and_by_sql(modules: Path, tmp_path: Path) -> None:
    name_server = OurNameServer(tmp_path / "namesrv")
    try:
        name_server.wait_ready()
        broker = OurBroker(tmp_path / "broker", name="broker-a", namesrv=name_server.address)
        try:
            broker.wait_ready()
            told = _send_and_receive(modules, name_server.address, broker)
        finally:
            broker.process.kill()
    finally:
        name_server.process.kill()
    assert [status for status, _ in told["sent"]] == ["SEND_OK"] * COUNT
    assert len({message_id for _, message_id in told["sent"]}) == COUNT
    for tag, first, got in (("even", 0, told["byTag"]), ("odd", 1, told["bySql"])):
        expected = [[f"message {number}", tag, f"key-{number}"] for number in range(first, COUNT, 2)]
        assert sorted(got) == sorted(expected)


def _send_and_receive(modules: Path, namesrv: str, broker: OurBroker) -> dict[str, list[list[str]]]:
    # This client makes no topics: it wants them to be there.
    made = ask(
        broker.address,
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        {
            "topic": "FromNode",
            "defaultTopic": "TBW102",
            "readQueueNums": "2",
            "writeQueueNums": "2",
            "perm": "6",
            "topicFilterType": "SINGLE_TAG",
        },
    )
    assert made.code == 0, made.remark
    assert routes_to(namesrv, "FromNode", broker.name)
    done = subprocess.run(
        ["node", str(DRIVER), namesrv, "FromNode", str(COUNT)],
        env={**os.environ, "NODE_PATH": str(modules)},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr + broker.process.output()
    told: dict[str, list[list[str]]] = json.loads(done.stdout)
    return told


RULES = """
accounts:
- accessKey: node-client
  secretKey: secret-of-node
  topicPerms: [Allowed=PUB|SUB]
  groupPerms: [node-readers=SUB]
- accessKey: operator1
  secretKey: secret-of-operator
  admin: true
"""


def test_ali_ons_is_allowed_and_refused_by_access_control(modules: Path, tmp_path: Path) -> None:
    home = tmp_path / "broker"
    home.mkdir()
    (home / "plain_acl.yml").write_text(RULES)
    with ExitStack() as stack:
        name_server = OurNameServer(tmp_path / "namesrv")
        stack.callback(name_server.process.kill)
        name_server.wait_ready()
        settings: dict[str, object] = {"aclEnable": "true", "wrongSignatureDelayMaxMillis": 0}
        broker = OurBroker(home, name="broker-a", namesrv=name_server.address, settings=settings)
        stack.callback(broker.process.kill)
        broker.wait_ready()
        operator = hanabi.Credentials("operator1", "secret-of-operator")
        with hanabi.Producer("makes_topics", namesrv=name_server.address, access=operator) as producer:
            for topic in ("Allowed", "Forbidden"):
                producer.send(hanabi.Message(topic, b"x"))
        for topic in ("Allowed", "Forbidden"):
            assert routes_to(name_server.address, topic, broker.name)
        script = Path(__file__).parent / "node" / "acl_cases.js"
        words = [name_server.address, "node-client", "secret-of-node", "Allowed", "Forbidden", "node-readers"]
        done = subprocess.run(
            ["node", str(script), *words],
            env={**os.environ, "NODE_PATH": str(modules)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr + broker.process.output()
        told = json.loads(done.stdout)
        assert (told["right"], told["consumed"]) == ("OK", "OK")
        for case in ("forbidden", "wrong", "stranger"):  # ali-ons tells no more
            assert told[case].startswith("Send [1] times, still failed"), case
        audit = home / "store" / "audit" / "audit.log"
        for reason in (
            "No default permission for topic:Forbidden",
            "Check signature failed for accessKey=node-client",
            "No acl config for stranger1",
        ):
            broker.process.wait_until(lambda reason=reason: reason in audit.read_text(), f"note {reason}")  # type: ignore[misc]
