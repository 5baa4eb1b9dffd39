"""Lite pull: the program polls for messages and commits offsets itself.

python lite_pull.py 127.0.0.1:9876
"""

import sys

import hanabi

namesrv = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"

with hanabi.Producer("import", namesrv=namesrv) as producer:
    producer.send_many([hanabi.Message("Rows", f"row {number}".encode()) for number in range(100)])

consumer = hanabi.LitePullConsumer("warehouse", namesrv=namesrv, consume_from="first", auto_commit=False)
consumer.subscribe("Rows")
rows: set[str] = set()
with consumer:
    while len(rows) < 100:
        messages = consumer.poll(timeout=10)
        assert messages, "nothing came for 10 seconds"
        rows |= {message.body.decode() for message in messages}
        consumer.commit()  # only now are they consumed
    print(f"polled {len(rows)} rows")

    queue = consumer.queues[0]
    consumer.seek_to_begin(queue)  # read this one again
    again = consumer.poll(timeout=10)
    print(f"again from offset {again[0].queue_offset}")

with hanabi.LitePullConsumer("inspection", namesrv=namesrv) as inspection:  # or assign a queue, regardless of its owner
    inspection.assign(inspection.queues_of("Rows")[:1])
    (queue,) = inspection.queues
    inspection.seek(queue, inspection.end_offset(queue) - 1)
    print(
        f"the last one of its queue: {inspection.poll(timeout=10)[0].queue_offset == inspection.end_offset(queue) - 1}"
    )
