"""Identity and rights of ACL 1.0, in Apache's order and with Apache's sentences."""

from ipaddress import ip_address

import pytest

from hanabi.access.needs import Action, Kind, Need
from hanabi.access.plain.account import Account, Rules
from hanabi.access.plain.decision import identify, refusal
from hanabi.access.plain.document import read_document
from hanabi.access.plain.white_list import WhiteList
from hanabi.errors import NoPermission
from hanabi.wire.codes import RequestCode
from hanabi.wire.signature import SIGNATURE, signature

SEND = RequestCode.SEND_MESSAGE_V2
LOCAL, REMOTE = ip_address("127.0.0.1"), ip_address("10.1.2.3")

FILE = b"""
globalWhiteRemoteAddresses:
- 10.9.9.*
accounts:
- accessKey: orders-app
  secretKey: secret-of-orders
  previousSecretKey: older-secret
  whiteRemoteAddress: 10.8.8.8
  defaultTopicPerm: SUB
  defaultGroupPerm: DENY
  topicPerms:
  - orders=PUB|SUB
  - audit=DENY
  groupPerms:
  - readers=SUB
- accessKey: operator
  secretKey: secret-of-operator
  admin: true
- accessKey: limited-admin
  secretKey: secret-of-limited
  admin: true
  topicPerms:
  - orders=SUB
- accessKey: rocketmq2
  secretKey: 12345678
"""


@pytest.fixture
def rules() -> Rules:
    document, _ = read_document(FILE, "plain_acl.yml")
    return Rules({each.access_key: each for each in document.accounts}, WhiteList(document.white_list))


def signed(access_key: str, secret: str) -> dict[str, str]:
    fields = {"AccessKey": access_key, "b": "orders"}
    return {**fields, SIGNATURE: signature(fields, b"", secret)}


def refused(rules: Rules, address: str, fields: dict[str, str]) -> str:
    with pytest.raises(NoPermission) as caught:
        identify(rules, ip_address(address), SEND, fields, b"")
    return str(caught.value)


def test_an_address_of_the_global_list_needs_no_account(rules: Rules) -> None:
    assert identify(rules, ip_address("10.9.9.1"), SEND, {}, b"") is None


def test_an_address_of_the_account_needs_its_key_and_no_signature(rules: Rules) -> None:
    address = ip_address("10.8.8.8")
    assert identify(rules, address, SEND, {"AccessKey": "orders-app"}, b"") is None
    with pytest.raises(NoPermission):
        identify(rules, address, SEND, {"AccessKey": "operator"}, b"")


@pytest.mark.parametrize("secret", ["secret-of-orders", "older-secret"])
def test_a_right_signature_is_its_account(rules: Rules, secret: str) -> None:
    account = identify(rules, REMOTE, SEND, signed("orders-app", secret), b"")
    assert account is not None
    assert account.access_key == "orders-app"


def test_refusals_of_an_identity_have_the_sentences_of_apache(rules: Rules) -> None:
    assert refused(rules, "10.1.2.3", {}) == "No accessKey is configured"
    assert refused(rules, "10.1.2.3", signed("stranger", "secret")) == "No acl config for stranger"
    wrong = refused(rules, "10.1.2.3", signed("orders-app", "wrong-secret"))
    assert wrong == "Check signature failed for accessKey=orders-app"
    assert refused(rules, "10.1.2.3", {"AccessKey": "orders-app"}) == wrong


def test_a_published_secret_is_valid_on_this_machine_only(rules: Rules) -> None:
    assert identify(rules, LOCAL, SEND, signed("rocketmq2", "12345678"), b"") is not None
    assert "change it" in refused(rules, "10.1.2.3", signed("rocketmq2", "12345678"))


def test_a_long_access_key_is_cut_in_the_sentence(rules: Rules) -> None:
    assert len(refused(rules, "10.1.2.3", {"AccessKey": "x" * 100_000})) < 200


def topic(name: str, actions: Action) -> Need:
    return Need(Kind.TOPIC, name, actions)


@pytest.mark.parametrize(
    ("need", "reason"),
    [
        (topic("orders", Action.PUB), None),
        (topic("orders", Action.SUB), None),
        (topic("other", Action.SUB), None),
        (topic("other", Action.PUB), "No default permission for topic:other"),
        (topic("other", Action.PUB | Action.SUB), None),
        (topic("audit", Action.SUB), "No default permission for topic:audit"),
        (topic("audit", Action.PUB | Action.SUB), "No default permission for topic:audit"),
        (topic("RMQ_SYS_TRACE_TOPIC", Action.PUB), None),
        (topic("RMQ_SYS_TRANS_HALF_TOPIC", Action.SUB), "No default permission for topic:RMQ_SYS_TRANS_HALF_TOPIC"),
        (topic("SCHEDULE_TOPIC_XXXX", Action.SUB), "No default permission for topic:SCHEDULE_TOPIC_XXXX"),
        (topic("%DLQ%readers", Action.SUB), None),
        (Need(Kind.GROUP, "readers", Action.SUB), None),
        (Need(Kind.GROUP, "others", Action.SUB), "No default permission for group:others"),
        (
            Need(Kind.CLUSTER, "c", Action.UPDATE),
            f"Need admin permission for request code={int(SEND)}, but accessKey=orders-app is not",
        ),
    ],
)
def test_an_account_has_its_explicit_rights_and_else_its_defaults(rules: Rules, need: Need, reason: str | None) -> None:
    assert refusal(rules.accounts["orders-app"], SEND, [need]) == reason


def test_the_trace_topic_excuses_no_other_resource(rules: Rules) -> None:
    needs = [topic("RMQ_SYS_TRACE_TOPIC", Action.PUB), topic("other", Action.PUB)]
    assert refusal(rules.accounts["orders-app"], SEND, needs) == "No default permission for topic:other"


def test_an_administrator_without_lists_may_do_everything(rules: Rules) -> None:
    needs = [Need(Kind.CLUSTER, "c", Action.UPDATE), topic("any", Action.PUB), Need(Kind.GROUP, "g", Action.SUB)]
    assert refusal(rules.accounts["operator"], SEND, needs) is None


def test_an_administrator_with_lists_has_the_rights_in_them(rules: Rules) -> None:
    account = rules.accounts["limited-admin"]
    assert refusal(account, SEND, [Need(Kind.CLUSTER, "c", Action.UPDATE), topic("orders", Action.SUB)]) is None
    assert refusal(account, SEND, [topic("any", Action.SUB)]) == "No default permission for topic:any"


def test_an_account_does_not_show_its_secrets(rules: Rules) -> None:
    account = rules.accounts["orders-app"]
    assert isinstance(account, Account)
    assert "secret" not in repr(account)
    assert "secret" not in str([account])
