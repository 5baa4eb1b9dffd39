import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * CertificateClient NAMESRV BROKER: sends to a broker that knows the client by its certificate, and prints a line for
 * each case: its name and OK, or the code and the remark.
 */
public class CertificateClient {
    public static void main(String[] args) throws Exception {
        send(args, "certificate", null, "Allowed");
        send(args, "forbidden", null, "Forbidden");
        send(args, "same", new AclClientRPCHook(new SessionCredentials("java-client", "secret-of-java")), "Allowed");
        send(args, "other", new AclClientRPCHook(new SessionCredentials("operator1", "secret-of-operator")), "Allowed");
        System.exit(0);
    }

    static void send(String[] args, String name, RPCHook hook, String topic) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("certified", hook);
        producer.setNamesrvAddr(args[0]);
        producer.setInstanceName(name);
        producer.setRetryTimesWhenSendFailed(0);
        producer.setUseTLS(true);
        producer.start();
        producer.fetchPublishMessageQueues("Allowed");
        byte[] body = "x".getBytes(StandardCharsets.UTF_8);
        try {
            producer.send(new Message(topic, body), new MessageQueue(topic, args[1], 0), 30_000);
            System.out.println("case " + name + ": OK");
        } catch (MQBrokerException refused) {
            System.out.println("case " + name + ": " + refused.getResponseCode() + " " + refused.getErrorMessage());
        }
        producer.shutdown();
    }
}
