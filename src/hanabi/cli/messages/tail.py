"""`hanabi tail`: show the messages of a topic as they come. Here are options and output; see `tailing` for the rest."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from hanabi.cli.logs.log_output import LogLevel, configure_logging
from hanabi.cli.messages import choice
from hanabi.cli.shared import cluster, completion, message_form
from hanabi.cli.shared.output import json_line, output
from hanabi.errors import ConfigError, SubscriptionParseFailed

if TYPE_CHECKING:
    from hanabi.cli.messages.tailing import Start
    from hanabi.message import MessageQueue, StoredMessage


Topic = Annotated[
    str, typer.Argument(help="The topic; also %DLQ%GROUP and %RETRY%GROUP.", autocompletion=completion.topics)
]
From = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="first|last|TIME",
        help="Where to begin: with the first message, with what comes now, or with what was stored at this time"
        " (2026-11-15T06:45:00, UTC, or milliseconds).",
    ),
]


def tail(
    topic: Topic,
    tags: choice.Tags = None,
    sql: choice.Sql = None,
    from_: From = choice.LAST,
    count: choice.Count = None,
    full: message_form.Full = False,
    format: message_form.Format = None,
    raw: message_form.Raw = False,
    json: choice.Json = False,
    namesrv: cluster.Namesrv = None,
    namespace: cluster.Namespace = "",
    access_key: cluster.AccessKey = None,
    tls_config: cluster.TlsFile = None,
) -> None:
    """Show the messages of a topic, as they come.

    Looks only: it joins no group, saves no offset and takes no message away from a consumer.

    Ends after --count messages, or with SIGINT (Ctrl-C) or SIGTERM: exit code 0. 1: the cluster cannot be reached or
    says no. 2: what was asked for is wrong.
    """
    from hanabi.cli.messages.tailing import Tail
    from hanabi.cli.shared.message_line import message_line
    from hanabi.remoting.loop import run

    expression = choice.expression_of(tags, sql)
    config = cluster.client_config(namesrv, namespace, access_key, tls_config)
    start = _start(from_)
    form = message_form.message_form(full=full, template=format, raw=raw, json=json)
    configure_logging(LogLevel.WARNING, as_json=False)

    with cluster.errors_as_exit_code(), output() as write:

        def show(message: "StoredMessage") -> None:
            line = message_line(message)
            write(json_line(line) if json else form(line))
            sys.stdout.flush()  # the reader of a pipe wants it now

        async def work() -> None:
            await Tail(config, topic, expression, start, count=count, show=show, on_ready=_show_ready).run()

        try:
            run(work())
        except SubscriptionParseFailed as error:
            raise ConfigError(f"--sql {sql}: {error}") from error
        except KeyboardInterrupt:  # where no handler can be set for it
            return


def _start(text: str) -> "Start":
    from hanabi.cli.messages.tailing import Start

    start = choice.start_of(text)
    return Start(since_ms=start) if isinstance(start, int) else Start(first=start == choice.FIRST)


def _show_ready(queues: list["MessageQueue"]) -> None:
    """Print to stderr, as stdout has the messages."""
    names = sorted({queue.broker_name for queue in queues})
    noun = "queue" if len(queues) == 1 else "queues"
    typer.echo(f"tailing {len(queues)} {noun} of {', '.join(names) or 'no broker'}", err=True)
