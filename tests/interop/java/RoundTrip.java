import java.nio.charset.StandardCharsets;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/**
 * RoundTrip NAMESRV TOPIC COUNT: sends COUNT messages, receives them with a push consumer, and prints
 * what was sent and what was received, sorted, a line each. Knows the brokers only by the routes it asks for.
 */
public class RoundTrip {
    public static void main(String[] args) throws Exception {
        String nameServer = args[0];
        String topic = args[1];
        int count = Integer.parseInt(args[2]);
        Set<String> received = new ConcurrentSkipListSet<>();
        CountDownLatch all = new CountDownLatch(count);

        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("interop_consumer_" + topic);
        consumer.setNamesrvAddr(nameServer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> {
                if (received.add(new String(message.getBody(), StandardCharsets.UTF_8))) {
                    all.countDown();
                }
            });
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });

        DefaultMQProducer producer = new DefaultMQProducer("interop_producer_" + topic);
        producer.setNamesrvAddr(nameServer);
        producer.start();
        Set<String> sent = new TreeSet<>();
        for (int i = 0; i < count; i++) {
            String body = "message " + i;
            SendResult result = producer.send(new Message(topic, "TagA", body.getBytes(StandardCharsets.UTF_8)));
            sent.add(body + " " + result.getSendStatus());
        }
        consumer.start();
        all.await(40, TimeUnit.SECONDS);
        sent.forEach(line -> System.out.println("sent " + line));
        received.forEach(line -> System.out.println("received " + line));
        consumer.shutdown();
        producer.shutdown();
        System.exit(0);
    }
}
