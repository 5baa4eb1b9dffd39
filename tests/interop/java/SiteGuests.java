import java.util.Set;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.store.OffsetStore;
import org.apache.rocketmq.client.consumer.store.ReadOffsetType;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Who is there while mqadmin looks: a producer, a consumer, and the two mqadmin commands that never end.
 *
 * Arguments: name server, cluster, an instance name, group of the consumer, group of the producer, topic.
 * Prints "guests ready" when the consumer has got the first messages and the broker knows it.
 */
public class SiteGuests {
    public static void main(String[] args) throws Exception {
        String namesrv = args[0], cluster = args[1], instance = args[2], topic = args[5];
        MQAdminStartup.main(("updateTopic -c " + cluster + " -t " + topic + " -r 2 -w 2 -n " + namesrv).split(" "));

        DefaultMQProducer producer = new DefaultMQProducer(args[4]);
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName(instance);
        producer.start();

        CountDownLatch consumed = new CountDownLatch(2);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args[3]);
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName(instance);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "tagA || tagB");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            consumed.countDown();
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        for (MessageQueue queue : producer.fetchPublishMessageQueues(topic)) {
            int id = queue.getQueueId();
            producer.send(new Message(topic, "tagA", "guest-" + id, ("welcome " + id).getBytes("UTF-8")), queue);
        }
        endless("startMonitoring", "-n", namesrv);
        endless("clusterRT", "-c", cluster, "-a", "4", "-i", "3600", "-n", namesrv);

        consumed.await();
        Set<MessageQueue> queues = consumer.fetchSubscribeMessageQueues(topic);
        OffsetStore offsets = consumer.getDefaultMQPushConsumerImpl().getOffsetStore();
        for (MessageQueue queue : queues) { // the listener has returned, but the offset follows a moment later
            while (offsets.readOffset(queue, ReadOffsetType.READ_FROM_MEMORY) < 1) {
                Thread.sleep(1);
            }
        }
        offsets.persistAll(queues);
        System.out.println("\nguests ready"); // mqadmin may not have ended its line
        Thread.sleep(Long.MAX_VALUE);
    }

    private static void endless(String... command) {
        Thread thread = new Thread(() -> MQAdminStartup.main(command));
        thread.setDaemon(true);
        thread.start();
    }
}
