"""Producer of one order a second; runs until it is stopped, also while a broker is unavailable.

python producer.py 127.0.0.1:9876 [SECONDS between orders]
"""

import signal
import sys
import threading
import time

import hanabi

namesrv = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
pause_seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 1.0

stopped = threading.Event()
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda *_: stopped.set())

with hanabi.Producer("sample-shop", namesrv=namesrv) as producer:
    order = 0
    while not stopped.wait(pause_seconds):
        order += 1
        key = f"order-{int(time.time())}-{order}"
        message = hanabi.Message("SampleOrders", b'{"order": %d}' % order, tags="created", keys=[key])
        try:
            result = producer.send(message)
        except hanabi.MQError as error:
            print(f"{key} was not sent: {error}", flush=True)
        else:
            print(f"{key} sent: {result.queue.broker_name}/{result.queue.queue_id}@{result.queue_offset}", flush=True)
