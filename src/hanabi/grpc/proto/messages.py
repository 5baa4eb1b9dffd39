"""Classes of the messages, made by the `protobuf` package from our table.

They live in a descriptor pool of their own: in the default pool their names would clash with those of
`rocketmq-python-client` in the same process.
"""

from functools import cache
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from hanabi.errors import RemoteProtocolError
from hanabi.grpc.proto.table import MESSAGES, PACKAGE

Proto = Any  # an instance of a generated class; protobuf has no types for classes made at run time

_FIELD = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final = {
    "string": _FIELD.TYPE_STRING,
    "bytes": _FIELD.TYPE_BYTES,
    "bool": _FIELD.TYPE_BOOL,
    "int32": _FIELD.TYPE_INT32,
    "int64": _FIELD.TYPE_INT64,
    "float": _FIELD.TYPE_FLOAT,
}


@cache
def message_class(name: str) -> Any:
    """Return the class of a message of the table."""
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"{PACKAGE}.{name}"))


def parse(name: str, data: bytes) -> Proto:
    """Return the message of that name in *data*."""
    try:
        return message_class(name).FromString(data)
    except DecodeError as error:
        raise RemoteProtocolError(f"{name}: {error}") from error


@cache
def _pool() -> Any:
    pool = descriptor_pool.DescriptorPool()
    file = descriptor_pb2.FileDescriptorProto(name="hanabi/rocketmq_v2", package=PACKAGE, syntax="proto3")
    for name, fields in MESSAGES.items():
        _describe(file.message_type.add(name=name), fields)
    pool.AddSerializedFile(file.SerializeToString())
    return pool


def _describe(message: Any, fields: str) -> None:
    groups: dict[str, int] = {}
    optional: list[Any] = []
    for text in fields.split(","):
        number, name, kind = text.split()
        kind, _, group = kind.partition("|")
        field = message.field.add(name=name, number=int(number), label=_FIELD.LABEL_OPTIONAL)
        if group:
            if group not in groups:
                groups[group] = len(message.oneof_decl)
                message.oneof_decl.add(name=group)
            field.oneof_index = groups[group]
        if kind.endswith("?"):
            optional.append(field)
        elif kind.endswith("*") or kind == "map":
            field.label = _FIELD.LABEL_REPEATED
        _set_kind(message, field, kind.rstrip("?*"))
    for field in optional:  # behind all others, as protoc has them
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{field.name}")


def _set_kind(message: Any, field: Any, kind: str) -> None:
    if kind == "map":
        entry = "".join(part.title() for part in field.name.split("_")) + "Entry"
        nested = message.nested_type.add(name=entry)
        nested.options.map_entry = True
        nested.field.add(name="key", number=1, label=_FIELD.LABEL_OPTIONAL, type=_FIELD.TYPE_STRING)
        nested.field.add(name="value", number=2, label=_FIELD.LABEL_OPTIONAL, type=_FIELD.TYPE_STRING)
        field.type, field.type_name = _FIELD.TYPE_MESSAGE, f".{PACKAGE}.{message.name}.{entry}"
    elif kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type, field.type_name = _FIELD.TYPE_MESSAGE, f".{PACKAGE}.{kind}"
