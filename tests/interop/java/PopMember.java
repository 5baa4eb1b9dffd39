import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * PopMember NAMESRV GROUP TOPIC NAME: one push consumer that lets the broker rebalance, until it is killed.
 *
 * Prints "GOT body tries topic" for each message. Fails on the first try of "fail...".
 */
public class PopMember {
    public static void main(String[] args) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args[1]);
        consumer.setNamesrvAddr(args[0]);
        consumer.setInstanceName(args[3]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        // Clients of 4.9 have no such method, and this file is compiled with theirs, too.
        consumer.getClass().getMethod("setClientRebalance", boolean.class).invoke(consumer, false);
        consumer.subscribe(args[2], "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            boolean fails = false;
            for (MessageExt message : messages) {
                String body = new String(message.getBody(), StandardCharsets.UTF_8);
                print("GOT " + body + " " + message.getReconsumeTimes() + " " + message.getTopic());
                fails |= body.startsWith("fail") && message.getReconsumeTimes() == 0;
            }
            return fails ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        print("STARTED");
        Thread.currentThread().join();
    }

    private static synchronized void print(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
