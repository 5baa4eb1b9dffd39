"""`hanabi send` and `hanabi tail`, with any cluster. The Java driver has nothing like it."""

import asyncio
import json
import sys
from typing import Any

from hanabi.client.consumer.pull.consumer import PullConsumer
from hanabi.wire.codes import RequestCode
from tests.cli.commands import environment
from tests.interop.python_clients.stage import PATIENCE_S, WAIT_S, Stage, now_ms


async def _hanabi(stage: Stage, *arguments: str, typed: bytes = b"") -> str:
    """Return what the command writes to stdout; it must end well."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "hanabi", *arguments, "-n", stage.namesrv),
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        env=environment(),
    )
    try:
        out, errors = await asyncio.wait_for(process.communicate(typed), WAIT_S)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise
    assert process.returncode == 0, errors.decode()
    return out.decode()


async def command_line(stage: Stage) -> None:
    topic = await stage.topic(2)
    patient = ["--timeout", str(PATIENCE_S)]

    async def send(body: str, *options: str) -> None:
        assert (await _hanabi(stage, "send", topic, body, *options, *patient)).startswith("SEND_OK ")

    async def tail(count: int, *options: str) -> list[dict[str, Any]]:
        out = await _hanabi(stage, "tail", topic, *options, "--count", str(count), "--json")
        return [json.loads(line) for line in out.splitlines()]

    await send("one", "--tags", "a", "--keys", "k", "--property", "size=1")
    await send("two", "--tags", "b", "--property", "size=2")
    await _hanabi(stage, "send", topic, "--lines", *patient, typed=b"three\nfour\n")
    await asyncio.sleep(0.05)
    since = now_ms()
    await send("later", "--delay", "1")
    messages = {message["body"]: message for message in await tail(5, "--from", "first")}
    assert messages.keys() == {"one", "two", "three", "four", "later"}
    assert (messages["one"]["tags"], messages["one"]["keys"]) == ("a", ["k"])
    assert [message["body"] for message in await tail(1, "--from", "first", "--tags", "b || c")] == ["two"]
    assert [message["body"] for message in await tail(1, "--from", "first", "--sql", "size > 1")] == ["two"]
    assert [message["body"] for message in await tail(1, "--from", str(since))] == ["later"]

    core = await stage.core()
    offsets = await core.api.ask(await stage.broker(), RequestCode.GET_ALL_CONSUMER_OFFSET, timeout=PATIENCE_S)
    assert topic.encode() not in offsets.body, "somebody saved an offset"
    reader = await stage.started(PullConsumer(stage.unique("G"), config=stage.config))
    ends = [await reader.end_offset(queue) for queue in await reader.queues_of(topic)]
    assert sum(ends) == 5
