import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/**
 * Recall NAMESRV TOPIC SECONDS: sends "recalled" and "kept", both due after SECONDS, and recalls the first.
 *
 * Prints "RECALLED id" and the id that its send had, and "REFUSED code" for a broken handle.
 */
public class Recall {
    public static void main(String[] args) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("recalling");
        producer.setNamesrvAddr(args[0]);
        producer.start();
        SendResult sent = producer.send(timed(args[1], "recalled", Long.parseLong(args[2])));
        producer.send(timed(args[1], "kept", Long.parseLong(args[2])));
        // Clients of 4.9 have no such methods, and this file is compiled with theirs, too.
        String handle = (String) sent.getClass().getMethod("getRecallHandle").invoke(sent);
        var recall = producer.getClass().getMethod("recallMessage", String.class, String.class);
        System.out.println("RECALLED " + recall.invoke(producer, args[1], handle) + " " + sent.getMsgId());
        try {
            recall.invoke(producer, args[1], handle.replace("d", "e"));
            System.out.println("ACCEPTED");
        } catch (java.lang.reflect.InvocationTargetException error) {
            System.out.println("REFUSED " + error.getCause().getClass().getSimpleName());
        }
        producer.shutdown();
    }

    private static Message timed(String topic, String body, long seconds) {
        Message message = new Message(topic, body.getBytes(StandardCharsets.UTF_8));
        message.putUserProperty("case", body);
        org.apache.rocketmq.common.message.MessageAccessor.putProperty(
            message, "TIMER_DELAY_SEC", String.valueOf(seconds));
        return message;
    }
}
