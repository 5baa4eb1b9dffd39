// rocketmq-rust's client against a cluster, for the tests of this folder.
//
//   rust-peer send NAMESRV TOPIC COUNT                          one line a message: its status and its id
//   rust-peer consume NAMESRV TOPIC GROUP TAGS SECONDS [orderly]
//
// `consume` writes "started", then one line a message: milliseconds since the start, queue, offset, tag, keys, body.
#![recursion_limit = "512"]

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rocketmq_client_rust::{
    ClientResult, ClientRuntime, ClientRuntimeConfig, ConsumeConcurrentlyContext, ConsumeConcurrentlyStatus,
    ConsumeOrderlyContext, ConsumeOrderlyStatus, DefaultMQProducer, DefaultMQPushConsumer, MQPushConsumer,
    MessageListenerConcurrently, MessageListenerOrderly,
};
use rocketmq_model::common::consumer::consume_from_where::ConsumeFromWhere;
use rocketmq_model::common::message::message_ext::MessageExt;
use rocketmq_model::common::message::message_single::Message;
use rocketmq_observability::TelemetryRuntimeGuard;
use rocketmq_runtime::RuntimeOwner;

struct Printer(Instant);

impl Printer {
    fn print(&self, messages: &[&MessageExt]) {
        let mut out = std::io::stdout().lock();
        for message in messages {
            let property = |name: &str| {
                let found = message.properties().iter().find(|(key, _)| key.as_str() == name);
                found.map(|(_, value)| value.to_string()).unwrap_or_default()
            };
            let body = message.body().unwrap_or_default();
            writeln!(
                out,
                "got {} {} {} {} {} {}",
                self.0.elapsed().as_millis(),
                message.queue_id(),
                message.queue_offset(),
                property("TAGS"),
                property("KEYS"),
                String::from_utf8_lossy(&body)
            )
            .expect("stdout is read");
        }
        out.flush().expect("stdout is read");
    }
}

impl MessageListenerConcurrently for Printer {
    fn consume_message(
        &self,
        messages: &[&MessageExt],
        _: &ConsumeConcurrentlyContext,
    ) -> ClientResult<ConsumeConcurrentlyStatus> {
        self.print(messages);
        Ok(ConsumeConcurrentlyStatus::ConsumeSuccess)
    }
}

impl MessageListenerOrderly for Printer {
    fn consume_message(
        &self,
        messages: &[&MessageExt],
        _: &mut ConsumeOrderlyContext,
    ) -> ClientResult<ConsumeOrderlyStatus> {
        self.print(messages);
        Ok(ConsumeOrderlyStatus::Success)
    }
}

async fn send(runtime: Arc<ClientRuntime>, namesrv: &str, topic: &str, count: usize) -> ClientResult<()> {
    let mut producer = DefaultMQProducer::builder(runtime)
        .producer_group("rust_producers")
        .name_server_addr(namesrv)
        .build();
    producer.start().await?;
    for number in 0..count {
        let message = Message::builder()
            .topic(topic)
            .tags(if number % 2 == 0 { "even" } else { "odd" })
            .key(format!("key-{number}"))
            .body_slice(format!("message {number}").as_bytes())
            .build_unchecked();
        println!("{:?}", producer.send_with_timeout(message, 5_000).await?);
    }
    producer.shutdown().await;
    Ok(())
}

async fn consume(runtime: Arc<ClientRuntime>, arguments: &[String]) -> ClientResult<()> {
    let [namesrv, topic, group, tags, seconds] = &arguments[..5] else { unreachable!() };
    let mut consumer = DefaultMQPushConsumer::builder(runtime)
        .consumer_group(group.as_str())
        .name_server_addr(namesrv.as_str())
        .consume_from_where(ConsumeFromWhere::ConsumeFromFirstOffset)
        .build();
    consumer.subscribe(topic.as_str(), tags.as_str()).await?;
    let printer = Printer(Instant::now());
    if arguments.len() > 5 {
        consumer.register_message_listener_orderly(printer);
    } else {
        consumer.register_message_listener_concurrently(printer);
    }
    consumer.start().await?;
    println!("started");
    tokio::time::sleep(Duration::from_secs(seconds.parse().expect("SECONDS is a number"))).await;
    consumer.shutdown().await;
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let owner = RuntimeOwner::new()?;
    let telemetry = TelemetryRuntimeGuard::noop();
    let context = owner.root_context().component("rust-peer");
    let runtime = ClientRuntime::try_new(context, ClientRuntimeConfig::default(), telemetry.handle())?;
    let result = owner.block_on(async {
        let result = match arguments[0].as_str() {
            "send" => send(runtime.clone(), &arguments[1], &arguments[2], arguments[3].parse().expect("a number")).await,
            _ => consume(runtime.clone(), &arguments[1..]).await,
        };
        runtime.shutdown().await;
        result
    });
    owner.shutdown_runtime_blocking()?;
    result?;
    Ok(())
}
