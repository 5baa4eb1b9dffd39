import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Messages that come later: delayed, timed, and those that were not consumed. Level 1 is 1 s, level 2 is 3 s. */
class LaterScenarios {
    static void addTo(Map<String, ClientDriver.Scenario> scenarios) {
        scenarios.put("delay_level", LaterScenarios::delayLevel);
        scenarios.put("timer", LaterScenarios::timer);
        scenarios.put("retry_and_dead_letter", LaterScenarios::retry);
    }

    private static void delayLevel(Stage stage) throws Exception {
        String topic = stage.topic(2);
        Inbox inbox = stage.inbox(topic, "late || now");
        DefaultMQProducer producer = stage.producer();
        long sentAt = System.currentTimeMillis();
        List<String> expected = new ArrayList<>();
        for (int level : new int[] {2, 1, 0}) {
            for (int number = 0; number < 5; number++) {
                Message message = new Message(topic, level == 0 ? "now" : "late", "key", Stage.bytes(level + " " + number));
                message.setDelayTimeLevel(level);
                message.putUserProperty("mine", "kept");
                Stage.sent(producer.send(message));
                expected.add(level + " " + number);
            }
        }
        inbox.awaitExactly(expected);
        long[] least = {0, 1_000, 3_000};
        for (Inbox.Arrival arrival : inbox.all()) {
            int level = arrival.body().charAt(0) - '0';
            long waited = arrival.atMillis - sentAt;
            Wait.check(waited >= least[level] - 50, arrival.body() + " came after " + waited + " ms");
            Wait.equal("kept", arrival.message.getUserProperty("mine"), "property");
            Wait.equal(topic, arrival.message.getTopic(), "topic");
            Wait.equal("key", arrival.message.getKeys(), "keys");
        }
    }

    private static void timer(Stage stage) throws Exception {
        Method byMoment;
        Method bySeconds;
        Method byMillis;
        try {
            byMoment = Message.class.getMethod("setDeliverTimeMs", long.class);
            bySeconds = Message.class.getMethod("setDelayTimeSec", long.class);
            byMillis = Message.class.getMethod("setDelayTimeMs", long.class);
        } catch (NoSuchMethodException none) {
            throw new ClientDriver.Skipped("this client has no timed messages");
        }
        String topic = stage.topic(1);
        Inbox inbox = stage.inbox(topic);
        DefaultMQProducer producer = stage.producer();
        long sentAt = System.currentTimeMillis();
        Message moment = new Message(topic, Stage.bytes("moment"));
        byMoment.invoke(moment, sentAt + 4_000);
        Message seconds = new Message(topic, Stage.bytes("seconds"));
        bySeconds.invoke(seconds, 4L);
        Message millis = new Message(topic, Stage.bytes("millis"));
        byMillis.invoke(millis, 4_000L);
        for (Message message : List.of(moment, seconds, millis)) {
            Stage.sent(producer.send(message));
        }
        Stage.send(producer, topic, "A", "now");
        inbox.awaitExactly(List.of("moment", "seconds", "millis", "now"));
        for (Inbox.Arrival arrival : inbox.all()) {
            long waited = arrival.message.getStoreTimestamp() - sentAt; // when it came to its topic, by the broker's clock
            boolean isLate = !arrival.body().equals("now");
            Wait.check(isLate == (waited > 2_900), arrival.body() + " came after " + waited + " ms"); // to the second
        }
        Message tooLate = new Message(topic, Stage.bytes("too late"));
        byMoment.invoke(tooLate, sentAt + 30L * 24 * 3_600_000);
        try {
            producer.send(tooLate);
        } catch (MQBrokerException refused) {
            Wait.equal(13, refused.getResponseCode(), "code of " + refused);
            return;
        }
        throw new AssertionError("a message for next month was taken");
    }

    @SuppressWarnings("deprecation")
    private static void retry(Stage stage) throws Exception {
        String topic = stage.topic(1);
        String group = stage.unique("G");
        DefaultMQPushConsumer consumer = stage.consumer(group);
        consumer.setMaxReconsumeTimes(2);
        consumer.subscribe(topic, "*");
        Inbox inbox = new Inbox();
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            inbox.add(messages);
            MessageExt message = messages.get(0);
            boolean isGood = Stage.text(message.getBody()).equals("good") || message.getReconsumeTimes() == 1
                && Stage.text(message.getBody()).equals("late");
            return isGood ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        consumer.start();
        DefaultMQProducer producer = stage.producer();
        SendResult bad = Stage.sent(producer.send(new Message(topic, "A", "key", Stage.bytes("bad"))));
        Stage.send(producer, topic, "A", "late");
        Stage.send(producer, topic, "A", "good");
        inbox.awaitBodies(List.of("bad", "late", "good"));
        DefaultMQPullConsumer puller = new DefaultMQPullConsumer(stage.unique("GD"));
        stage.own(puller);
        puller.start();
        stage.atEnd(puller::shutdown);
        List<MessageExt> dead = new ArrayList<>();
        Wait.until("a dead letter", () -> {
            try {
                for (MessageQueue queue : puller.fetchSubscribeMessageQueues("%DLQ%" + group)) {
                    PullResult result = puller.pull(queue, "*", 0, 32);
                    if (result.getPullStatus() == PullStatus.FOUND) {
                        dead.addAll(result.getMsgFoundList());
                    }
                }
            } catch (Exception notYet) {
                Thread.sleep(200); // the topic is made with its first message
            }
            return !dead.isEmpty();
        });
        Wait.equal(1, dead.size(), "dead letters");
        Wait.equal("bad", Stage.text(dead.get(0).getBody()), "dead letter");
        Wait.equal(bad.getMsgId(), dead.get(0).getMsgId(), "id of the dead letter");
        Wait.equal(bad.getOffsetMsgId(), dead.get(0).getProperty("ORIGIN_MESSAGE_ID"), "origin of the dead letter");
        Wait.equal("key", dead.get(0).getKeys(), "keys of the dead letter");
        List<Inbox.Arrival> tries = inbox.all().stream().filter(arrival -> arrival.body().equals("bad")).collect(Collectors.toList());
        Wait.equal(List.of(0, 1, 2), tries.stream().map(arrival -> arrival.message.getReconsumeTimes()).collect(Collectors.toList()),
            "reconsume times of the bad one");
        for (Inbox.Arrival arrival : tries) {
            Wait.equal(topic, arrival.message.getTopic(), "topic of a retry");
            Wait.equal(bad.getMsgId(), arrival.message.getMsgId(), "id of a retry");
        }
        for (int i = 1; i < tries.size(); i++) {
            long waited = tries.get(i).atMillis - tries.get(i - 1).atMillis;
            Wait.check(waited >= 900, "retry " + i + " came after " + waited + " ms");
        }
        Wait.equal(2L, inbox.bodies().stream().filter("late"::equals).count(), "tries of the late one");
        Wait.equal(1L, inbox.bodies().stream().filter("good"::equals).count(), "tries of the good one");
    }
}
