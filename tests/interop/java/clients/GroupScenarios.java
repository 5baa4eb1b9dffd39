import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/** Several consumers of one group. */
class GroupScenarios {
    static void addTo(Map<String, ClientDriver.Scenario> scenarios) {
        scenarios.put("clustering", GroupScenarios::clustering);
        scenarios.put("broadcasting", GroupScenarios::broadcasting);
        scenarios.put("join_and_leave", GroupScenarios::joinAndLeave);
        scenarios.put("join_and_leave_orderly", GroupScenarios::joinAndLeaveOrderly);
        scenarios.put("reset_offset", GroupScenarios::resetOffset);
    }

    private static DefaultMQPushConsumer member(Stage stage, String topic, String name) throws Exception {
        DefaultMQPushConsumer consumer = stage.consumer(stage.unique("G"));
        consumer.setInstanceName(stage.unique(name));
        consumer.subscribe(topic, "*");
        return consumer;
    }

    private static DefaultMQPushConsumer started(Stage stage, String topic, String name, Inbox inbox) throws Exception {
        DefaultMQPushConsumer consumer = member(stage, topic, name);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            inbox.add(messages, name);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        return consumer;
    }

    private static DefaultMQPushConsumer startedOrderly(Stage stage, String topic, String name, Inbox inbox) throws Exception {
        DefaultMQPushConsumer consumer = member(stage, topic, name);
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            inbox.add(messages, name);
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        return consumer;
    }

    private static Set<Integer> queuesOf(DefaultMQPushConsumer consumer, String topic) {
        return consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet().stream()
            .filter(queue -> queue.getTopic().equals(topic)).map(queue -> queue.getQueueId()).collect(Collectors.toSet());
    }

    private static void awaitShares(String topic, int queues, DefaultMQPushConsumer... consumers) throws Exception {
        Wait.until("equal shares of " + queues + " queues for " + consumers.length, () -> {
            Set<Integer> all = new HashSet<>();
            for (DefaultMQPushConsumer consumer : consumers) {
                Set<Integer> own = queuesOf(consumer, topic);
                if (own.size() != queues / consumers.length) {
                    return false;
                }
                all.addAll(own);
            }
            return all.size() == queues;
        });
    }

    private static void clustering(Stage stage) throws Exception {
        String topic = stage.topic(4);
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer first = started(stage, topic, "first", inbox);
        DefaultMQPushConsumer second = started(stage, topic, "second", inbox);
        awaitShares(topic, 4, first, second);
        DefaultMQProducer producer = stage.producer();
        List<String> bodies = Stage.numbered("shared ", 40);
        for (String body : bodies) {
            Stage.send(producer, topic, "A", body);
        }
        inbox.awaitExactly(bodies);
        Set<String> consumers = inbox.all().stream().map(arrival -> arrival.consumer).collect(Collectors.toSet());
        Wait.equal(Set.of("first", "second"), consumers, "consumers that got messages");
    }

    private static void broadcasting(Stage stage) throws Exception {
        String topic = stage.topic(2);
        List<Inbox> inboxes = new ArrayList<>();
        for (String name : List.of("first", "second")) {
            DefaultMQPushConsumer consumer = member(stage, topic, name);
            var model = consumer.getMessageModel();
            for (var other : model.getDeclaringClass().getEnumConstants()) { // its package is another in 5.x
                if (other.name().equals("BROADCASTING")) {
                    consumer.setMessageModel(other);
                }
            }
            Wait.check(consumer.getMessageModel() != model, "not broadcasting");
            inboxes.add(stage.inbox(consumer));
        }
        DefaultMQProducer producer = stage.producer();
        List<String> bodies = Stage.numbered("to all ", 20);
        for (String body : bodies) {
            Stage.send(producer, topic, "A", body);
        }
        for (Inbox inbox : inboxes) {
            inbox.awaitExactly(bodies);
        }
    }

