"""A consumer in a process of its own, which may be killed at any moment: python consuming.py NAMESRV FILE NAME.

Each message becomes a line of FILE before the listener returns: time, name of the process, queue, offset, id, body.
"""

import os
import sys
import time

import hanabi

GROUP = "UnderLoad"
TOPIC = "Load"


def main(namesrv: str, path: str, name: str) -> None:
    consumer = hanabi.PushConsumer(GROUP, namesrv=namesrv, consume_from="first", persist_offsets_s=0.5)
    consumer.subscribe(TOPIC)
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    @consumer.listener
    def write(messages: list[hanabi.StoredMessage]) -> None:
        for message in messages:
            place = f"{message.queue_id} {message.queue_offset}"
            os.write(file, f"{time.time()} {name} {place} {message.message_id} {message.body.decode()}\n".encode())

    consumer.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
