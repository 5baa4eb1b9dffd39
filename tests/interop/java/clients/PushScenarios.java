import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/** Push consumers: at once and in order, with filters. */
class PushScenarios {
    static void addTo(Map<String, ClientDriver.Scenario> scenarios) {
        scenarios.put("push_concurrently", PushScenarios::concurrently);
        scenarios.put("push_orderly", PushScenarios::orderly);
        scenarios.put("filter_tags", PushScenarios::tags);
        scenarios.put("filter_sql", PushScenarios::sql);
        scenarios.put("filter_sql_broken", PushScenarios::sqlBroken);
        scenarios.put("consume_from_last", PushScenarios::fromLast);
    }

    private static void concurrently(Stage stage) throws Exception {
        String topic = stage.topic(4);
        DefaultMQPushConsumer consumer = stage.consumer(stage.unique("G"));
        consumer.setConsumeMessageBatchMaxSize(8);
        consumer.subscribe(topic, "*");
        DefaultMQProducer producer = stage.producer();
        List<String> before = Stage.numbered("before ", 100);
        for (String body : before) {
            Stage.send(producer, topic, "A", body);
        }
        Inbox inbox = stage.inbox(consumer);
        List<String> all = new ArrayList<>(before);
        for (String body : Stage.numbered("after ", 100)) {
            Stage.send(producer, topic, "A", body);
            all.add(body);
        }
        inbox.awaitExactly(all);
        long sentAt = System.currentTimeMillis();
        Stage.send(producer, topic, "A", "last");
        inbox.awaitBodies(List.of("last"));
        long waited = System.currentTimeMillis() - sentAt;
        Wait.check(waited < 5_000, "a waiting consumer got a message only after " + waited + " ms");
    }

    private static void orderly(Stage stage) throws Exception {
        int queues = 3;
        String topic = stage.topic(queues);
        DefaultMQProducer producer = stage.producer();
        DefaultMQPushConsumer consumer = stage.consumer(stage.unique("G"));
        consumer.subscribe(topic, "*");
        Inbox inbox = new Inbox();
        AtomicInteger overlaps = new AtomicInteger();
        Map<Integer, AtomicInteger> inQueue = new ConcurrentHashMap<>();
        Set<String> failedOnce = ConcurrentHashMap.newKeySet();
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            AtomicInteger others = inQueue.computeIfAbsent(messages.get(0).getQueueId(), id -> new AtomicInteger());
            if (others.incrementAndGet() > 1) {
                overlaps.incrementAndGet();
            }
            try {
                String body = Stage.text(messages.get(0).getBody());
                if (body.endsWith(" 5") && failedOnce.add(body)) {
                    context.setSuspendCurrentQueueTimeMillis(200);
                    return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
                }
                inbox.add(messages);
                return ConsumeOrderlyStatus.SUCCESS;
            } finally {
                others.decrementAndGet();
            }
        });
        consumer.start();
        List<String> all = new ArrayList<>();
        for (int number = 0; number < 30; number++) {
            for (int queue = 0; queue < queues; queue++) {
                String body = "queue " + queue + " " + number;
                Stage.sent(producer.send(new Message(topic, Stage.bytes(body)),
                    (list, message, id) -> list.get((Integer) id), queue));
                all.add(body);
            }
        }
        inbox.awaitExactly(all);
        Map<Integer, Long> last = new HashMap<>();
        for (Inbox.Arrival arrival : inbox.all()) {
            long before = last.getOrDefault(arrival.message.getQueueId(), -1L);
            Wait.equal(before + 1, arrival.message.getQueueOffset(), "next offset in queue " + arrival.message.getQueueId());
            last.put(arrival.message.getQueueId(), arrival.message.getQueueOffset());
        }
        Wait.equal(queues, failedOnce.size(), "messages that were suspended");
        Wait.equal(0, overlaps.get(), "messages of one queue that were consumed at the same time");
    }

    private static void tags(Stage stage) throws Exception {
        String topic = stage.topic(1);
        DefaultMQProducer producer = stage.producer();
        Inbox inbox = stage.inbox(topic, "red || blue || end");
        // "Aa" and "BB" have one hash in Java: the client itself must tell them apart.
        DefaultMQPushConsumer twins = stage.consumer(stage.unique("GH"));
        twins.subscribe(topic, "Aa || end");
        Inbox twin = stage.inbox(twins);
        for (String tag : List.of("red", "green", "blue", "Aa", "BB", "green", "end")) {
            Stage.send(producer, topic, tag, tag);
        }
        Stage.sent(producer.send(new Message(topic, Stage.bytes("no tag at all"))));
        Stage.send(producer, topic, "end", "end again");
        inbox.awaitExactly(List.of("red", "blue", "end", "end again"));
        twin.awaitExactly(List.of("Aa", "end", "end again"));
    }

    private static void sql(Stage stage) throws Exception {
        String topic = stage.topic(1);
        DefaultMQProducer producer = stage.producer();
        DefaultMQPushConsumer consumer = stage.consumer(stage.unique("G"));
        consumer.subscribe(topic, MessageSelector.bySql("(size BETWEEN 3 AND 5 AND colour IN ('red', 'blue')) OR mark IS NOT NULL"));
        Inbox inbox = stage.inbox(consumer);
        List<String> expected = new ArrayList<>();
        for (String colour : List.of("red", "green", "blue")) {
            for (int size = 1; size <= 6; size++) {
                Message message = new Message(topic, Stage.bytes(colour + " " + size));
                message.putUserProperty("colour", colour);
                message.putUserProperty("size", String.valueOf(size));
                Stage.sent(producer.send(message));
                if (size >= 3 && size <= 5 && !colour.equals("green")) {
                    expected.add(colour + " " + size);
                }
            }
        }
        Message mark = new Message(topic, Stage.bytes("mark"));
        mark.putUserProperty("mark", "x");
        Stage.sent(producer.send(mark));
        expected.add("mark");
        inbox.awaitExactly(expected);
    }

    private static void sqlBroken(Stage stage) throws Exception {
        String topic = stage.topic(1);
        DefaultMQPushConsumer consumer = stage.consumer(stage.unique("G"));
        consumer.setInstanceName(stage.unique("broken"));
        consumer.subscribe(topic, MessageSelector.bySql("size BETWEEN 3 AND"));
        try {
            stage.inbox(consumer);
        } catch (MQClientException refused) {
            Wait.equal(23, refused.getResponseCode(), "code of " + refused);
            return;
        }
        throw new AssertionError("a broken expression was taken");
    }

    /** A new group begins behind what was there, unless the queue is so young that nothing was ever deleted from it. */
    private static void fromLast(Stage stage) throws Exception {
        String topic = stage.topic(1);
        DefaultMQProducer producer = stage.producer();
        Stage.send(producer, topic, "A", "first");
        Inbox all = stage.inbox(topic);
        all.awaitExactly(List.of("first"));
        DefaultMQPushConsumer consumer = stage.consumer(stage.unique("GL"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET);
        consumer.subscribe(topic, "*");
        Inbox inbox = stage.inbox(consumer);
        inbox.awaitBodies(List.of("first"));
        Stage.send(producer, topic, "A", "second");
        inbox.awaitExactly(List.of("first", "second"));
    }
}
