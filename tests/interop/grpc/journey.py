"""The Python client of RocketMQ 5 at its defaults: ENDPOINT TOPIC GROUP COUNT. One line on stdout for each message."""

import sys
import time

from rocketmq import ClientConfiguration, Credentials, FilterExpression, Message, Producer, SimpleConsumer

endpoint, topic, group, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
config = ClientConfiguration(endpoint, Credentials())
producer = Producer(config, (topic,))
producer.startup()
consumer = SimpleConsumer(config, group, {topic: FilterExpression()})
consumer.startup()
for number in range(count):
    message = Message()
    message.topic = topic
    message.body = f"message {number}".encode()
    message.tag = "tag"
    message.keys = f"key-{number}"
    message.add_property("colour", "blue")
    producer.send(message)
received = 0
deadline = time.monotonic() + 60
while received < count and time.monotonic() < deadline:
    for message in consumer.receive(16, 30) or []:
        keys, colour = ",".join(message.keys), message.properties["colour"]
        sys.stdout.write(f"received|{message.body.decode()}|{message.tag}|{keys}|{colour}\n")
        consumer.ack(message)
        received += 1
producer.shutdown()
consumer.shutdown()
sys.stdout.write("stopped\n")
