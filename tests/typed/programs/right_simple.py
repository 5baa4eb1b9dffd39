"""A simple consumer, which acknowledges single messages."""

import hanabi

with hanabi.SimpleConsumer("billing", namesrv="127.0.0.1:9876", invisible_s=30.0) as consumer:
    consumer.subscribe("Orders")
    for message in consumer.receive(16, wait_s=5.0):
        consumer.ack(message)
