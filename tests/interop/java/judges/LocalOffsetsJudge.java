import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.store.LocalFileOffsetStore;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Apache's own store of a broadcasting consumer's offsets. Reads the file of the client and group given, says what is
 * in it, adds one to every offset, and saves.
 */
public class LocalOffsetsJudge {
    public static void main(String[] arguments) throws Exception {
        MQClientInstance client = new MQClientInstance(new ClientConfig(), 0, arguments[0]);
        LocalFileOffsetStore store = new LocalFileOffsetStore(client, arguments[1]);
        store.load();
        Map<MessageQueue, Long> table = new TreeMap<>(store.cloneOffsetTable(""));
        Set<MessageQueue> queues = new HashSet<>(table.keySet());
        for (Map.Entry<MessageQueue, Long> entry : table.entrySet()) {
            MessageQueue queue = entry.getKey();
            System.out.println("= " + queue.getTopic() + "\t" + queue.getBrokerName() + "\t" + queue.getQueueId() + "\t"
                + entry.getValue());
            store.updateOffset(queue, entry.getValue() + 1, false);
        }
        store.persistAll(queues);
        System.out.flush();
        System.exit(0);
    }
}
