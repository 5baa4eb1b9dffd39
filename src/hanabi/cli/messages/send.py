"""`hanabi send`: put messages into a topic, from the command line or from a pipe."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from hanabi.cli.logs.log_output import LogLevel, configure_logging
from hanabi.cli.shared import cluster, completion
from hanabi.cli.shared.output import json_line, output
from hanabi.cli.shared.times import is_number, parse_duration, parse_time
from hanabi.errors import ConfigError, InvalidMessage, MQError

if TYPE_CHECKING:
    from hanabi.client.config import ClientConfig
    from hanabi.client.send_result import SendResult
    from hanabi.message import Message

STDIN = "-"
PRODUCER_GROUP = "hanabi_send"
AT_A_TIME = 1_000  # sent, and their results written, before the next are
CHUNK_BYTES = 1 << 16

Topic = Annotated[
    str,
    typer.Argument(help="The topic; brokers that make topics by themselves make it.", autocompletion=completion.topics),
]
Body = Annotated[
    str | None, typer.Argument(metavar="[BODY|-]", help="The body; - or nothing: all of stdin, byte by byte.")
]
Tags = Annotated[str | None, typer.Option("--tags", help="The tag, by which consumers can filter.")]
Keys = Annotated[
    list[str] | None, typer.Option("--keys", metavar="KEY", help="A key to find it by later; may be repeated.")
]
Properties = Annotated[
    list[str] | None, typer.Option("--property", metavar="NAME=VALUE", help="A property; may be repeated.")
]
OrderingKey = Annotated[
    str | None,
    typer.Option("--ordering-key", metavar="KEY", help="Messages with one key go to one queue, in their order."),
]
Delay = Annotated[
    str | None,
    typer.Option(
        "--delay",
        metavar="TIME|LEVEL",
        help="Deliver later: after 90s, 5m or 1h30m, or by level: 1 1s, 2 5s, 3 10s, 4 30s, 5 1m, 6 2m ... 14 10m,"
        " 15 20m, 16 30m, 17 1h, 18 2h, the most; brokers take more for the most, and may have other levels. Brokers"
        " of RocketMQ before 5.0 know only levels. A time prints the handle for message recall.",
    ),
]
At = Annotated[str | None, typer.Option("--at", metavar="TIME", help="Deliver at this time: 2026-11-15T06:45:00, UTC.")]
Count = Annotated[int, typer.Option("--count", metavar="N", min=1, help="Send so many of it.")]
Lines = Annotated[bool, typer.Option("--lines", help="Each line of stdin is a message; empty ones are passed over.")]
Timeout = Annotated[float, typer.Option("--timeout", metavar="SECONDS", min=0.001, help="For each message.")]
Json = Annotated[bool, typer.Option("--json", help="Write one JSON object a line.")]


class SentLine(msgspec.Struct, rename="camel", kw_only=True):
    """The outcome of one message, in JSON."""

    status: str
    message_id: str
    offset_message_id: str
    topic: str
    broker_name: str
    queue_id: int
    queue_offset: int
    recall_handle: str | None


def send(
    topic: Topic,
    body: Body = None,
    tags: Tags = None,
    keys: Keys = None,
    property: Properties = None,
    ordering_key: OrderingKey = None,
    delay: Delay = None,
    at: At = None,
    count: Count = 1,
    lines: Lines = False,
    timeout: Timeout = 3.0,
    json: Json = False,
    namesrv: cluster.Namesrv = None,
    namespace: cluster.Namespace = "",
    access_key: cluster.AccessKey = None,
    tls_config: cluster.TlsFile = None,
) -> None:
    """Send a message, and say where it is stored.

    Exit code 0: every message is stored. 1: one is not, or its outcome is unknown; stderr says which and why. 2: the
    options are wrong.
    """
    if lines and (body not in (None, STDIN) or count != 1):
        raise ConfigError("--lines takes the messages from stdin, one a line: give no BODY and no --count")
    if body is None and sys.stdin.isatty():
        raise ConfigError("give a BODY, or - to type it here (end it with Ctrl-D)")
    properties = dict(map(_pair, property or ()))
    level, after, at_ms = _delivery(delay, at)
    words = [key for text in keys or () for key in text.split()]
    config = cluster.client_config(namesrv, namespace, access_key, tls_config)
    configure_logging(LogLevel.ERROR, as_json=False)  # what went wrong is in the errors
    if lines:
        portions = _lines()
    else:
        portions = _copies(sys.stdin.buffer.read() if body in (None, STDIN) else _encoded(body or ""), count)

    def message(body: bytes) -> "Message":
        from hanabi.message import Message

        return Message(
            topic,
            body,
            tags=tags,
            keys=words,
            properties=dict(properties),
            ordering_key=ordering_key,
            delay_level=level,
            delay=after,
            deliver_time_ms=at_ms,
        )

    with cluster.errors_as_exit_code(), output() as write:
        show = _as_json if json else _as_text
        _send_all(config, timeout, (list(map(message, portion)) for portion in portions), lambda r: write(show(r)))


def _send_all(
    config: "ClientConfig", seconds: float, portions: Iterable[list["Message"]], told: Callable[["SendResult"], None]
) -> None:
    """Send, telling of each message that is stored; after a portion of which one is not, no more is sent."""
    from hanabi.client.blocking.producer import (
        Producer,  # reading a pipe may block, so no event loop must run in this thread
    )

    done = 0
    with Producer(PRODUCER_GROUP, config=config, send_timeout_s=seconds) as producer:
        for portion in portions:
            results = producer.send_many(portion, return_exceptions=True)
            failed = [(number, e) for number, e in enumerate(results, start=done + 1) if isinstance(e, Exception)]
            for result in results:
                if not isinstance(result, Exception):
                    told(result)
            sys.stdout.flush()  # a pipe that is written to now and then wants its answers as well
            done += len(results)
            if failed:
                number, error = failed[0]
                if done == 1 or isinstance(error, InvalidMessage):
                    raise error
                raise MQError(f"{len(failed)} of {done} messages were not sent; number {number}: {error}") from error


def _delivery(delay: str | None, at: str | None) -> tuple[int, timedelta | None, int]:
    """Return the delay level, the delay and the moment of delivery that the options ask for; at most one is set."""
    if delay is not None and at is not None:
        raise ConfigError("--delay and --at are two ways to deliver later: choose one")
    if at is not None:
        return 0, None, parse_time("--at", at)
    if delay is None or is_number(delay):
        return int(delay or 0), None, 0
    return 0, parse_duration("--delay", delay), 0


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ConfigError(f"--property {text}: must be NAME=VALUE")
    return name, value


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogateescape")  # arguments that are no UTF-8 travel as the bytes that they are


def _copies(body: bytes, count: int) -> Iterator[list[bytes]]:
    for sent in range(0, count, AT_A_TIME):
        yield [body] * min(AT_A_TIME, count - sent)


def _lines() -> Iterator[list[bytes]]:
    """Yield the lines of stdin as they come: a line is sent at once."""
    rest = b""
    while chunk := os.read(sys.stdin.fileno(), CHUNK_BYTES):
        *whole, rest = (rest + chunk).split(b"\n")
        if bodies := [body for line in whole if (body := line.removesuffix(b"\r"))]:
            yield bodies
    if rest:
        yield [rest]


def _as_text(result: "SendResult") -> str:
    queue = result.queue
    line = f"{result.status.value} {result.message_id} {queue.broker_name}/{queue.queue_id}@{result.queue_offset}"
    return f"{line}\n" if result.recall_handle is None else f"{line} {result.recall_handle}\n"


def _as_json(result: "SendResult") -> str:
    return json_line(
        SentLine(
            status=result.status.value,
            message_id=result.message_id,
            offset_message_id=result.offset_message_id,
            topic=result.queue.topic,
            broker_name=result.queue.broker_name,
            queue_id=result.queue.queue_id,
            queue_offset=result.queue_offset,
            recall_handle=result.recall_handle,
        )
    )
