import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByConfig;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * What Apache's allocation strategies answer. One question a line, its parts separated by tabs:
 *
 * STRATEGY ARGUMENT CLIENT CLIENT,CLIENT... TOPIC@BROKER@QUEUE,...   with "/" in place of an @ inside a broker's name
 *
 * The clients and the queues are sorted here, as Java's rebalance sorts them. The answer is "= " and the
 * queues in the same form, or "= throws"; other lines are those of Apache's logging.
 */
public class AllocationJudge {
    public static void main(String[] ignored) throws Exception {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder answers = new StringBuilder();
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            answers.append("= ").append(answer(line.split("\t", -1))).append('\n');
        }
        System.out.write(answers.toString().getBytes(StandardCharsets.UTF_8));
        System.out.flush();
    }

    private static String answer(String[] parts) {
        List<String> clients = new ArrayList<>(Arrays.asList(parts[3].split(",")));
        List<MessageQueue> queues = queues(parts[4]);
        Collections.sort(clients);
        Collections.sort(queues);
        try {
            List<MessageQueue> share = strategy(parts[0], parts[1]).allocate("group", parts[2], queues, clients);
            return share.stream().map(AllocationJudge::text).collect(Collectors.joining(","));
        } catch (RuntimeException error) {
            return "throws";
        }
    }

    private static AllocateMessageQueueStrategy strategy(String name, String argument) {
        switch (name) {
            case "averagely":
                return new AllocateMessageQueueAveragely();
            case "by_circle":
                return new AllocateMessageQueueAveragelyByCircle();
            case "by_config":
                AllocateMessageQueueByConfig byConfig = new AllocateMessageQueueByConfig();
                byConfig.setMessageQueueList(queues(argument));
                return byConfig;
            case "by_machine_room":
                AllocateMessageQueueByMachineRoom byRoom = new AllocateMessageQueueByMachineRoom();
                byRoom.setConsumeridcs(new HashSet<>(Arrays.asList(argument.split(","))));
                return byRoom;
            case "consistent_hash":
                return new AllocateMessageQueueConsistentHash(Integer.parseInt(argument));
            case "nearby":
                return new AllocateMachineRoomNearby(strategy(argument, "10"), new FirstLetters());
            default:
                throw new IllegalArgumentException(name);
        }
    }

    private static List<MessageQueue> queues(String text) {
        List<MessageQueue> queues = new ArrayList<>();
        for (String queue : text.split(",")) {
            String[] parts = queue.split("@");
            queues.add(new MessageQueue(parts[0], parts[1].replace('/', '@'), Integer.parseInt(parts[2])));
        }
        return queues;
    }

    private static String text(MessageQueue queue) {
        return queue.getTopic() + "@" + queue.getBrokerName().replace('@', '/') + "@" + queue.getQueueId();
    }

    /** A machine room is the first letter of a broker's name or of a client's id. */
    private static final class FirstLetters implements AllocateMachineRoomNearby.MachineRoomResolver {
        @Override
        public String brokerDeployIn(MessageQueue queue) {
            return queue.getBrokerName().substring(0, 1);
        }

        @Override
        public String consumerDeployIn(String clientId) {
            return clientId.substring(0, 1);
        }
    }
}
