import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * AclClient NAMESRV BROKER: asks a guarded broker with several credentials, and prints a line for each case: its name
 * and OK, or the code and the first line of the remark.
 */
public class AclClient {
    interface Action {
        void run() throws Exception;
    }

    static String nameServer;
    static String broker;

    public static void main(String[] args) throws Exception {
        nameServer = args[0];
        broker = args[1];
        sends("right", hook("rocketmq2", "12345678"), "Allowed");
        sends("forbidden", hook("rocketmq2", "12345678"), "Forbidden");
        sends("retry", hook("rocketmq2", "12345678"), "%RETRY%victims");
        sends("wrong", hook("rocketmq2", "87654321"), "Allowed");
        sends("stranger", hook("stranger1", "12345678"), "Allowed");
        sends("unsigned", null, "Allowed");
        pulls("reader", "readers", "Allowed");
        pulls("group", "others", "Allowed");
        pulls("topic", "readers", "Forbidden");
        System.exit(0);
    }

    static RPCHook hook(String accessKey, String secretKey) {
        return new AclClientRPCHook(new SessionCredentials(accessKey, secretKey));
    }

    static void sends(String name, RPCHook hook, String topic) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("readers", hook);
        producer.setNamesrvAddr(nameServer);
        producer.setInstanceName(name);
        producer.setRetryTimesWhenSendFailed(0);
        producer.start();
        MessageQueue queue = new MessageQueue(topic, broker, 0);
        byte[] body = "größe".getBytes(StandardCharsets.UTF_8);
        // The route of a topic that is there leads to the broker; the queue's own topic is what is asked for.
        producer.fetchPublishMessageQueues("Allowed");
        tell("send " + name, () -> producer.send(new Message(topic, "tag", "key", body), queue));
        if (!topic.startsWith("%RETRY%")) {  // of which the client makes no batch
            Message message = new Message(topic, body);
            tell("batch " + name, () -> producer.send(Arrays.asList(message, new Message(topic, body)), queue));
        }
        producer.shutdown();
    }

    static void pulls(String name, String group, String topic) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(group, hook("rocketmq2", "12345678"));
        consumer.setNamesrvAddr(nameServer);
        consumer.setInstanceName("pull " + name);
        consumer.start();
        if (!topic.equals("Allowed")) {  // the client learns the broker's address from a topic that is there
            consumer.pull(new MessageQueue("Allowed", broker, 0), "*", 0, 8);
        }
        tell("pull " + name, () -> consumer.pull(new MessageQueue(topic, broker, 0), "*", 0, 8));
        consumer.shutdown();
    }

    static void tell(String name, Action action) {
        String result;
        try {
            action.run();
            result = "OK";
        } catch (Exception error) {
            Throwable cause = error;
            while (!(cause instanceof MQBrokerException) && cause.getCause() != null) {
                cause = cause.getCause();
            }
            if (cause instanceof MQBrokerException) {
                MQBrokerException refused = (MQBrokerException) cause;
                result = refused.getResponseCode() + " " + refused.getErrorMessage().split("\n")[0];
            } else {
                result = cause.toString().split("\n")[0];
            }
        }
        System.out.println("case " + name + ": " + result);
    }
}
