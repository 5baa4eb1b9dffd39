"""Filters: by tag, and by SQL92 over properties (Apache's brokers need enablePropertyFilter=true for it).

python filters.py 127.0.0.1:9876
"""

import queue
import sys

import hanabi

namesrv = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"

with hanabi.Producer("shop", namesrv=namesrv) as producer:
    for tag, amount in (("created", 50), ("paid", 150), ("paid", 20), ("cancelled", 500)):
        properties = {"amount": str(amount)}
        producer.send(hanabi.Message("Payments", f"{tag} {amount}".encode(), tags=tag, properties=properties))


def seen_by(consumer: hanabi.PushConsumer, count: int) -> list[str]:
    arrived: queue.Queue[str] = queue.Queue()

    @consumer.listener
    def keep(messages: list[hanabi.StoredMessage]) -> None:
        for message in messages:
            arrived.put(message.body.decode())

    with consumer:
        return sorted(arrived.get(timeout=30) for _ in range(count))


by_tag = hanabi.PushConsumer("by-tag", namesrv=namesrv, consume_from="first")
by_tag.subscribe("Payments", "created || paid")
print("created or paid:", seen_by(by_tag, 3))

by_sql = hanabi.PushConsumer("by-sql", namesrv=namesrv, consume_from="first")
by_sql.subscribe("Payments", hanabi.sql("amount > 100"))
print("more than 100:", seen_by(by_sql, 2))
