"""Words of ACL 2.0 on the wire and in files: subjects, resources, actions, source addresses. Pure.

Keywords are read in any case of letters, names are not. Errors have Apache's sentences where it has one (Java's
AuthorizationMetadataManagerImpl). Where Apache ignores what it does not know, such as an action, this is an error.
"""

from collections.abc import Iterable
from enum import StrEnum
from ipaddress import ip_network
from typing import Final, TypeVar

from hanabi.access.needs import Action, Kind
from hanabi.access.policies.model import (
    ACTION_WORDS,
    Acl,
    Entry,
    Network,
    Pattern,
    PolicyType,
    Resource,
)
from hanabi.errors import NoPermission
from hanabi.wire.bodies.acl import AclInfo, PolicyEntryInfo, PolicyInfo
from hanabi.wire.settings_text import shortened

_SUBJECT: Final = "User:"
ENTRIES_MAX: Final = 1_000  # of one subject
SOURCES_MAX: Final = 100  # of one entry

E = TypeVar("E", bound=StrEnum)
_ACTIONS: Final = {word.lower(): action for word, action in ACTION_WORDS.items()}


def word(kind: type[E], text: str | None) -> E | None:
    """Return the member of *kind* that *text* names; None if it names none."""
    return next((member for member in kind if text is not None and member.lower() == text.lower()), None)


def username_of(subject: str | None) -> str:
    """Return the user of "User:name"."""
    if subject is None or not subject.lower().startswith(_SUBJECT.lower()) or len(subject) == len(_SUBJECT):
        raise NoPermission("The subject is null.")
    return subject[len(_SUBJECT) :]


def subject_of(username: str) -> str:
    """Return the subject of a user."""
    return _SUBJECT + username


def read_resource(text: str | None) -> Resource:
    """Return the resource that *text* names."""
    if text is None or not text.strip():
        raise NoPermission("The resource is null.")
    if text == "*":
        return Resource(None, Pattern.ANY)
    kind_text, _, name = text.partition(":")
    kind = word(Kind, kind_text)
    if kind is None or not name:
        raise NoPermission(f"The resource is null: {shortened(text)} has no kind")
    if "*" in name[:-1]:
        raise NoPermission(f"The resource {shortened(text)} has an asterisk before its end.")
    if name == "*":
        return Resource(kind, Pattern.ANY)
    return Resource(kind, Pattern.PREFIXED, name[:-1]) if name.endswith("*") else Resource(kind, Pattern.LITERAL, name)


def read_actions(words: Iterable[str] | None) -> Action:
    """Return the actions that *words* name."""
    actions = Action.NONE
    for each in words or ():
        if each.lower() == "any":
            raise NoPermission("The actions can not be Any.")
        if each.lower() not in _ACTIONS:
            raise NoPermission(f"The action {shortened(each)} is unknown.")
        actions |= _ACTIONS[each.lower()]
    if not actions:
        raise NoPermission("The actions is empty.")
    return actions


def action_words(actions: Action) -> list[str]:
    """Return the names of *actions*."""
    if actions == Action.ALL:
        return ["All"]
    return [name for name, action in ACTION_WORDS.items() if action & actions and action != Action.ALL]


def read_entry(info: PolicyEntryInfo) -> Entry:
    """Return one entry of a policy."""
    resource, actions = read_resource(info.resource), read_actions(info.actions)
    texts = tuple(info.source_ips or ())
    if len(texts) > SOURCES_MAX:
        raise NoPermission(f"{len(texts)} source ips, at most {SOURCES_MAX}.")
    sources = tuple(map(_network, texts))
    decision = (info.decision or "").lower()
    if decision not in ("allow", "deny"):
        raise NoPermission("The decision is null or illegal.")
    return Entry(resource, actions, decision == "allow", sources, texts)


def _network(text: str) -> Network:
    if not text.strip():
        raise NoPermission("The source ip is empty.")
    try:
        return ip_network(text.strip(), strict=False)
    except ValueError:
        raise NoPermission(f"The source ip is invalid: {shortened(text)}") from None


def read_acl(info: AclInfo) -> Acl:
    """Return all policies of a subject. Of two entries for one resource the last counts."""
    if not info.policies:
        raise NoPermission("The policies is empty.")
    acl = Acl()
    for policy in info.policies:
        if not policy.entries:
            raise NoPermission("The policy entries is empty.")
        kind = word(PolicyType, policy.policy_type) or PolicyType.CUSTOM
        acl = merged(acl, kind, map(read_entry, policy.entries))
    return acl


def merged(acl: Acl, kind: PolicyType, entries: Iterable[Entry]) -> Acl:
    """Return *acl* with *entries*; each replaces the one for the same resource."""
    old = acl.custom if kind is PolicyType.CUSTOM else acl.default
    new = tuple({entry.resource: entry for entry in (*old, *entries)}.values())
    acl = acl._replace(custom=new) if kind is PolicyType.CUSTOM else acl._replace(default=new)
    count = len(acl.custom) + len(acl.default)
    if count > ENTRIES_MAX:
        raise NoPermission(f"{count} entries, at most {ENTRIES_MAX}.")
    return acl


def acl_info(username: str, acl: Acl) -> AclInfo:
    """Return *acl* as it travels and as it is kept."""
    by_type = ((PolicyType.CUSTOM, acl.custom), (PolicyType.DEFAULT, acl.default))
    policies = [
        PolicyInfo(policy_type=kind.value, entries=[_entry_info(entry) for entry in entries])
        for kind, entries in by_type
        if entries
    ]
    return AclInfo(subject=subject_of(username), policies=policies or None)


def _entry_info(entry: Entry) -> PolicyEntryInfo:
    return PolicyEntryInfo(
        resource=str(entry.resource),
        actions=action_words(entry.actions),
        source_ips=list(entry.source_texts) or None,
        decision="Allow" if entry.allows else "Deny",
    )