    /** Send slowly while members come and go. */
    private static List<String> sendWhile(Stage stage, String topic, int queues, Steps steps) throws Exception {
        DefaultMQProducer producer = stage.producer();
        List<String> bodies = new ArrayList<>();
        for (int part = 0; part < 4; part++) {
            for (int number = 0; number < 60; number++) {
                String body = String.format("part %d number %03d", part, number);
                Stage.sent(producer.send(new Message(topic, Stage.bytes(body)), (list, message, id) -> list.get((Integer) id),
                    number % queues));
                bodies.add(body);
                Thread.sleep(5);
            }
            steps.after(part);
        }
        return bodies;
    }

    interface Steps {
        void after(int part) throws Exception;
    }

    interface Start {
        DefaultMQPushConsumer start(Stage stage, String topic, String name, Inbox inbox) throws Exception;
    }

    private static Inbox comeAndGo(Stage stage, String topic, int queues, Start how) throws Exception {
        Inbox inbox = new Inbox();
        Map<String, DefaultMQPushConsumer> members = new HashMap<>();
        members.put("first", how.start(stage, topic, "first", inbox));
        awaitShares(topic, queues, members.get("first"));
        List<String> bodies = sendWhile(stage, topic, queues, part -> {
            if (part == 0) {
                members.put("second", how.start(stage, topic, "second", inbox));
                awaitShares(topic, queues, members.get("first"), members.get("second"));
            } else if (part == 1) {
                members.get("first").shutdown();
            } else if (part == 2) {
                awaitShares(topic, queues, members.get("second"));
            }
        });
        inbox.awaitBodies(bodies);
        Set<String> consumers = inbox.all().stream().map(arrival -> arrival.consumer).collect(Collectors.toSet());
        Wait.equal(Set.of("first", "second"), consumers, "consumers that got messages");
        return inbox;
    }

    private static void joinAndLeave(Stage stage) throws Exception {
        comeAndGo(stage, stage.topic(4), 4, GroupScenarios::started);
    }

    private static void joinAndLeaveOrderly(Stage stage) throws Exception {
        Inbox inbox = comeAndGo(stage, stage.topic(4), 4, GroupScenarios::startedOrderly);
        Map<Integer, Long> last = new HashMap<>();
        for (Inbox.Arrival arrival : inbox.all()) { // one may come twice when its queue changes hands, but none too early
            int queue = arrival.message.getQueueId();
            long offset = arrival.message.getQueueOffset();
            long before = last.getOrDefault(queue, -1L);
            Wait.check(offset <= before + 1, "queue " + queue + " goes from " + before + " to " + offset);
            last.put(queue, Math.max(offset, before));
        }
    }

    private static void resetOffset(Stage stage) throws Exception {
        String topic = stage.topic(2);
        DefaultMQProducer producer = stage.producer();
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer consumer = started(stage, topic, "only", inbox);
        List<String> old = Stage.numbered("old ", 10);
        for (String body : old) {
            Stage.send(producer, topic, "A", body);
        }
        inbox.awaitExactly(old);
        Thread.sleep(2_000); // 4.9 takes the message that is nearest to the time, be it before or after
        long since = System.currentTimeMillis();
        List<String> recent = Stage.numbered("recent ", 10);
        for (String body : recent) {
            Stage.send(producer, topic, "A", body);
        }
        inbox.awaitBodies(recent);
        consumer.getDefaultMQPushConsumerImpl().persistConsumerOffset();
        Map<?, Long> offsets = stage.troupe.admin.resetOffsetByTimestamp(topic, stage.unique("G"), since, true);
        Wait.equal(10L, offsets.values().stream().mapToLong(Long::longValue).sum(), "sum of the new offsets");
        Wait.until(() -> "each recent message twice, found " + inbox.bodies(), () -> {
            List<String> bodies = inbox.bodies();
            return recent.stream().allMatch(body -> bodies.indexOf(body) != bodies.lastIndexOf(body));
        });
        List<String> bodies = inbox.bodies();
        Wait.check(old.stream().allMatch(body -> bodies.indexOf(body) == bodies.lastIndexOf(body)), "an old one came twice");
    }
}
