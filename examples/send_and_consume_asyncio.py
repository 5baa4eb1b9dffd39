"""Normal messages for asyncio: many sends at once, an `async def` listener.

python send_and_consume_asyncio.py 127.0.0.1:9876
"""

import asyncio
import sys

import hanabi.aio
from hanabi import Message, StoredMessage

namesrv = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"


async def main() -> None:
    async with hanabi.aio.Producer("sensors", namesrv=namesrv) as producer:
        first = await producer.send(Message("Readings", b"reading 0"))  # awaits the broker's answer
        others = await producer.send_many([Message("Readings", f"reading {n}".encode()) for n in range(1, 500)])
        print(f"sent {len({first.message_id, *(each.message_id for each in others)})} messages")

    consumer = hanabi.aio.PushConsumer("averages", namesrv=namesrv, consume_from="first", consume_batch=32)
    consumer.subscribe("Readings")
    seen: set[str] = set()
    all_seen = asyncio.Event()

    @consumer.listener
    async def average(messages: list[StoredMessage]) -> None:
        seen.update(message.message_id for message in messages)
        if len(seen) >= 500:
            all_seen.set()

    async with consumer:
        await asyncio.wait_for(all_seen.wait(), 30)
    print(f"consumed {len(seen)} messages")


asyncio.run(main())
