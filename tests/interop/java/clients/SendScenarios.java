import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.MessageQueueSelector;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.producer.RequestResponseFuture;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Every way to send. */
class SendScenarios {
    static void addTo(Map<String, ClientDriver.Scenario> scenarios) {
        scenarios.put("send_sync", SendScenarios::sync);
        scenarios.put("send_async", SendScenarios::async);
        scenarios.put("send_oneway", SendScenarios::oneway);
        scenarios.put("send_batch", SendScenarios::batch);
        scenarios.put("send_compressed", SendScenarios::compressed);
        scenarios.put("send_selector", SendScenarios::selector);
        scenarios.put("send_refused", SendScenarios::refused);
        scenarios.put("request_reply", SendScenarios::requestReply);
        scenarios.put("trace", SendScenarios::trace);
    }

    private static void sync(Stage stage) throws Exception {
        String topic = stage.topic(4);
        Inbox inbox = stage.inbox(topic);
        DefaultMQProducer producer = stage.producer();
        Map<String, SendResult> results = new HashMap<>();
        for (String body : Stage.numbered("sync ", 20)) {
            Message message = new Message(topic, "TagA", "key-" + body.substring(5) + " common", 7, Stage.bytes(body), true);
            message.putUserProperty("colour", "grün 緑");
            results.put(body, Stage.sent(producer.send(message)));
        }
        Wait.equal(4, (int) results.values().stream().map(SendResult::getMessageQueue).distinct().count(), "queues used");
        inbox.awaitExactly(results.keySet());
        for (Inbox.Arrival arrival : inbox.all()) {
            MessageExt message = arrival.message;
            SendResult result = results.get(arrival.body());
            Wait.equal(result.getMsgId(), message.getMsgId(), "message id");
            Wait.equal(result.getQueueOffset(), message.getQueueOffset(), "queue offset");
            Wait.equal(result.getMessageQueue().getQueueId(), message.getQueueId(), "queue");
            Wait.equal("TagA", message.getTags(), "tags");
            Wait.equal("key-" + arrival.body().substring(5) + " common", message.getKeys(), "keys");
            Wait.equal("grün 緑", message.getUserProperty("colour"), "property");
            Wait.equal(7, message.getFlag(), "flag");
        }
        SendResult one = results.get("sync 3");
        MessageExt byPlace = stage.troupe.admin.viewMessage(topic, one.getOffsetMsgId());
        Wait.equal("sync 3", Stage.text(byPlace.getBody()), "message by its offset id");
        MessageExt byId = stage.troupe.admin.viewMessage(topic, one.getMsgId());
        Wait.equal("sync 3", Stage.text(byId.getBody()), "message by its unique id");
        List<MessageExt> byKey = producer.queryMessage(topic, "key-3", 10, 0, System.currentTimeMillis() + 60_000).getMessageList();
        Wait.equal(1, byKey.size(), "messages with key-3");
        Wait.equal("sync 3", Stage.text(byKey.get(0).getBody()), "message by its key");
        Wait.equal(20, producer.queryMessage(topic, "common", 64, 0, System.currentTimeMillis() + 60_000).getMessageList().size(),
            "messages with the key common");
    }

