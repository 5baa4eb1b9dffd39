"""The JSON of each command: which type it is, and how docs/administration.md says that.

python -m tests.cli.shapes      rewrites the part of the document between the two marks
"""

import textwrap
import types
import typing
from enum import Enum
from pathlib import Path
from typing import Any, Union

import msgspec

from hanabi.admin.brokers import BrokerSummary, BrokerTable, Flows, TopicFlow
from hanabi.admin.controllers import ControllerState, Elected
from hanabi.admin.dead_letters import DeadLetters, Resent
from hanabi.admin.groups import (
    GroupMembers,
    GroupProgress,
    GroupSettings,
    GroupSubscriptions,
    GroupSummary,
    RequestMode,
    RunningInfo,
)
from hanabi.admin.messages import DirectConsumption, Recalled, TraceEvent
from hanabi.admin.name_servers import NameServerTable, WritePerm
from hanabi.admin.offsets import OffsetMove, QueueOffset, Reset
from hanabi.admin.replication_report import BrokerReplication
from hanabi.admin.topics import RouteEntry, TopicListing, TopicOnBroker, TopicStatus
from hanabi.admin.users import Explanation, PolicyLine, UserSummary
from hanabi.bench.results import Consumed, EndToEnd, Produced, StoreMeasured
from hanabi.cli.admin.profile import ProfileLine
from hanabi.cli.admin.version import Versions
from hanabi.cli.messages.send import SentLine
from hanabi.cli.shared.done import (
    BrokersForgotten,
    Cleaned,
    FileChecked,
    GroupDeleted,
    KeyForgotten,
    LettersSaved,
    TopicDeleted,
    UserChanged,
    UsersCopied,
)
from hanabi.cli.shared.message_line import MessageLine
from hanabi.doctor import Diagnosis

DOCUMENT = Path(__file__).parents[2] / "docs" / "administration.md"
BEGIN, END = "<!-- shapes: python -m tests.cli.shapes -->\n", "<!-- end of shapes -->\n"


class Lines(msgspec.Struct, frozen=True):
    """One object a line."""

    each: Any


