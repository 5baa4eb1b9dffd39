import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;

/**
 * SyncSender NAMESRV: Apache's own producer, one thread that sends one message after the other.
 *
 * Speaks as benches/peers/commands.py does: "send SECONDS TOPIC BODY_BYTES" is answered with "done MESSAGES SECONDS".
 */
public class SyncSender {
    public static void main(String[] args) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("BenchJavaProducers");
        producer.setNamesrvAddr(args[0]);
        producer.start();
        System.out.println("can send");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            try {
                System.out.println(send(producer, Double.parseDouble(words[1]), words[2], Integer.parseInt(words[3])));
            } catch (Exception failure) {
                System.out.println("failed " + failure);
            }
        }
        producer.shutdown();
        System.exit(0);
    }

    private static String send(DefaultMQProducer producer, double seconds, String topic, int bodyBytes) throws Exception {
        byte[] body = new byte[bodyBytes];
        long began = System.nanoTime();
        long ends = began + (long) (seconds * 1e9);
        long sent = 0;
        long now = began;
        while (now < ends) {
            if (producer.send(new Message(topic, body)).getSendStatus() != SendStatus.SEND_OK) {
                return "failed: not stored";
            }
            sent++;
            now = System.nanoTime();
        }
        return String.format("done %d %.6f", sent, (now - began) / 1e9);
    }
}
