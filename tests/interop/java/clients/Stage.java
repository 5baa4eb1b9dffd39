import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/** One scenario's place: names of its own, and everything that it started, to be ended after it. */
class Stage {
    private static final String RUN = Long.toString(System.currentTimeMillis() % 1_000_000_000L, 36);

    final Troupe troupe;
    final String name;
    private final List<Runnable> endings = new ArrayList<>();

    Stage(Troupe troupe, String name) {
        this.troupe = troupe;
        this.name = name;
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }

    /** A name that nothing else has, on this broker, in any run. */
    String unique(String what) {
        return what + "_" + name + "_" + RUN;
    }

    static List<String> numbered(String word, int count) {
        return IntStream.range(0, count).mapToObj(i -> word + i).collect(Collectors.toList());
    }

    String topic(int queues) throws Exception {
        return topic("T", queues);
    }

    String topic(String word, int queues) throws Exception {
        String topic = unique(word);
        troupe.makeTopic(topic, queues);
        return topic;
    }

    synchronized void atEnd(Runnable ending) {
        endings.add(0, ending);
    }

    synchronized void close() {
        for (Runnable ending : endings) {
            try {
                ending.run();
            } catch (RuntimeException error) {
                error.printStackTrace();
            }
        }
        endings.clear();
    }

    DefaultMQProducer producer() throws Exception {
        return started(new DefaultMQProducer(unique("P")));
    }

    /** A producer or consumer is one of this scenario's own client: those of others would be in each other's way. */
    void own(ClientConfig client) {
        client.setNamesrvAddr(troupe.nameServer);
        client.setMqClientApiTimeout(Troupe.PATIENCE_MS); // what is slow here is the machine
        if (client.getInstanceName().equals("DEFAULT")) {
            client.setInstanceName(unique("client"));
        }
    }

    <P extends DefaultMQProducer> P started(P producer) throws Exception {
        own(producer);
        producer.setSendMsgTimeout(Troupe.PATIENCE_MS);
        producer.start();
        atEnd(producer::shutdown);
        return producer;
    }

    /** A consumer that is not started; begins with the oldest message. */
    DefaultMQPushConsumer consumer(String group) {
        return prepared(new DefaultMQPushConsumer(group));
    }

    DefaultMQPushConsumer prepared(DefaultMQPushConsumer consumer) {
        own(consumer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeThreadMin(4);
        consumer.setConsumeThreadMax(4);
        atEnd(consumer::shutdown);
        return consumer;
    }

    /** A started consumer that keeps all it gets. */
    Inbox inbox(String topic) throws Exception {
        return inbox(topic, "*");
    }

    Inbox inbox(String topic, String tags) throws Exception {
        DefaultMQPushConsumer consumer = consumer(unique("G_" + topic.length()));
        consumer.subscribe(topic, tags);
        return inbox(consumer);
    }

    Inbox inbox(DefaultMQPushConsumer consumer) throws Exception {
        Inbox inbox = new Inbox();
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            inbox.add(messages);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        return inbox;
    }

    static void send(DefaultMQProducer producer, String topic, String tags, String body) throws Exception {
        sent(producer.send(new Message(topic, tags, bytes(body))));
    }

    static SendResult sent(SendResult result) {
        Wait.equal(SendStatus.SEND_OK, result.getSendStatus(), "status of a send");
        return result;
    }
}
