import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Consumers that ask for messages themselves. */
class PullScenarios {
    static void addTo(Map<String, ClientDriver.Scenario> scenarios) {
        scenarios.put("pull", PullScenarios::pull);
        scenarios.put("lite_pull_subscribe", PullScenarios::liteSubscribe);
        scenarios.put("lite_pull_assign", PullScenarios::liteAssign);
    }

    private static List<String> sendAll(Stage stage, String topic, int count) throws Exception {
        DefaultMQProducer producer = stage.producer();
        List<String> bodies = Stage.numbered("message ", count);
        for (int i = 0; i < count; i++) {
            Stage.sent(producer.send(new Message(topic, i / 2 % 2 == 0 ? "even" : "odd", Stage.bytes(bodies.get(i)))));
        }
        return bodies;
    }

    @SuppressWarnings("deprecation")
    private static void pull(Stage stage) throws Exception {
        String topic = stage.topic(2);
        long beforeAll = System.currentTimeMillis();
        List<String> bodies = sendAll(stage, topic, 60);
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(stage.unique("G"));
        stage.own(consumer);
        consumer.start();
        stage.atEnd(consumer::shutdown);
        Set<String> found = new HashSet<>();
        Set<MessageQueue> queues = consumer.fetchSubscribeMessageQueues(topic);
        Wait.equal(2, queues.size(), "queues");
        for (MessageQueue queue : queues) {
            long end = consumer.maxOffset(queue);
            Wait.equal(0L, consumer.minOffset(queue), "min offset");
            Wait.equal(0L, consumer.searchOffset(queue, beforeAll - 60_000), "offset of a time before all");
            Wait.equal(0L, consumer.fetchConsumeOffset(queue, true), "offset of a new group in a young queue");
            long next = 0;
            while (next < end) {
                PullResult result = consumer.pull(queue, "*", next, 7);
                Wait.equal(PullStatus.FOUND, result.getPullStatus(), "status");
                Wait.check(result.getMsgFoundList().size() <= 7, "more than asked for");
                Wait.equal(end, result.getMaxOffset(), "max offset");
                result.getMsgFoundList().forEach(message -> found.add(Stage.text(message.getBody())));
                next = result.getNextBeginOffset();
            }
            Wait.equal(PullStatus.NO_NEW_MSG, consumer.pull(queue, "*", end, 7).getPullStatus(), "status at the end");
            PullResult tooFar = consumer.pull(queue, "*", end + 1000, 7);
            Wait.equal(PullStatus.OFFSET_ILLEGAL, tooFar.getPullStatus(), "status behind the end");
            Wait.equal(end, tooFar.getNextBeginOffset(), "where to go on");
            PullResult none = consumer.pull(queue, "neither", 0, 7);
            Wait.equal(PullStatus.NO_MATCHED_MSG, none.getPullStatus(), "status when no tag matches");
            PullResult even = consumer.pull(queue, "even", 0, 32);
            Wait.equal(15, even.getMsgFoundList().size(), "messages with the tag even");
            even.getMsgFoundList().forEach(message -> Wait.equal("even", message.getTags(), "tag"));
            consumer.updateConsumeOffset(queue, end);
            consumer.getDefaultMQPullConsumerImpl().getOffsetStore().updateConsumeOffsetToBroker(queue, end, false);
            Wait.equal(end, consumer.fetchConsumeOffset(queue, true), "committed offset");
        }
        Wait.equal(new HashSet<>(bodies), found, "messages");
        MessageQueue queue = queues.iterator().next();
        long end = consumer.maxOffset(queue);
        DefaultMQProducer producer = new DefaultMQProducer(stage.unique("P2"));
        stage.started(producer);
        Thread late = new Thread(() -> {
            try {
                Thread.sleep(1_000);
                Stage.sent(producer.send(new Message(topic, Stage.bytes("late")), queue));
            } catch (Exception error) {
                error.printStackTrace();
            }
        });
        late.start();
        PullResult held = consumer.pullBlockIfNotFound(queue, "*", end, 7);
        Wait.equal(PullStatus.FOUND, held.getPullStatus(), "status of a pull that was held");
        Wait.equal("late", Stage.text(held.getMsgFoundList().get(0).getBody()), "what woke the pull");
        late.join();
    }

    private static DefaultLitePullConsumer lite(Stage stage, String group) {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(group);
        stage.own(consumer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setAutoCommit(false);
        stage.atEnd(consumer::shutdown);
        return consumer;
    }

    private static void pollUntil(DefaultLitePullConsumer consumer, Set<String> found, int count) throws Exception {
        Wait.until(count + " messages", () -> {
            for (MessageExt message : consumer.poll(500)) {
                found.add(Stage.text(message.getBody()));
            }
            return found.size() >= count;
        });
    }

    private static void liteSubscribe(Stage stage) throws Exception {
        String topic = stage.topic(4);
        List<String> bodies = sendAll(stage, topic, 80);
        String group = stage.unique("G");
        DefaultLitePullConsumer consumer = lite(stage, group);
        consumer.subscribe(topic, "*");
        consumer.start();
        Set<String> found = new HashSet<>();
        pollUntil(consumer, found, bodies.size());
        Wait.equal(new HashSet<>(bodies), found, "messages");
        consumer.commitSync();
        consumer.shutdown();
        DefaultLitePullConsumer second = lite(stage, group);
        second.setInstanceName(stage.unique("second"));
        second.subscribe(topic, "even");
        second.start();
        DefaultMQProducer producer = new DefaultMQProducer(stage.unique("P2"));
        stage.started(producer);
        Stage.send(producer, topic, "odd", "not wanted");
        Stage.send(producer, topic, "even", "new");
        Set<String> more = new HashSet<>();
        pollUntil(second, more, 1);
        Wait.equal(Set.of("new"), more, "messages after the commit");
    }

    private static void liteAssign(Stage stage) throws Exception {
        String topic = stage.topic(2);
        List<String> bodies = sendAll(stage, topic, 40);
        DefaultLitePullConsumer consumer = lite(stage, stage.unique("G"));
        consumer.start();
        Collection<MessageQueue> queues = consumer.fetchMessageQueues(topic);
        Wait.equal(2, queues.size(), "queues");
        List<MessageQueue> assigned = new ArrayList<>(queues);
        consumer.assign(assigned);
        for (MessageQueue queue : assigned) {
            consumer.seek(queue, 10);
        }
        Set<String> half = new HashSet<>();
        pollUntil(consumer, half, 20);
        Wait.equal(20, half.size(), "messages from offset 10 on");
        for (MessageQueue queue : assigned) {
            consumer.seekToBegin(queue);
        }
        Set<String> all = new HashSet<>();
        pollUntil(consumer, all, 40);
        Wait.equal(new HashSet<>(bodies), all, "messages");
        MessageQueue first = assigned.get(0);
        Wait.equal(0L, consumer.offsetForTimestamp(first, 1_000L), "offset for a time before all");
        consumer.commitSync();
        Wait.equal(20L, consumer.committed(first), "committed");
        consumer.pause(assigned);
        consumer.resume(assigned);
    }
}
