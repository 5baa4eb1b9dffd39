"""Consumer of the sample orders; runs until it is stopped.

python consumer.py 127.0.0.1:9876
"""

import sys

import hanabi

namesrv = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
consumer = hanabi.PushConsumer("sample-billing", namesrv=namesrv, consume_from="first")
consumer.subscribe("SampleOrders")


@consumer.listener
def bill(messages: list[hanabi.StoredMessage]) -> None:
    for message in messages:
        print(f"billed {message.body.decode()}", flush=True)


consumer.run()  # until SIGTERM or SIGINT
