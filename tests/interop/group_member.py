"""A member of a group in Python, as GroupMember.java: prints its queues and what it got, until its input ends."""

import asyncio
import sys

from hanabi.client.config import ClientConfig
from hanabi.client.consumer.push.consumer import PushConsumer
from hanabi.message import StoredMessage


async def main(namesrv: str, group: str, topic: str, name: str) -> None:
    consumer = PushConsumer(
        group, config=ClientConfig(namesrv=namesrv, instance=name, persist_offsets_s=0.5), consume_from="first"
    )
    consumer.subscribe(topic)

    @consumer.listener
    async def tell(messages: list[StoredMessage]) -> None:
        for message in messages:
            sys.stdout.write(f"GOT {message.body.decode()}\n")
        sys.stdout.flush()

    async with consumer:
        ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
        while not ended.done():
            queues = sorted(queue.queue_id for queue in consumer.queues if queue.topic == topic)
            sys.stdout.write(f"QUEUES {','.join(map(str, queues))}\n")
            sys.stdout.flush()
            await asyncio.wait([ended], timeout=0.5)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
