// The Node client of RocketMQ 5 at its defaults: ENDPOINT TOPIC GROUP COUNT. One line on stdout for each message.
const { Producer, SimpleConsumer } = require('rocketmq-client-nodejs');

const [endpoints, topic, consumerGroup, count] = process.argv.slice(2);
const quiet = { debug() {}, info() {}, warn: console.error, error: console.error };

async function main() {
  const producer = new Producer({ endpoints, namespace: '', topics: [topic], logger: quiet });
  await producer.startup();
  const subscriptions = new Map([[topic, '*']]);
  const consumer = new SimpleConsumer({ endpoints, namespace: '', consumerGroup, subscriptions, logger: quiet });
  await consumer.startup();
  for (let number = 0; number < Number(count); number++) {
    const properties = new Map([['colour', 'blue']]);
    await producer.send({ topic, tag: 'tag', keys: [`key-${number}`], properties, body: Buffer.from(`message ${number}`) });
  }
  const deadline = Date.now() + 60_000;
  for (let received = 0; received < Number(count) && Date.now() < deadline;) {
    for (const message of await consumer.receive(16)) {
      console.log(`received|${message.body}|${message.tag}|${message.keys}|${message.properties.get('colour')}`);
      await consumer.ack(message);
      received++;
    }
  }
  await producer.shutdown();
  await consumer.shutdown();
  console.log('stopped');
  process.exit(0);
}

main().catch((error) => { console.error(error); process.exit(1); });
