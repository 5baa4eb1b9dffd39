"""A simple consumer that is used wrongly."""

import hanabi

with hanabi.SimpleConsumer("billing", invisible=30) as consumer:  # refused
    for message in consumer.receive("16"):  # refused
        consumer.ack(message.message_id)  # refused
