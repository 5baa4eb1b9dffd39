'use strict';
// rocketmq, a client from npm, against a cluster. The same commands and lines as those of ../rust/src/main.rs:
//   node rocketmq_peer.js send NAMESRV TOPIC COUNT
//   node rocketmq_peer.js consume NAMESRV TOPIC GROUP TAGS SECONDS
const co = require('co');
const { Consumer, Message, Producer } = require('rocketmq');

const [command, namesrvAddr, topic, ...more] = process.argv.slice(2);
const logger = { debug() {}, info() {}, warn() {}, error: console.error };
// It asks for an httpclient, and uses none when the name servers are given.
const base = { namesrvAddr, httpclient: {}, logger };

async function send(count) {
  const producer = new Producer({ ...base, producerGroup: 'NpmProducers' });
  producer.on('error', console.error);
  await producer.ready();
  for (let i = 0; i < count; i++) {
    const message = new Message(topic, i % 2 ? 'odd' : 'even', `message ${i}`);
    message.keys = [`key-${i}`];
    const { sendStatus, msgId } = await co(producer.send(message)); // a generator
    console.log(sendStatus, msgId);
  }
  process.exit(0);
}

async function consume(consumerGroup, tags, seconds) {
  const started = Date.now();
  const consumer = new Consumer({ ...base, consumerGroup, consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET' });
  consumer.on('error', console.error);
  // This client understands generators, and promises.
  consumer.subscribe(topic, tags, function* (got) {
    const { queueId, queueOffset, tags: tag, keys, body } = got;
    console.log('got', Date.now() - started, queueId, String(queueOffset), tag, keys, body.toString());
  });
  await consumer.ready();
  console.log('started');
  setTimeout(() => consumer.close().then(() => process.exit(0)), seconds * 1000);
}

const done = command === 'send' ? send(Number(more[0])) : consume(more[0], more[1], Number(more[2]));
done.catch(error => {
  console.error(error);
  process.exit(1);
});
