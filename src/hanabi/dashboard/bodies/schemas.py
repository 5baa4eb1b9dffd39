"""Decoders of Avro and Protobuf bodies by a schema that a person gave. Their packages are extras."""

import base64
import binascii
from collections.abc import Callable
from typing import Any, Final

import msgspec

from hanabi.codecs import Avro, Protobuf
from hanabi.errors import ConfigError, InvalidParameter

SCHEMA_CHARACTERS_MAX: Final = 256 << 10

Decode = Callable[[bytes], str]


def avro(schema: str) -> Decode:
    """Return a decoder by an Avro schema, as JSON."""
    try:
        codec = Avro(schema)
    except ConfigError as error:
        raise InvalidParameter(str(error)) from error
    return lambda body: as_json(codec.decode(body))


def protobuf(schema: str, message: str) -> Decode:
    """Return a decoder by a descriptor set in base64, as `protoc --descriptor_set_out --include_imports` writes it, and
    the full name of the message.
    """
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
        from google.protobuf.message import DecodeError
    except ImportError as error:
        raise InvalidParameter("protobuf is not installed: pip install 'hanabi-mq[protobuf]'") from error
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode("".join(schema.split()), validate=True))
        pool = descriptor_pool.DescriptorPool()
        for file in files.file:
            pool.Add(file)
        codec = Protobuf(message_factory.GetMessageClass(pool.FindMessageTypeByName(message)))
    except (binascii.Error, DecodeError, ValueError) as error:
        raise InvalidParameter(f"the descriptor set cannot be read: {error}") from error
    except (KeyError, TypeError) as error:
        names = ", ".join(
            f"{file.package}.{each.name}".lstrip(".") for file in files.file for each in file.message_type
        )
        raise InvalidParameter(f"the descriptor set has no message {message!r}, or lacks an import: {names}") from error
    return lambda body: json_format.MessageToJson(codec.decode(body), preserving_proto_field_name=True)


def as_json(value: Any) -> str:
    """Return a value as indented JSON; bytes become base64, and what JSON lacks becomes text."""
    return msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=2).decode()
