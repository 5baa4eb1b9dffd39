"""With access control the fast path answers signed frames as the handlers behind their gates would, or declines."""

import random
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hanabi.access.guard import Watch, guarded
from hanabi.access.names import Surroundings
from hanabi.access.plain.files import PlainFiles
from hanabi.access.plain.gate import PlainGate
from hanabi.access.policies.directory import Directory, UserChange
from hanabi.access.policies.gate import PolicyGate
from hanabi.access.policies.model import User, UserStatus, UserType
from hanabi.access.policies.wording import read_acl
from hanabi.access.terms import TermsGate
from hanabi.broker.access_control import behind_gates
from hanabi.broker.fast_path._admission import Admission
from hanabi.broker.fast_path.building import build_fast_path, is_compiled
from hanabi.broker.fast_path.path import FastPath
from hanabi.remoting.connection.dispatch import Handler
from hanabi.wire.bodies.acl import AclInfo, PolicyEntryInfo, PolicyInfo
from hanabi.wire.codes import HeaderForm, RequestCode
from hanabi.wire.frame import encode_frame
from hanabi.wire.message.batch import BatchMessage, encode_batch
from hanabi.wire.signature import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE, signature
from tests.broker.fast_path import test_pulls as pulls
from tests.broker.fast_path import test_sends as sends
from tests.broker.reading import GROUP, TOPIC
from tests.broker.sending import TOPIC as SEND_TOPIC

pytestmark = pytest.mark.skipif(not is_compiled(), reason="there is no fast path without compiled functions")

SECRET, NEXT_SECRET = "secret-of-orders", "next-secret-of-orders" * 5  # the second is longer than a block
RULES = f"""
globalWhiteRemoteAddresses:
- 10.9.9.9
accounts:
- accessKey: orders-app
  secretKey: {SECRET}
  previousSecretKey: {NEXT_SECRET}
  topicPerms: [{SEND_TOPIC}=PUB|SUB]
  groupPerms: [{GROUP}=SUB]
- accessKey: reader-only
  secretKey: {SECRET}
  topicPerms: [{SEND_TOPIC}=SUB]
- accessKey: from-home
  secretKey: {SECRET}
  whiteRemoteAddress: 10.8.*.*
- accessKey: operator
  secretKey: {SECRET}
  admin: true
- accessKey: sample-account
  secretKey: 12345678
  defaultTopicPerm: PUB|SUB
  defaultGroupPerm: SUB
"""
ACCOUNTS = ["orders-app"] * 8 + ["reader-only", "from-home", "operator", "sample-account", "nobody", "", "disabled"]
PEERS = ["10.1.2.3:40000"] * 8 + ["10.9.9.9:1", "10.8.1.2:5", "127.0.0.1:7"]
CERTIFICATES = [()] * 8 + [("orders-app",), ("machine-1", "orders-app"), ("reader-only",), ("operator",), ("disabled",)]
AROUND = Surroundings("DefaultCluster", "DefaultCluster_REPLY_TOPIC", lambda _: None)


def plain_files(folder: Path) -> PlainFiles:
    folder.mkdir(parents=True)
    (folder / "plain_acl.yml").write_text(RULES)
    files = PlainFiles(folder, now_ms=lambda: 0)
    files.load()
    return files


def directory(folder: Path) -> Directory:
    folder.mkdir(parents=True)
    users = Directory(folder)
    users.create_user(User(username="orders-app", password=SECRET, previous_password=NEXT_SECRET))
    users.create_user(User(username="reader-only", password=SECRET))
    users.create_user(User(username="operator", password=SECRET, user_type=UserType.SUPER))
    users.create_user(User(username="disabled", password=SECRET, user_status=UserStatus.DISABLE))
    entry = PolicyEntryInfo(resource=f"Topic:{SEND_TOPIC}", actions=["Pub", "Sub"], decision="Allow")
    group = PolicyEntryInfo(resource="Group:*", actions=["Sub"], decision="Allow", source_ips=["10.0.0.0/8"])
    info = AclInfo(subject="User:orders-app", policies=[PolicyInfo(policy_type="Custom", entries=[entry, group])])
    users.merge_acl("orders-app", lambda _: read_acl(info))
    return users