SHAPES: dict[str, Any] = {
    "topic list": TopicListing,
    "topic create": list[TopicOnBroker],
    "topic update": list[TopicOnBroker],
    "topic perm": list[TopicOnBroker],
    "topic delete": TopicDeleted,
    "topic route": list[RouteEntry],
    "topic status": TopicStatus,
    "group list": list[GroupSummary],
    "group create": list[GroupSettings],
    "group delete": GroupDeleted,
    "group progress": GroupProgress,
    "group members": GroupMembers,
    "group members --client": RunningInfo,
    "group subscriptions": GroupSubscriptions,
    "group mode": list[RequestMode],
    "offset show": list[QueueOffset],
    "offset reset": Reset,
    "offset skip": Reset,
    "offset clone": list[OffsetMove],
    "message get": MessageLine,
    "message query": Lines(MessageLine),
    "message print": Lines(MessageLine),
    "message send": Lines(SentLine),
    "message trace": list[TraceEvent],
    "message recall": Recalled,
    "message consume-directly": DirectConsumption,
    "broker status": list[BrokerTable],
    "broker config": list[BrokerTable],
    "broker stats": list[TopicFlow],
    "broker replication": list[BrokerReplication],
    "broker clean": Cleaned,
    "cluster list": list[BrokerSummary],
    "namesrv config": list[NameServerTable],
    "namesrv kv": list[NameServerTable],
    "namesrv kv --delete": KeyForgotten,
    "namesrv write-perm": list[WritePerm],
    "controller status": ControllerState,
    "controller elect": Elected,
    "controller clean": BrokersForgotten,
    "user list": list[UserSummary],
    "user show": UserSummary,
    "user create": UserChanged,
    "user update": UserChanged,
    "user delete": UserChanged,
    "user copy": UsersCopied,
    "acl list": list[PolicyLine],
    "acl show": list[PolicyLine],
    "acl create": UserChanged,
    "acl update": UserChanged,
    "acl delete": UserChanged,
    "acl copy": UsersCopied,
    "acl explain": Explanation,
    "acl check": FileChecked,
    "dlq list": list[DeadLetters],
    "dlq show": Lines(MessageLine),
    "dlq export": LettersSaved,
    "dlq resend": Lines(Resent),
    "bench produce": Produced,
    "bench consume": Consumed,
    "bench latency": EndToEnd,
    "bench store": StoreMeasured,
    "stats": Flows,
    "doctor": Diagnosis,
    "send": Lines(SentLine),
    "tail": Lines(MessageLine),
    "consume": Lines(MessageLine),
    "version": Versions,
    "profile list": list[ProfileLine],
}
_WRAPPER = textwrap.TextWrapper(118, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
_PLAIN = {str: "text", int: "integer", float: "number", bool: "true/false", type(None): "null"}


def shape_of(arguments: tuple[str, ...]) -> Any:
    """Return the shape of what a command with these arguments writes."""
    words = [word for word in arguments if word in ("--client", "--delete")]
    for count in (2, 1):
        name = " ".join(arguments[:count])
        if found := SHAPES.get(" ".join((name, *words))) or SHAPES.get(name):
            return found
    raise KeyError(f"tests/cli/shapes.py knows no shape of: hanabi {' '.join(arguments)}")


def check(shape: Any, text: str) -> None:
    """*text* is of this shape: no key more, none less, each value of its type."""
    if isinstance(shape, Lines):
        for line in text.splitlines():
            check(shape.each, line)
        return
    decoded = msgspec.json.decode(text, type=shape, strict=True)
    again = msgspec.json.decode(msgspec.json.encode(decoded))
    assert again == msgspec.json.decode(text), f"is not what a {shape} is: {text}"


def text_of(kind: Any) -> str:
    """Return a type in the words of the document."""
    if isinstance(kind, Lines):
        return f"{text_of(kind.each)}, one a line"
    if kind in _PLAIN:
        return _PLAIN[kind]
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        return " or ".join(text_of(argument) for argument in arguments)
    if origin in (list, tuple):
        return f"list of {text_of(arguments[0])}"
    if origin is dict:
        return f"{text_of(arguments[1])} by {'number' if arguments[0] is int else 'name'}"
    if isinstance(kind, type) and issubclass(kind, Enum):
        return ", ".join(f'"{each.value}"' for each in kind)
    return f"**{kind.__name__}**"


def structs_in(kind: Any, found: dict[str, type[msgspec.Struct]]) -> None:
    """Add all structs that a type mentions, itself too."""
    if isinstance(kind, Lines):
        structs_in(kind.each, found)
    elif isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        if kind.__name__ not in found:
            found[kind.__name__] = kind
            for hint in typing.get_type_hints(kind).values():
                structs_in(hint, found)
    else:
        for argument in typing.get_args(kind):
            structs_in(argument, found)


def document_part() -> str:
    """Return what stands between the marks."""
    found: dict[str, type[msgspec.Struct]] = {}
    rows = []
    for command, shape in SHAPES.items():
        rows.append(f"| `hanabi {command}` | {text_of(shape)} |")
        structs_in(shape, found)
    parts = []
    for name in sorted(found):
        hints = typing.get_type_hints(found[name])
        fields = msgspec.structs.fields(found[name])
        optional = found[name].__struct_config__.omit_defaults
        words = [
            f"`{each.encode_name}` {text_of(hints[each.name])}"
            + (" (may be missing)" if optional and not each.required else "")
            for each in fields
        ]
        parts.append(_WRAPPER.fill(f"- **{name}**: {', '.join(words)}."))
    return "\n".join(("| command | JSON |", "|---|---|", *rows, "", *parts)) + "\n"


def rewritten(text: str) -> str:
    """Return the document with that part as it should be."""
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    assert begin, f"{DOCUMENT} lacks {BEGIN}"
    assert end, f"{DOCUMENT} lacks {END}"
    return head + BEGIN + document_part() + END + tail


if __name__ == "__main__":
    DOCUMENT.write_text(rewritten(DOCUMENT.read_text()))
