"""A blocking producer: options, delays, ordering keys, futures."""

from datetime import UTC, datetime, timedelta

import hanabi

with hanabi.Producer("shop", namesrv="127.0.0.1:9876", retries=3, compression="zlib", trace=True) as producer:
    result = producer.send(hanabi.Message("Orders", b"paid", tags="paid", keys=["43"], ordering_key="order 43"))
    queue: hanabi.MessageQueue = result.queue
    producer.send(hanabi.Message("Reminders", b"pay", delay=timedelta(hours=2)))
    producer.send(hanabi.Message("Reminders", b"pay", deliver_at=datetime(2030, 1, 1, tzinfo=UTC)))
    future = producer.send_future(hanabi.Message("Orders", b"later"))
    offset: int = future.result().queue_offset
    producer.flush()
