"""A batch: many messages of one topic in as few requests as their size allows.

python batch.py 127.0.0.1:9876
"""

import sys

import hanabi

namesrv = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
lines = [hanabi.Message("AccessLog", f"GET /page/{number}".encode(), tags="get") for number in range(5_000)]

with hanabi.Producer("web", namesrv=namesrv) as producer:
    results = producer.send_batch(lines)  # splits at 1 MiB; a request is stored completely or not at all
    first, last = results[0], results[-1]
    print(f"sent {len(results)} messages to {len({each.queue for each in results})} queue(s)")
    print(f"the first has offset {first.queue_offset}, the last {last.queue_offset}")

with hanabi.PullConsumer("web-report", namesrv=namesrv) as consumer:
    pulled = consumer.pull(first.queue, first.queue_offset, count=3)
    print("stored:", ", ".join(message.body.decode() for message in pulled.messages))
