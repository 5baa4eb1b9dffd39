"""Request and reply: a message whose consumer replies to its producer.

python request_reply.py 127.0.0.1:9876
"""

import asyncio
import sys

import hanabi.aio
from hanabi import Message, StoredMessage

namesrv = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"


async def main() -> None:
    async with hanabi.aio.Producer("calculators", namesrv=namesrv) as producer:
        await producer.send(Message("Sums", b"0 0"))  # creates the topic, if brokers may create topics
        consumer = hanabi.aio.PushConsumer("adders", namesrv=namesrv)
        consumer.subscribe("Sums")

        @consumer.listener
        async def add(messages: list[StoredMessage]) -> None:
            for message in messages:
                if "REPLY_TO_CLIENT" in message.properties:  # the first message was not a request
                    await producer.reply(message, str(sum(map(int, message.body.split()))).encode())

        async with consumer:
            for question in (b"1 2", b"20 22"):
                answer = await producer.request(Message("Sums", question), timeout=30)
                print(f"{question.decode().replace(' ', ' + ')} = {answer.body.decode()}")


asyncio.run(main())