class Model:
    """One model of access control, and a change of its rules after which `orders-app` may do nothing."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.gates: list[TermsGate] = []
        self.close: list[Callable[[], object]] = []
        if kind in ("plain", "both"):
            files = plain_files(folder / "plain")
            self.gates.append(PlainGate(files, AROUND, uses_certificates=True))
            self.close.append(lambda: files.delete_account("orders-app"))
        if kind in ("policies", "both"):
            users = directory(folder / "policies")
            self.gates.append(PolicyGate(users, AROUND, uses_certificates=True))
            self.close.append(lambda: users.update_user("orders-app", UserChange(user_status=UserStatus.DISABLE)))

    def guard(self, side: Any) -> None:
        self.refused = 0
        side.handlers = behind_gates(side.handlers, self.gates, Watch(self._count))
        side.fast_path = build_fast_path(side.handlers)

    def _count(self, *_: object) -> None:
        self.refused += 1


@pytest.fixture(params=["plain", "policies", "both"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Model:
    return Model(request.param, tmp_path / "rules")


def sign(chance: random.Random, fields: dict[str, str], body: bytes) -> dict[str, str]:
    """Return *fields* with a signature, which is right most of the time."""
    account = chance.choice(ACCOUNTS)
    if account:
        fields = fields | {ACCESS_KEY: account}
    if chance.random() < 0.1:
        fields = fields | {SECURITY_TOKEN: chance.choice(["token", "x" * 40])}
    secret = chance.choice([SECRET] * 8 + [NEXT_SECRET, "12345678", "wrong"])
    text = signature(fields, body, secret)
    fault = chance.random()
    if fault < 0.05:
        return fields
    if fault < 0.1:
        text = chance.choice(["", text[:-1], text + "=", text.lower(), "A" * 28, text.replace("=", "A")])
    fields = fields | {SIGNATURE: text}
    if fault > 0.95:
        name = chance.choice(list(fields))
        fields[name] = chance.choice([fields[name] + "x", fields[name][:-1], "0"])
    names = list(fields)
    chance.shuffle(names)
    return {name: fields[name] for name in names}


def a_send(chance: random.Random) -> bytes:
    fields = dict(sends.FIELDS)
    code = chance.choice([310, 310, 310, 320, 10])
    body = chance.randbytes(chance.choice([1, 20, 63, 64, 65, 1024]))
    if code == 320:
        fields |= {"m": "true", "i": "WAIT\x01true"}
        body = encode_batch([BatchMessage(0, body, b"UNIQ_KEY\x017F"), BatchMessage(1, b"y", b"")])
    if code == 10:
        names = ["producerGroup", "topic", "defaultTopic", "defaultTopicQueueNums", "queueId", "sysFlag"]
        fields = dict(zip([*names, "bornTimestamp", "flag", "properties"], fields.values(), strict=False))
    if chance.random() < 0.2:
        name = chance.choice(list(fields))
        fields[name] = chance.choice(["", "1", "7", SEND_TOPIC, "%RETRY%billing", "caf\u00e9", 'a"b\\c/', "\x01\x02"])
    request: dict[str, Any] = {"code": code, "opaque": chance.randrange(1 << 20), "flag": chance.choice([0] * 9 + [2])}
    request |= {"version": chance.choice([401, 413]), "form": chance.choice(list(HeaderForm)), "body": body}
    return sends.frame_of(request | {"fields": sign(chance, fields, body)})


def a_pull(chance: random.Random) -> bytes:
    fields = pulls.FIELDS | {"queueOffset": str(chance.randrange(pulls.MESSAGES + 2))}
    if chance.random() < 0.2:
        name = chance.choice([*fields, "bname", "requestSource"])
        fields[name] = chance.choice(["", "1", "TagA", GROUP, "others", "Elsewhere", "caf\u00e9", "0"])
    signed = sign(chance, fields, b"")
    form = chance.choice(list(HeaderForm))
    return pulls.frame_of(code=chance.choice([11, 11, 361]), fields=signed, form=form, version=401)


@pytest.mark.parametrize("seed", range(2))
def test_thousands_of_signed_sends_are_answered_and_stored_as_by_the_handlers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: Model, seed: int
) -> None:
    chance = random.Random(seed)
    both = sends.Side(tmp_path / "fast_path"), sends.Side(tmp_path / "handlers")
    for side in both:
        model.guard(side)
    taken, count = 0, 500
    for number in range(count):
        names = chance.choice(CERTIFICATES)
        monkeypatch.setattr(sends, "SENDER", SimpleNamespace(peer=chance.choice(PEERS), certificate_names=names))
        frames = [a_send(chance) for _ in range(chance.choice([1, 1, 1, 4]))]
        taken += sends.agree(both, *frames)
        if number == count - 50:
            for change in model.close:
                change()
    assert taken > count // 5  # of those that are not refused, which are fewer under two models
    assert model.refused > count // 5
    assert both[0].files() == both[1].files()


@pytest.mark.parametrize("seed", range(2))
def test_thousands_of_signed_pulls_are_answered_as_by_the_handlers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: Model, seed: int
) -> None:
    chance = random.Random(seed)
    both = pulls.Side(tmp_path / "fast_path"), pulls.Side(tmp_path / "handlers")
    for side in both:
        model.guard(side)
    taken, count = 0, 500
    for number in range(count):
        monkeypatch.setattr(
            pulls,
            "CONSUMER",
            SimpleNamespace(peer=chance.choice(PEERS), is_stalled=False, certificate_names=chance.choice(CERTIFICATES)),
        )
        frame = a_pull(chance)
        code = pulls.decoded_code(frame)
        taken += pulls.agree(both, frame, code)
        if number == count - 50:
            for change in model.close:
                change()
    assert taken > count // 5
    for side in both:
        side.reading.store.close()


def signed_send(body: bytes = b"x", secret: str = SECRET, **changed: str) -> bytes:
    fields = sends.FIELDS | {ACCESS_KEY: "orders-app"}
    fields |= {SIGNATURE: signature(fields, body, secret)} | changed
    request = {"code": 310, "opaque": 1, "flag": 0, "version": 401, "form": HeaderForm.JSON, "body": body}
    return sends.frame_of(request | {"fields": fields})


def guarded_side(tmp_path: Path) -> tuple[sends.Side, Model]:
    side, model = sends.Side(tmp_path / "store"), Model("plain", tmp_path / "rules")
    model.guard(side)
    side.answer(signed_send())  # makes the queue and the index file
    return side, model


def test_a_change_of_the_rules_is_in_force_with_the_next_read(tmp_path: Path) -> None:
    side, model = guarded_side(tmp_path)
    assert side.answer_fast(signed_send())[1] == 1
    model.close[0]()
    assert side.answer_fast(signed_send()) == (None, 0)
    assert b"No acl config for orders-app" in side.answer(signed_send())


def test_a_verdict_that_is_kept_excuses_no_signature(tmp_path: Path) -> None:
    side, _ = guarded_side(tmp_path)
    assert side.answer_fast(signed_send())[1] == 1
    for frame in (
        signed_send(secret=NEXT_SECRET[:-1]),
        signed_send(Signature="A" * 28),
        signed_send(e="0"),
        signed_send(b"x")[:-1] + b"y",  # another body
        sends.frame_of({"code": 310, "opaque": 1, "flag": 0, "version": 401, "form": 0, "body": b"x"} | unsigned()),
    ):
        assert side.answer_fast(frame) == (None, 0)
    assert side.answer_fast(signed_send())[1] == 1


def unsigned() -> dict[str, Any]:
    return {"fields": sends.FIELDS}


def test_a_field_that_comes_twice_is_for_the_handlers(tmp_path: Path) -> None:
    side, _ = guarded_side(tmp_path)
    frame = signed_send()
    twice = frame.replace(b'"k":"false"', b'"k":"false","k":"false"')
    size = int.from_bytes(frame[:4]) + len(twice) - len(frame)
    assert side.answer_fast(size.to_bytes(4) + twice[4:]) == (None, 0)
    assert side.answer_fast(frame)[1] == 1


@pytest.mark.parametrize("is_direct", [True, False])
def test_frames_without_a_valid_signature_leave_no_verdict(is_direct: bool) -> None:
    class Terms:
        def generation(self) -> object:
            return 0

        def origin(self, connection: Any) -> object:
            return connection.peer

        def meter(self, *_: object) -> None:
            return None

        def secrets(self, *_: object) -> tuple[bytes, ...]:
            return (SECRET.encode(),)

    admission = Admission(Terms(), is_direct)
    connection: Any = SimpleNamespace(peer="10.1.2.3:4", certificate_names=())

    def admits(group: str, secret: str) -> bool:
        fields = pulls.FIELDS | {ACCESS_KEY: "orders-app", "consumerGroup": group}
        frame = pulls.frame_of(fields=fields | {SIGNATURE: signature(fields, b"", secret)})
        return admission.admits_pull(encode_frame(frame), 0, connection, TOPIC, group)

    assert not any(admits(f"g{number}", "wrong") for number in range(100))
    assert admission.verdicts_kept == 0
    assert all(admits(f"g{number}", SECRET) for number in range(10_001))
    assert admission.verdicts_kept == 1  # 10,000 are the limit
    assert not admits("g" * 1_100, SECRET)  # longer than what is kept
    assert all(admits("g" * size, SECRET) for size in range(1, 900))


def test_a_guarded_handler_without_terms_has_no_fast_path(tmp_path: Path) -> None:
    side = sends.Side(tmp_path)
    handlers: dict[int, Handler] = guarded(side.handlers, [], Watch(lambda *_: None))
    assert build_fast_path(handlers) is None
    assert isinstance(build_fast_path(side.handlers), FastPath)
    assert RequestCode.SEND_MESSAGE_V2 in handlers


def test_a_port_that_is_used_again_has_the_identity_of_its_new_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    side, _ = guarded_side(tmp_path)
    frame = sends.frame_of({"code": 310, "opaque": 1, "flag": 0, "version": 401, "form": 0, "body": b"x"} | unsigned())
    taken = []
    for names in (("orders-app",), (), ("reader-only",), ("orders-app",)):
        monkeypatch.setattr(sends, "SENDER", SimpleNamespace(peer="10.1.2.3:40000", certificate_names=names))
        taken.append(side.answer_fast(frame)[1])
    assert taken == [1, 0, 0, 1]
