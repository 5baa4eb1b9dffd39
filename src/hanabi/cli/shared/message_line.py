"""A message as commands show it: one JSON object, one line, or in full."""

import base64
from typing import Final

import msgspec

from hanabi.cli.shared.output import printable
from hanabi.cli.shared.times import time_text
from hanabi.message import StoredMessage

BODY_CHARACTERS_MAX: Final = 2_000  # in a line for people; --full and --json have all of it


class MessageLine(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """One message in JSON. `encoding` says what `body` is: text as it was, or the bytes in base64."""

    topic: str
    broker_name: str = ""  # a file does not know it
    queue_id: int
    queue_offset: int
    log_offset: int
    size: int
    message_id: str
    offset_message_id: str
    tags: str | None
    keys: tuple[str, ...]
    properties: dict[str, str]
    flag: int
    sys_flag: int
    born_timestamp: int
    born_host: str
    store_timestamp: int
    store_host: str
    reconsume_times: int
    prepared_offset: int
    body_crc: int
    body: str
    encoding: str
    body_problem: str | None = None  # why the body is shown compressed, as it is stored


def message_line(message: StoredMessage, *, sys_flag: int | None = None, problem: str | None = None) -> MessageLine:
    """*message* for a program to read. *sys_flag* is that of its record, if it is another."""
    try:
        body, encoding = message.body.decode(), "utf-8"
    except UnicodeDecodeError:
        body, encoding = base64.b64encode(message.body).decode(), "base64"
    return MessageLine(
        topic=message.topic,
        broker_name=message.broker_name,
        queue_id=message.queue_id,
        queue_offset=message.queue_offset,
        log_offset=message.log_offset,
        size=message.size,
        message_id=message.message_id,
        offset_message_id=message.offset_message_id,
        tags=message.tags,
        keys=message.keys,
        properties=message.properties,
        flag=message.flag,
        sys_flag=message.sys_flag if sys_flag is None else sys_flag,
        born_timestamp=message.born_timestamp_ms,
        born_host=str(message.born_host),
        store_timestamp=message.store_timestamp_ms,
        store_host=str(message.store_host),
        reconsume_times=message.reconsume_times,
        prepared_offset=message.prepared_offset,
        body_crc=message.body_crc,
        body=body,
        encoding=encoding,
        body_problem=problem,
    )


def message_text(message: MessageLine, body_characters_max: int | None = None) -> str:
    """Return *message* in full as text. A limit helps commands that show very many."""
    lines = [
        f"{message.topic}/{message.queue_id} offset {message.queue_offset}, log offset {message.log_offset},"
        f" {message.size} bytes",
        f"  id {message.message_id}, offset id {message.offset_message_id}",
        f"  born {time_text(message.born_timestamp)} at {message.born_host},"
        f" stored {time_text(message.store_timestamp)} at {message.store_host}",
        *(f"  {name} = {value}" for name, value in message.properties.items()),
        *([f"  body cannot be unpacked: {message.body_problem}"] if message.body_problem else []),
        f"  body ({message.encoding}): {_shortened(message.body, body_characters_max)}",
    ]
    return "\n".join(map(printable, lines)) + "\n\n"


def short_text(message: MessageLine) -> str:
    """*message* in one line, for people to read: when, where, tags, keys, body."""
    named = [f"tags={message.tags}"] if message.tags else []
    if message.keys:
        named.append(f"keys={','.join(message.keys)}")
    if message.reconsume_times:
        named.append(f"retry={message.reconsume_times}")
    place = f"{message.broker_name}/{message.queue_id}@{message.queue_offset}"
    body = _shortened(message.body) if message.encoding == "utf-8" else f"{message.encoding}:{_shortened(message.body)}"
    return printable(" ".join([time_text(message.store_timestamp), place, *named, body])) + "\n"


def _shortened(body: str, characters_max: int | None = BODY_CHARACTERS_MAX) -> str:
    more = 0 if characters_max is None else len(body) - characters_max
    return f"{body[:characters_max]}... and {more} more characters" if more > 0 else body
