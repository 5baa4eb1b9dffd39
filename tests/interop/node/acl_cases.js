'use strict';
// Sends and consumes with ali-ons under access control, with the right secret and without rights:
//   node acl_cases.js NAMESRV KEY SECRET ALLOWED FORBIDDEN GROUP
// Prints one JSON object: "OK" or the error of each case.
const { Consumer, Message, Producer } = require('ali-ons');

const [namesrv, key, secret, allowed, forbidden, group] = process.argv.slice(2);
const logger = { debug() {}, info() {}, warn() {}, error() {} };
const BODY = `sent by ali-ons: ${Date.now()}`;

function options(accessKeyId, accessKeySecret, extra) {
  return { nameSrv: namesrv, httpclient: {}, logger, accessKeyId, accessKeySecret, ...extra };
}

async function send(accessKeyId, accessKeySecret, topic, name) {
  // A client is shared by all with one instance name, and with it the credentials.
  const producer = new Producer(options(accessKeyId, accessKeySecret, {
    producerGroup: `Node${name}`, instanceName: name, retryTimesWhenSendFailed: 0,
  }));
  producer.on('error', () => {});
  await producer.ready();
  try {
    const result = await producer.send(new Message(topic, 'tag', BODY));
    return result.sendStatus === 'SEND_OK' ? 'OK' : String(result.sendStatus);
  } catch (error) {
    return String(error.message);
  }
}

function consumed() {
  return new Promise(resolve => {
    const consumer = new Consumer(options(key, secret, {
      consumerGroup: group, instanceName: 'reader', consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
    }));
    consumer.on('error', () => {});
    consumer.subscribe(allowed, '*', async message => {
      if (message.body.toString() === BODY) resolve('OK');
    });
  });
}

async function main() {
  const told = {
    right: await send(key, secret, allowed, 'right'),
    forbidden: await send(key, secret, forbidden, 'forbidden'),
    wrong: await send(key, `${secret}-not`, allowed, 'wrong'),
    stranger: await send('stranger1', secret, allowed, 'stranger'),
  };
  if (told.right === 'OK') told.consumed = await consumed();
  console.log(JSON.stringify(told));
  process.exit(0);
}

main().catch(error => {
  console.error(error);
  process.exit(1);
});
