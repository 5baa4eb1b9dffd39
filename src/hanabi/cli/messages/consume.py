"""`hanabi consume`: consume a topic as a member of a group, write its messages, and commit them."""

import asyncio
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from hanabi.cli.logs.log_output import LogLevel, configure_logging
from hanabi.cli.messages import choice
from hanabi.cli.messages.stopping import stop_signals, until
from hanabi.cli.shared import cluster, completion, message_form
from hanabi.cli.shared.output import json_line, output
from hanabi.errors import ConfigError, SubscriptionParseFailed

if TYPE_CHECKING:
    from hanabi.client.consumer.offsets.start_point import ConsumeFrom
    from hanabi.client.consumer.pull.lite_pull import LitePullConsumer
    from hanabi.message import StoredMessage

POLL_SECONDS = 3600.0
BATCH = 256  # written and committed together

Group = Annotated[
    str, typer.Argument(metavar="GROUP", help="The consumer group to join.", autocompletion=completion.groups)
]
Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.", autocompletion=completion.topics)]
From = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="first|last|TIME",
        help="Where a group begins in a queue in which it has committed nothing yet (2026-11-15T06:45:00, UTC).",
    ),
]
Idle = Annotated[
    float | None,
    typer.Option("--idle", metavar="SECONDS", min=0.1, show_default="wait", help="Stop when nothing came for so long."),
]


def consume(
    group: Group,
    topic: Topic,
    tags: choice.Tags = None,
    sql: choice.Sql = None,
    from_: From = choice.FIRST,
    count: choice.Count = None,
    idle: Idle = None,
    full: message_form.Full = False,
    format: message_form.Format = None,
    raw: message_form.Raw = False,
    json: choice.Json = False,
    namesrv: cluster.Namesrv = None,
    namespace: cluster.Namespace = "",
    access_key: cluster.AccessKey = None,
    tls_config: cluster.TlsFile = None,
) -> None:
    """Consume the messages of a topic as a member of a group.

    The members of a group share the queues. A message is committed after it was written, so that a crash repeats
    messages and loses none. To look without consuming, use tail.

    Ends after --count messages, after --idle seconds, or with SIGINT (Ctrl-C) or SIGTERM: exit code 0. 1: the cluster
    cannot be reached or says no. 2: what was asked for is wrong.
    """
    from hanabi.cli.shared.message_line import message_line
    from hanabi.client.consumer.pull.lite_pull import LitePullConsumer
    from hanabi.remoting.loop import run

    expression = choice.expression_of(tags, sql)
    config = cluster.client_config(namesrv, namespace, access_key, tls_config)
    form = message_form.message_form(full=full, template=format, raw=raw, json=json)
    start = _consume_from(from_)
    configure_logging(LogLevel.WARNING, as_json=False)

    with cluster.errors_as_exit_code(), output() as write:

        def show(message: "StoredMessage") -> None:
            line = message_line(message)
            write(json_line(line) if json else form(line))

        async def work() -> None:
            consumer = LitePullConsumer(group, config=config, auto_commit=False, consume_from=start)
            consumer.subscribe(topic, expression)
            with stop_signals() as stopped:
                try:
                    await until(stopped, _start(consumer, topic))
                    await _consume(consumer, show, stopped, count, idle)
                finally:
                    await consumer.shutdown()

        try:
            run(work())
        except SubscriptionParseFailed as error:
            raise ConfigError(f"--sql {sql}: {error}") from error
        except KeyboardInterrupt:  # where no handler can be set for it
            return


async def _start(consumer: "LitePullConsumer", topic: str) -> None:
    """Join the group, and print to stderr that messages can come.

    Raise if name servers or a broker do not answer: the consumer itself would wait for them.
    """
    await consumer.start()
    queues = await consumer.queues_of(topic)
    one_of_each = {queue.broker_name: queue for queue in queues}
    await asyncio.gather(*map(consumer.end_offset, one_of_each.values()))
    count = len(queues)
    typer.echo(f"consuming {topic} in group {consumer.group}: {count} {'queue' if count == 1 else 'queues'}", err=True)


async def _consume(
    consumer: "LitePullConsumer",
    show: "Callable[[StoredMessage], None]",
    stopped: asyncio.Event,
    count: int | None,
    idle: float | None,
) -> None:
    """Write and commit messages until *count* of them, *idle* seconds without one, or the end by a signal."""
    left = count
    stopping = asyncio.create_task(stopped.wait())
    try:
        while left != 0 and not stopped.is_set():
            wanted = BATCH if left is None else min(BATCH, left)
            polling = asyncio.create_task(consumer.poll(idle or POLL_SECONDS, count=wanted))
            try:
                await asyncio.wait((polling, stopping), return_when=asyncio.FIRST_COMPLETED)
            finally:
                polling.cancel()  # nothing happens to what is done
            messages = await polling if polling.done() else []
            if not messages and idle is not None:
                return
            for message in messages:
                show(message)
            sys.stdout.flush()  # the reader of a pipe wants it now, and must have it before the commit
            if messages:
                await consumer.commit()
            left = None if left is None else left - len(messages)
    finally:
        stopping.cancel()


def _consume_from(text: str) -> "ConsumeFrom":
    start = choice.start_of(text)
    return datetime.fromtimestamp(start / 1000, UTC) if isinstance(start, int) else start