    private static void async(Stage stage) throws Exception {
        String topic = stage.topic(2);
        Inbox inbox = stage.inbox(topic);
        DefaultMQProducer producer = stage.producer();
        List<String> bodies = Stage.numbered("async ", 50);
        CountDownLatch answered = new CountDownLatch(bodies.size());
        Set<String> ids = ConcurrentHashMap.newKeySet();
        List<Throwable> errors = new ArrayList<>();
        for (String body : bodies) {
            producer.send(new Message(topic, Stage.bytes(body)), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    ids.add(result.getMsgId());
                    answered.countDown();
                }

                @Override
                public void onException(Throwable error) {
                    synchronized (errors) {
                        errors.add(error);
                    }
                    answered.countDown();
                }
            });
        }
        Wait.check(answered.await(30, TimeUnit.SECONDS), "not all sends were answered");
        Wait.equal(List.of(), errors, "errors");
        Wait.equal(bodies.size(), ids.size(), "ids");
        inbox.awaitExactly(bodies);
    }

    private static void oneway(Stage stage) throws Exception {
        String topic = stage.topic(2);
        Inbox inbox = stage.inbox(topic);
        DefaultMQProducer producer = stage.producer();
        List<String> bodies = Stage.numbered("oneway ", 20);
        for (String body : bodies) {
            producer.sendOneway(new Message(topic, Stage.bytes(body)));
        }
        inbox.awaitExactly(bodies);
    }

    private static void batch(Stage stage) throws Exception {
        String topic = stage.topic(2);
        Inbox inbox = stage.inbox(topic);
        DefaultMQProducer producer = stage.producer();
        List<String> bodies = Stage.numbered("batch ", 30);
        List<Message> messages = new ArrayList<>();
        for (String body : bodies) {
            Message message = new Message(topic, "TagB", "k" + body.substring(6), Stage.bytes(body));
            message.putUserProperty("number", body.substring(6));
            messages.add(message);
        }
        SendResult result = Stage.sent(producer.send(messages));
        Wait.equal(bodies.size(), result.getMsgId().split(",").length, "message ids");
        Wait.equal(bodies.size(), result.getOffsetMsgId().split(",").length, "offset ids");
        inbox.awaitExactly(bodies);
        Set<Long> offsets = new HashSet<>();
        Set<String> ids = new HashSet<>();
        for (Inbox.Arrival arrival : inbox.all()) {
            Wait.equal(arrival.body().substring(6), arrival.message.getUserProperty("number"), "property");
            Wait.equal("TagB", arrival.message.getTags(), "tags");
            Wait.equal(result.getMessageQueue().getQueueId(), arrival.message.getQueueId(), "queue");
            offsets.add(arrival.message.getQueueOffset());
            ids.add(arrival.message.getMsgId());
        }
        Wait.equal(bodies.size(), offsets.size(), "queue offsets");
        if (ids.size() > 1) { // 5.x's client gives the batch an id as well, and Apache's brokers give it to each message
            Wait.equal(new HashSet<>(Arrays.asList(result.getMsgId().split(","))), ids, "ids");
        }
    }

    private static void compressed(Stage stage) throws Exception {
        String topic = stage.topic(1);
        Inbox inbox = stage.inbox(topic);
        DefaultMQProducer producer = stage.producer();
        String long1 = "hanabi ".repeat(20_000);
        char[] noise = new char[60_000];
        Random random = new Random(7);
        for (int i = 0; i < noise.length; i++) {
            noise[i] = (char) (32 + random.nextInt(95));
        }
        String long2 = new String(noise);
        Stage.send(producer, topic, "A", long1);
        Stage.send(producer, topic, "A", long2);
        inbox.awaitBodies(List.of(long1, long2));
        for (Inbox.Arrival arrival : inbox.all()) {
            Wait.check(arrival.message.getStoreSize() < arrival.message.getBody().length, "it was stored as it was");
        }
    }

    private static void selector(Stage stage) throws Exception {
        String topic = stage.topic(4);
        Inbox inbox = stage.inbox(topic);
        DefaultMQProducer producer = stage.producer();
        MessageQueueSelector byNumber = (queues, message, number) -> queues.get((Integer) number % queues.size());
        List<String> bodies = Stage.numbered("selected ", 40);
        Map<String, Integer> queues = new HashMap<>();
        for (int i = 0; i < bodies.size(); i++) {
            SendResult result = Stage.sent(producer.send(new Message(topic, Stage.bytes(bodies.get(i))), byNumber, i));
            queues.put(bodies.get(i), result.getMessageQueue().getQueueId());
            Wait.equal((long) (i / 4), result.getQueueOffset(), "queue offset of message " + i);
        }
        inbox.awaitExactly(bodies);
        for (Inbox.Arrival arrival : inbox.all()) {
            Wait.equal(queues.get(arrival.body()), arrival.message.getQueueId(), "queue of " + arrival.body());
        }
    }

    /** What a broker does not take; the client has limits of its own, which must not be reached first. */
    private static void refused(Stage stage) throws Exception {
        String topic = stage.topic(1);
        DefaultMQProducer producer = stage.producer();
        producer.setMaxMessageSize(64 << 20);
        producer.setRetryTimesWhenSendFailed(0);
        producer.setCompressMsgBodyOverHowmuch(64 << 20);
        expectCode(producer, new Message(topic, new byte[(4 << 20) + 100_000]), 13);
        Message wordy = new Message(topic, Stage.bytes("wordy"));
        wordy.putUserProperty("novel", "x".repeat(33_000));
        expectCode(producer, wordy, 13);
        Inbox inbox = stage.inbox(topic);
        Stage.send(producer, topic, "A", "after");
        inbox.awaitExactly(List.of("after"));
    }

    private static void expectCode(DefaultMQProducer producer, Message message, int code) throws Exception {
        try {
            producer.send(message);
        } catch (Exception error) {
            Throwable cause = error.getCause() != null ? error.getCause() : error;
            int found = (Integer) cause.getClass().getMethod("getResponseCode").invoke(cause);
            Wait.equal(code, found, "code of " + error);
            return;
        }
        throw new AssertionError("a message was taken that should be refused with " + code);
    }

    private static void requestReply(Stage stage) throws Exception {
        String topic = stage.topic(2);
        DefaultMQProducer replier = new DefaultMQProducer(stage.unique("PR"));
        replier.setInstanceName(stage.unique("replier"));
        stage.started(replier);
        DefaultMQPushConsumer consumer = stage.consumer(stage.unique("G"));
        consumer.setInstanceName(stage.unique("replier"));
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                try {
                    byte[] body = Stage.bytes("reply to " + Stage.text(message.getBody()));
                    Stage.sent(replier.send(MessageUtil.createReplyMessage(message, body), 10_000));
                } catch (Exception error) {
                    error.printStackTrace();
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        DefaultMQProducer requester = new DefaultMQProducer(stage.unique("PQ"));
        requester.setInstanceName(stage.unique("requester"));
        stage.started(requester);
        if (waitsForReplies()) {
            for (String body : Stage.numbered("request ", 3)) {
                Message reply = requester.request(new Message(topic, Stage.bytes(body)), 30_000);
                Wait.equal("reply to " + body, Stage.text(reply.getBody()), "reply");
            }
        }
        CompletableFuture<Message> later = new CompletableFuture<>();
        // Not the shortest of these methods: in 4.9.8 that one calls back when the request was sent.
        requester.request(new Message(topic, Stage.bytes("async")), (list, message, index) -> list.get(0), 0, new RequestCallback() {
            @Override
            public void onSuccess(Message reply) {
                later.complete(reply);
            }

            @Override
            public void onException(Throwable error) {
                later.completeExceptionally(error);
            }
        }, 30_000);
        Wait.equal("reply to async", Stage.text(later.get(30, TimeUnit.SECONDS).getBody()), "reply");
    }

    /** In 5.3.3 a request that should wait for its reply waits only until it was sent, whatever the broker does. */
    private static boolean waitsForReplies() {
        return Arrays.stream(RequestResponseFuture.class.getMethods())
            .noneMatch(method -> method.getName().equals("acquireCountDownLatch"));
    }

    private static void trace(Stage stage) throws Exception {
        String topic = stage.topic(1);
        DefaultMQPushConsumer traces = stage.consumer(stage.unique("GT"));
        traces.setInstanceName(stage.unique("traces"));
        traces.subscribe("RMQ_SYS_TRACE_TOPIC", "*");
        Inbox traced = stage.inbox(traces);
        DefaultMQProducer producer = new DefaultMQProducer(stage.unique("P"), null, true, null);
        producer.setInstanceName(stage.unique("producer"));
        stage.started(producer);
        DefaultMQPushConsumer consumer = stage.prepared(
            new DefaultMQPushConsumer(stage.unique("G"), null, new AllocateMessageQueueAveragely(), true, null));
        consumer.setInstanceName(stage.unique("consumer"));
        consumer.subscribe(topic, "*");
        Inbox inbox = stage.inbox(consumer);
        SendResult result = Stage.sent(producer.send(new Message(topic, "A", "traced", Stage.bytes("hello"))));
        inbox.awaitExactly(List.of("hello"));
        for (String kind : List.of("Pub", "SubBefore", "SubAfter")) {
            Wait.until("a trace of kind " + kind, () -> traced.all().stream().anyMatch(arrival ->
                arrival.body().contains(kind + "\u0001") && arrival.body().contains(result.getMsgId())));
        }
    }
}
