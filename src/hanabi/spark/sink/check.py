"""Checks of the destination before any row is sent. They run on the driver when a query is planned."""

import asyncio
from pathlib import Path
from urllib.parse import unquote, urlsplit

from hanabi.client.blocking.loop_thread import LoopThread
from hanabi.client.cluster.core import Core
from hanabi.client.cluster.routes import Route
from hanabi.errors import BrokerError, ConfigError, MQError, TopicNotExist
from hanabi.spark.broker.retrying import patiently
from hanabi.spark.sink.options import SinkOptions
from hanabi.wire.bodies.heartbeat import HeartbeatData, ProducerData
from hanabi.wire.system_names import DEFAULT_TOPIC


def check_destination(options: SinkOptions, *, patience_s: float = 0.0) -> None:
    """Raise unless a name server answers, the topic can be written or created, and its brokers accept our credentials.

    Rows may name other topics, which are not checked. Unreachable servers are retried for *patience_s*.
    """

    async def check() -> None:
        core = await Core.acquire(options.client)
        try:
            await patiently(lambda: _check(core, options), patience_s)
        finally:
            await core.release()

    loop = LoopThread.acquire()
    try:
        loop.run(check())
    finally:
        loop.release()


def has_finished_batches(checkpoint: str | None) -> bool:
    """Return whether a stream has completed its first batch: then its cluster existed and is worth waiting for.

    Returns True if the checkpoint cannot be inspected. A Python worker has no JVM, so it cannot resolve a path without
    a scheme (`fs.defaultFS`). But Spark writes `metadata` before it asks for a writer: a checkpoint without it is not
    on this disk.
    """
    if checkpoint is None:
        return True
    url = urlsplit(checkpoint)
    if url.scheme not in ("", "file"):
        return True
    folder = Path(unquote(url.path) if url.scheme else checkpoint)
    if not (folder / "metadata").is_file():
        return True
    commits = folder / "commits"
    return commits.is_dir() and any(each.name.isdecimal() for each in commits.iterdir())


async def _check(core: Core, options: SinkOptions) -> None:
    try:
        route = await core.routes.find(options.topic or DEFAULT_TOPIC, allow_default=True, fresh=True)
    except TopicNotExist as error:
        if options.topic is None:
            return  # a name server answered, which is all that is checked
        raise TopicNotExist(
            f"no broker serves topic {options.topic}, and none makes topics by itself: create it, such as by"
            f" `hanabi topic create {options.topic}`"
        ) from error
    if options.topic is not None and not route.write_queues:
        raise ConfigError(f"no queue of topic {options.topic} can be written: a master is down, or it is read-only")
    await _authenticate(core, options, route)


async def _authenticate(core: Core, options: SinkOptions, route: Route) -> None:
    """Authenticate with the brokers of *route*, which check every request. An unreachable broker is skipped."""
    data = HeartbeatData(
        client_id=core.client_id, consumer_data_set=[], producer_data_set=[ProducerData(group_name=options.group)]
    )
    masters = [address for name in route.brokers if (address := route.master_of(name)) is not None]
    answers = await asyncio.gather(
        *(core.api.heartbeat(address, data, core.config.request_timeout_s) for address in masters),
        return_exceptions=True,
    )
    errors = [answer for answer in answers if isinstance(answer, BaseException)]
    refusals = [error for error in errors if isinstance(error, BrokerError) or not isinstance(error, MQError)]
    if refusals or (errors and len(errors) == len(masters)):
        raise (refusals or errors)[0]
