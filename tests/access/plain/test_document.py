"""Files of ACL 1.0: Apache's sample, YAML's surprises, and clear errors for everything that is wrong."""

import contextlib
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanabi.access.needs import Action
from hanabi.access.plain.document import Document, document_of, read_document
from hanabi.errors import ConfigError

SAMPLE = b"""
globalWhiteRemoteAddresses:
  - 10.10.103.*
  - 192.168.0.*

accounts:
  - accessKey: RocketMQ
    secretKey: 12345678
    whiteRemoteAddress:
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms:
      - topicA=DENY
      - topicB=PUB|SUB
      - topicC=SUB
    groupPerms:
      # a comment
      - groupA=DENY

  - accessKey: rocketmq2
    secretKey: 12345678
    whiteRemoteAddress: 192.168.1.*
    admin: true
"""


def read(text: str) -> Document:
    return read_document(text.encode(), "plain_acl.yml")[0]


def test_the_sample_file_of_apache_is_read() -> None:
    document, _ = read_document(SAMPLE, "plain_acl.yml")
    first, second = document.accounts
    assert document.white_list == ("10.10.103.*", "192.168.0.*")
    assert (first.access_key, first.secrets, first.is_sample) == ("RocketMQ", (b"12345678",), True)
    assert (first.default_topic, first.default_group) == (Action.NONE, Action.SUB)
    assert first.topics == {"topicA": Action.NONE, "topicB": Action.PUB | Action.SUB, "topicC": Action.SUB}
    assert first.groups == {"groupA": Action.NONE}
    assert second.is_unlimited
    assert second.white_list.patterns == ("192.168.1.*",)


@pytest.mark.parametrize(
    "secret", ["12345678", "0x12345678", "1_000_000", "012345678", "1e100000", "20260101", "falsehood"]
)
def test_an_unquoted_scalar_counts_as_its_text(secret: str) -> None:
    (account,) = read(f"accounts:\n- accessKey: account\n  secretKey: {secret}").accounts
    assert account.secrets == (secret.encode(),)


@pytest.mark.parametrize(
    ("text", "is_admin"), [("true", True), ("True", True), ("yes", True), ("no", False), ("", False)]
)
def test_truth_has_the_words_of_yaml(text: str, is_admin: bool) -> None:
    (account,) = read(f"accounts:\n- accessKey: account\n  secretKey: secret-1\n  admin: {text}").accounts
    assert account.is_admin is is_admin


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "accounts:\n", "accounts: []", "{}", "null"])
def test_a_file_without_data_is_empty(text: str) -> None:
    assert read(text) == Document()


def test_a_secret_comes_from_the_environment_or_from_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("secret") / "secret"
    path.write_text("secret-of-file\n")
    monkeypatch.setenv("ORDERS_SECRET", "secret-of-environment")
    (account,) = read(
        f"accounts:\n- accessKey: account\n  secretKey: ${{ORDERS_SECRET}}\n  previousSecretKey: ${{file:{path}}}"
    ).accounts
    assert account.secrets == (b"secret-of-environment", b"secret-of-file")


def test_an_unknown_permission_is_reported_and_denies(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        (account,) = read(
            "accounts:\n- accessKey: account\n  secretKey: secret-1\n  topicPerms: [orders=PUBLISH]"
        ).accounts
    assert account.topics == {"orders": Action.NONE}
    assert "account account, topicPerms orders" in caplog.text
    assert "DENY" in caplog.text


ACCOUNT = "accounts:\n- accessKey: account\n  secretKey: "


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("accounts: [", "line 2"),
        ("accounts:\n\t- x", "line 2"),
        ("- a\n- b", "must have keys"),
        ("just text", "must have keys"),
        ("accounts: text", "accounts must be a list"),
        ("accounts:\n- text", "must have keys such as accessKey"),
        ("accounts:\n- secretKey: secret-1", "shorter than 7"),
        ("accounts:\n- accessKey: short\n  secretKey: secret-1", "'short' is shorter than 7"),
        (ACCOUNT, "secretKey is missing or shorter"),
        (ACCOUNT + "123456", "secretKey is missing or shorter"),
        (ACCOUNT + "[a]", "secretKey must be a text, not a list"),
        (ACCOUNT + "${NOT_SET_ANYWHERE}", "NOT_SET_ANYWHERE"),
        (ACCOUNT + "${file:/nonexistent/secret}", "/nonexistent/secret"),
        (ACCOUNT + "secret-1\n  previousSecretKey: abc", "shorter than 7"),
        (ACCOUNT + "secret-1\n  admin: perhaps", "admin is true or false"),
        (ACCOUNT + "secret-1\n  topicPerms: orders=SUB", "topicPerms must be a list"),
        (ACCOUNT + "secret-1\n  topicPerms: [orders]", "not name=PERMISSION"),
        (ACCOUNT + "secret-1\n  topicPerms: [{orders: SUB}]", "must be a list of texts"),
        (ACCOUNT + "secret-1\n  whiteRemoteAddress: 1.2.3", "address pattern '1.2.3'"),
        (ACCOUNT + "secret-1\n  <<: {admin: true}", "merge keys"),
        ("globalWhiteRemoteAddresses: [1.2.3.x]", "address pattern '1.2.3.x'"),
        ("globalWhiteRemoteAddresses: [[1.2.3.4]]", "must be a list of texts"),
        ("a: &a x\nb: [" + "*a," * 51 + "]", "51 aliases"),
        ("accounts:\n" + "- accessKey: account\n  secretKey: secret-1\n" * 10_001, "10001 accounts, at most 10000"),
        ("[" * 5_000, ""),
        ("\x00", ""),
    ],
)
def test_what_is_wrong_is_named_with_its_file(text: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert str(caught.value).startswith("plain_acl.yml")
    assert reason in str(caught.value)
    assert "secret-1" not in str(caught.value)


def test_repeated_aliases_do_not_multiply_permissions() -> None:
    perms = ", ".join(f"t{number}=SUB" for number in range(5_000))
    text = f"list: &l [{perms}]\naccounts:\n" + "- accessKey: account\n  secretKey: secret-1\n  topicPerms: *l\n" * 50
    with pytest.raises(ConfigError, match="250000 permissions"):
        read(text)


def test_a_tag_makes_no_object() -> None:
    text = "accounts:\n- accessKey: !!python/object/apply:os.system ['exit 1']\n  secretKey: secret-1"
    with pytest.raises(ConfigError):
        read(text)


@given(st.binary(max_size=200) | st.text(alphabet="a:- []{}&*!|>'\"\n\t#=%", max_size=60).map(str.encode))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(ConfigError):
        read_document(data, "plain_acl.yml")


def test_ten_thousand_accounts_are_read_and_one_more_is_an_error() -> None:
    accounts = [{"accessKey": f"account-{number}", "secretKey": f"secret-{number:07}"} for number in range(10_001)]
    document = document_of({"accounts": accounts[:-1]})
    assert len({account.access_key for account in document.accounts}) == 10_000
    with pytest.raises(ConfigError, match="10001 accounts"):
        document_of({"accounts": accounts})
