'use strict';
// Sends messages of two tags with ali-ons and consumes those of one, once through a tag and once through SQL:
//   node send_and_receive.js NAMESRV TOPIC COUNT
// Prints one JSON object: what was sent, and what each consumer got.
const { Consumer, Message, Producer } = require('ali-ons');

const [namesrv, topic, count] = process.argv.slice(2);
const logger = { debug() {}, info() {}, warn() {}, error: console.error };
// httpclient finds name servers by a web address; ours is given.
const base = { nameSrv: namesrv, httpclient: {}, logger, accessKeyId: 'nobody', accessKeySecret: 'asks' };

async function main() {
  const producer = new Producer({ ...base, producerGroup: 'NodeProducers' });
  producer.on('error', console.error);
  await producer.ready();
  const sent = [];
  for (let i = 0; i < Number(count); i++) {
    const message = new Message(topic, i % 2 ? 'odd' : 'even', `message ${i}`);
    message.keys = [`key-${i}`];
    message.properties.number = String(i);
    const result = await producer.send(message);
    sent.push([result.sendStatus, result.msgId]);
  }
  const byTag = [];
  const bySql = [];
  const wanted = Number(count) / 2;
  const done = new Promise(resolve => {
    const look = () => byTag.length >= wanted && bySql.length >= wanted && resolve();
    consume('NodeByTag', 'even', byTag, look);
    consume('NodeBySql', { expressionType: 'SQL92', subString: "number > -1 AND TAGS = 'odd'" }, bySql, look);
  });
  await done;
  console.log(JSON.stringify({ sent, byTag, bySql }));
  process.exit(0);
}

function consume(consumerGroup, filter, got, look) {
  const consumer = new Consumer({ ...base, consumerGroup, consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET' });
  consumer.on('error', console.error);
  consumer.subscribe(topic, filter, async message => {
    got.push([message.body.toString(), message.tags, message.keys]);
    look();
  });
}

main().catch(error => {
  console.error(error);
  process.exit(1);
});
