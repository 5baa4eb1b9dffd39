"""Verdicts of ACL 2.0: the order of entries against a slow reference, and Apache's sentences."""

from collections.abc import Iterable
from ipaddress import ip_address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanabi.access.address import Address
from hanabi.access.needs import Action, Kind, Need
from hanabi.access.policies.decision import authenticate, deciding_entry, refusal
from hanabi.access.policies.model import Acl, Entry, PolicyType, User, UserStatus, UserType
from hanabi.access.policies.wording import merged, read_entry
from hanabi.errors import NoPermission
from hanabi.wire.bodies.acl import PolicyEntryInfo
from hanabi.wire.codes import RequestCode
from hanabi.wire.signature import SIGNATURE, signature

SEND = RequestCode.SEND_MESSAGE_V2
HERE = ip_address("10.1.2.3")

# Few names, of which most are prefixes of each other, so that several entries match one need.
names = st.sampled_from(("a", "aa", "aaa", "aab", "b"))
kinds = st.sampled_from(("Topic", "Topic", "Topic", "Group"))
resources = st.one_of(
    st.builds("{}:{}{}".format, kinds, names, st.sampled_from(("", "*", "*"))),
    st.builds("{}:*".format, kinds),
    st.just("*"),
)
words = st.sampled_from(("All", "Pub", "Sub", "Get"))
sources = st.sampled_from(("10.1.2.3", "10.1.2.0/24", "10.9.0.0/16", "::/0"))
infos = st.builds(
    PolicyEntryInfo,
    resource=resources,
    actions=st.one_of(st.just(["All"]), st.just(["Pub", "Sub"]), st.lists(words, min_size=1, max_size=2)),
    source_ips=st.one_of(st.just([]), st.just([]), st.lists(sources, max_size=2)),
    decision=st.sampled_from(("Allow", "Deny")),
)
needs = st.builds(
    Need,
    kinds.map(Kind),
    names,
    st.sampled_from((Action.PUB, Action.SUB, Action.SUB | Action.GET)),
)


def specificity(resource: str) -> tuple[int, int]:
    """Return how much a resource says, as the contract orders: literal, longer prefix, shorter prefix, ANY, `*`."""
    if resource == "*":
        return (0, 0)
    name = resource.partition(":")[2]
    if name == "*":
        return (1, 0)
    return (2, len(name)) if name.endswith("*") else (3, 0)


def is_about(info: PolicyEntryInfo, need: Need, address: str) -> bool:
    """Compare as text, word by word."""
    assert info.resource
    kind, _, name = info.resource.partition(":")
    right_name = name == "*" or need.name == name or (name.endswith("*") and need.name.startswith(name.rstrip("*")))
    right_resource = info.resource == "*" or (kind == need.kind and right_name)
    asked = {action.name.capitalize() for action in Action if action & need.actions and action.name}
    right_action = "All" in (info.actions or []) or bool(asked & set(info.actions or []))
    return right_resource and right_action and is_from(info.source_ips or [], address)


def is_from(source_ips: list[str], address: str) -> bool:
    if not source_ips:
        return True
    prefixes = {"10.1.2.3": "10.1.2.3", "10.1.2.0/24": "10.1.2.", "10.9.0.0/16": "10.9.", "::/0": "never"}
    return any(address.startswith(prefixes[source]) for source in source_ips)


def reference(custom: list[PolicyEntryInfo], default: list[PolicyEntryInfo], need: Need, address: str) -> str | None:
    """Return the decision that counts: the last entry of each resource, Custom before Default, the most specific."""
    for infos in (custom, default):
        last = {info.resource: info for info in infos}
        best: PolicyEntryInfo | None = None
        for info in last.values():
            assert info.resource
            if is_about(info, need, address) and (
                best is None or specificity(info.resource) > specificity(best.resource or "")
            ):
                best = info
        if best is not None:
            return best.decision
    return None


def acl_of(custom: Iterable[PolicyEntryInfo], default: Iterable[PolicyEntryInfo] = ()) -> Acl:
    acl = merged(Acl(), PolicyType.CUSTOM, map(read_entry, custom))
    return merged(acl, PolicyType.DEFAULT, map(read_entry, default))


