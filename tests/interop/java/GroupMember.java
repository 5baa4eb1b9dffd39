import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * GroupMember NAMESRV GROUP TOPIC NAME: one push consumer, until stdin ends.
 *
 * Prints "QUEUES 0,1,2" when its queues of the topic have changed, "GOT body" for each message, "LEFT" when it has left.
 */
public class GroupMember {
    private static final long LOOK_EVERY_MS = 50;

    public static void main(String[] args) throws Exception {
        String topic = args[2];
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args[1]);
        consumer.setNamesrvAddr(args[0]);
        consumer.setInstanceName(args[3]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                print("GOT " + new String(message.getBody(), StandardCharsets.UTF_8));
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        Thread watch = new Thread(() -> watch(consumer, topic));
        watch.setDaemon(true);
        watch.start();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        while (input.readLine() != null) {
            // until the end
        }
        consumer.shutdown();
        print("LEFT");
        System.exit(0);
    }

    private static void watch(DefaultMQPushConsumer consumer, String topic) {
        String before = "";
        while (true) {
            String now = consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet().stream()
                .filter(queue -> queue.getTopic().equals(topic)).map(queue -> String.valueOf(queue.getQueueId())).sorted()
                .collect(Collectors.joining(","));
            if (!now.equals(before)) {
                print("QUEUES " + now);
                before = now;
            }
            try {
                Thread.sleep(LOOK_EVERY_MS);
            } catch (InterruptedException ended) {
                return;
            }
        }
    }

    private static synchronized void print(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
