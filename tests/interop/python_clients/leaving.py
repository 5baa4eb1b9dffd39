"""Consumers that leave as soon as they have come, or before. The Java driver has nothing like it."""

import asyncio
import contextlib

from hanabi.client.consumer.pull.lite_pull import LitePullConsumer
from hanabi.errors import MQError
from tests.interop.python_clients.stage import PATIENCE_S, Stage

ROUNDS = 15


async def leave_at_once(stage: Stage) -> None:
    """Nobody stays a member: not one that starts and leaves, nor one whose start is given up half way."""
    topic = await stage.topic(2)
    core = await stage.core()  # its connections stay, so the broker cannot tell by these who has left
    await core.routes.find(topic)
    for number in range(ROUNDS):
        pushing = stage.consumer()
        pushing.subscribe(topic)
        pushing.listener(lambda messages: None)
        polling = LitePullConsumer(stage.unique("G_LITE"), config=stage.config)
        polling.subscribe(topic)
        for consumer in (pushing, polling):
            async with consumer:
                pass
            await _nobody(stage, consumer.group, f"{number}: started and left")
            starting = asyncio.create_task(consumer.start())
            await asyncio.sleep(0.0005 * number)
            starting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await starting
            await consumer.shutdown()
            await _nobody(stage, consumer.group, f"{number}: the start was cancelled")
            starting = asyncio.create_task(consumer.start())
            await asyncio.sleep(0.0005 * number)
            await consumer.shutdown()
            with contextlib.suppress(MQError):
                await starting
            await _nobody(stage, consumer.group, f"{number}: the start was overtaken")


async def _nobody(stage: Stage, group: str, when: str) -> None:
    core = await stage.core()
    try:
        members = await core.api.consumer_ids(await stage.broker(), group, PATIENCE_S)
    except MQError:  # so brokers answer for a group that has nobody
        members = []
    assert not members, f"{when}: {members} are still members of {group}"