@settings(max_examples=500)
@given(
    st.lists(infos, max_size=8),
    st.lists(infos, max_size=4),
    needs,
    st.sampled_from(("10.1.2.3", "10.1.2.4", "10.9.9.9")),
)
def test_the_most_specific_entry_decides_as_in_the_slow_reference(
    custom: list[PolicyEntryInfo], default: list[PolicyEntryInfo], need: Need, address: str
) -> None:
    entry = deciding_entry(acl_of(custom, default), need, ip_address(address))
    decision = None if entry is None else "Allow" if entry.allows else "Deny"
    assert decision == reference(custom, default, need, address)


def entry(resource: str, decision: str = "Allow", actions: str = "Pub,Sub") -> Entry:
    return read_entry(PolicyEntryInfo(resource=resource, actions=actions.split(","), decision=decision))


USER = User(username="app", password="secret-of-app", previous_password="older-secret")  # noqa: S106
ROOT = User(username="root", password="secret-of-root", user_type=UserType.SUPER)  # noqa: S106
GONE = User(username="gone", password="secret-of-gone", user_status=UserStatus.DISABLE)  # noqa: S106
USERS = {user.username: user for user in (USER, ROOT, GONE)}


def why(acl: Acl, need: Need, user: User = USER, address: Address | None = HERE) -> str | None:
    return refusal(user, acl, [need], address, "10.1.2.3")


def test_refusals_have_the_sentences_of_apache() -> None:
    need = Need(Kind.TOPIC, "orders", Action.PUB)
    assert why(Acl(), need) == "User:app has no permission to access Topic:orders from 10.1.2.3, no matched policies."
    denied = Acl((entry("Topic:orders", "Deny"),))
    assert why(denied, need) == "User:app has no permission to access Topic:orders from 10.1.2.3, the decision is deny."
    assert why(Acl((entry("Topic:ord*"),)), need) is None
    assert why(denied, need, user=ROOT) is None


def test_a_longer_prefix_decides_over_a_shorter_one_and_a_literal_over_both() -> None:
    acl = Acl((entry("Topic:*", "Deny"), entry("Topic:o*", "Deny"), entry("Topic:ord*"), entry("Topic:orders", "Deny")))
    assert why(acl, Need(Kind.TOPIC, "order", Action.PUB)) is None
    assert why(acl, Need(Kind.TOPIC, "orders", Action.PUB)) is not None
    assert why(acl, Need(Kind.TOPIC, "other", Action.PUB)) is not None


def test_default_entries_count_only_where_no_custom_entry_matches() -> None:
    acl = Acl((entry("Topic:orders", "Deny", "Pub"),), (entry("*", "Allow", "All"),))
    assert why(acl, Need(Kind.TOPIC, "orders", Action.PUB)) is not None
    assert why(acl, Need(Kind.TOPIC, "orders", Action.SUB)) is None


def test_a_peer_without_an_address_matches_no_entry_with_sources() -> None:
    info = PolicyEntryInfo(resource="*", actions=["All"], decision="Allow", source_ips=["0.0.0.0/0"])
    assert why(Acl((read_entry(info),)), Need(Kind.TOPIC, "t", Action.PUB), address=None) is not None


def signed(username: str, secret: str) -> dict[str, str]:
    fields = {"AccessKey": username}
    return {**fields, SIGNATURE: signature(fields, b"", secret)}


@pytest.mark.parametrize("secret", ["secret-of-app", "older-secret"])
def test_either_password_of_a_rotation_is_valid(secret: str) -> None:
    assert authenticate(USERS, SEND, signed("app", secret), b"") is USER


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "username cannot be null."),
        ({"AccessKey": ""}, "username cannot be null."),
        (signed("nobody", "x"), "User:nobody is not found."),
        (signed("gone", "secret-of-gone"), "User:gone is disabled."),
        (signed("app", "wrong"), "check signature failed."),
        ({"AccessKey": "app"}, "check signature failed."),
    ],
)
def test_an_identity_without_proof_is_refused(fields: dict[str, str], reason: str) -> None:
    with pytest.raises(NoPermission) as caught:
        authenticate(USERS, SEND, fields, b"")
    assert str(caught.value) == reason


def test_a_user_does_not_show_its_passwords() -> None:
    assert "secret" not in repr(USER)
    assert "secret" not in f"{[USER]} {USERS}"
