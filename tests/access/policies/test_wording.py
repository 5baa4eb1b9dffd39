"""Words of ACL 2.0: read in any case, written as Apache writes them, refused when they make no sense."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanabi.access.needs import Action, Kind
from hanabi.access.policies.model import Acl, Pattern, Resource
from hanabi.access.policies.wording import (
    acl_info,
    action_words,
    read_acl,
    read_actions,
    read_entry,
    read_resource,
    username_of,
)
from hanabi.errors import NoPermission
from hanabi.wire.bodies.acl import AclInfo, PolicyEntryInfo, PolicyInfo


@pytest.mark.parametrize(
    ("text", "resource"),
    [
        ("*", Resource(None, Pattern.ANY)),
        ("Topic:*", Resource(Kind.TOPIC, Pattern.ANY)),
        ("topic:Orders", Resource(Kind.TOPIC, Pattern.LITERAL, "Orders")),
        ("GROUP:ord*", Resource(Kind.GROUP, Pattern.PREFIXED, "ord")),
        ("Cluster:DefaultCluster", Resource(Kind.CLUSTER, Pattern.LITERAL, "DefaultCluster")),
        ("Namespace:a:b", Resource(Kind.NAMESPACE, Pattern.LITERAL, "a:b")),
    ],
)
def test_a_resource_is_read_and_written(text: str, resource: Resource) -> None:
    assert read_resource(text) == resource
    assert read_resource(str(resource)) == resource


@pytest.mark.parametrize(
    "text", [None, "", " ", "Topic", "Topic:", "Any:x", "Unknown:x", "Topic:a*b", "Topic:**", "**"]
)
def test_a_resource_that_names_nothing_is_refused(text: str | None) -> None:
    with pytest.raises(NoPermission, match="resource"):
        read_resource(text)


def test_actions_are_read_in_any_case_and_written_as_apache_does() -> None:
    assert read_actions(["pub", "SUB"]) == Action.PUB | Action.SUB
    assert action_words(read_actions(["sub", "Pub", "Get"])) == ["Pub", "Sub", "Get"]
    assert action_words(read_actions(["All", "Pub"])) == ["All"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"actions": []}, "The actions is empty."),
        ({"actions": None}, "The actions is empty."),
        ({"actions": ["Any"]}, "The actions can not be Any."),
        ({"actions": ["Pub", "Publish"]}, "The action Publish is unknown."),
        ({"decision": None}, "The decision is null or illegal."),
        ({"decision": "Maybe"}, "The decision is null or illegal."),
        ({"source_ips": [" "]}, "The source ip is empty."),
        ({"source_ips": ["10.0.0.0/40"]}, "The source ip is invalid: 10.0.0.0/40"),
        ({"source_ips": ["host.example"]}, "The source ip is invalid: host.example"),
        ({"source_ips": ["10.0.0.1"] * 101}, "101 source ips, at most 100."),
        ({"resource": None}, "The resource is null."),
    ],
)
def test_an_entry_that_makes_no_sense_is_refused(change: dict[str, object], reason: str) -> None:
    fields: dict[str, object] = {"resource": "Topic:t", "actions": ["Pub"], "decision": "Allow"}
    with pytest.raises(NoPermission) as caught:
        read_entry(PolicyEntryInfo(**{**fields, **change}))  # type: ignore[arg-type]
    assert str(caught.value) == reason


ENTRY = PolicyEntryInfo(resource="Topic:t", actions=["Pub"], decision="Allow", source_ips=["10.0.0.0/8"])


@pytest.mark.parametrize(
    ("info", "reason"),
    [
        (AclInfo(subject="User:a"), "The policies is empty."),
        (AclInfo(subject="User:a", policies=[PolicyInfo()]), "The policy entries is empty."),
        (
            AclInfo(
                policies=[
                    PolicyInfo(
                        entries=[
                            PolicyEntryInfo(resource=f"Topic:t{number}", actions=["Pub"], decision="Allow")
                            for number in range(1001)
                        ]
                    )
                ]
            ),
            "1001 entries, at most 1000.",
        ),
    ],
)
def test_policies_without_entries_or_with_too_many_are_refused(info: AclInfo, reason: str) -> None:
    with pytest.raises(NoPermission) as caught:
        read_acl(info)
    assert str(caught.value) == reason


def test_policies_are_written_as_they_were_read() -> None:
    info = AclInfo(
        subject="User:app",
        policies=[
            PolicyInfo(policy_type="Custom", entries=[ENTRY]),
            PolicyInfo(
                policy_type="Default", entries=[PolicyEntryInfo(resource="*", actions=["All"], decision="Deny")]
            ),
        ],
    )
    assert acl_info("app", read_acl(info)) == info
    assert acl_info("app", Acl()) == AclInfo(subject="User:app")


@pytest.mark.parametrize("subject", [None, "", "app", "User:", "Group:app"])
def test_a_subject_is_a_user(subject: str | None) -> None:
    with pytest.raises(NoPermission, match="The subject is null"):
        username_of(subject)


@given(st.text(max_size=20))
def test_any_text_is_a_resource_or_refused(text: str) -> None:
    try:
        resource = read_resource(text)
    except NoPermission:
        return
    assert read_resource(str(resource)) == resource
