import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Transactions. The broker asks every second about what is older than five. */
class TransactionScenarios {
    private static final long PAST_A_CHECK_MS = 7_000;

    static void addTo(Map<String, ClientDriver.Scenario> scenarios) {
        scenarios.put("transaction_commit", TransactionScenarios::commit);
        scenarios.put("transaction_rollback", TransactionScenarios::rollback);
        scenarios.put("transaction_check_back", TransactionScenarios::checkBack);
    }

    /** Ends transactions as their bodies say: "x, y, z" is x at first, then y and z when asked. */
    private static class Listener implements TransactionListener {
        final Map<String, AtomicInteger> questions = new ConcurrentHashMap<>();

        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
            questions.put(Stage.text(message.getBody()), new AtomicInteger());
            return state(Stage.text(message.getBody()), 0);
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            String body = Stage.text(message.getBody());
            return state(body, questions.get(body).incrementAndGet());
        }

        private static LocalTransactionState state(String body, int time) {
            String[] states = body.split(", ");
            switch (states[Math.min(time, states.length - 1)]) {
                case "commit":
                    return LocalTransactionState.COMMIT_MESSAGE;
                case "rollback":
                    return LocalTransactionState.ROLLBACK_MESSAGE;
                default:
                    return LocalTransactionState.UNKNOW;
            }
        }
    }

    private static TransactionMQProducer producer(Stage stage, Listener listener) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer(stage.unique("P"));
        producer.setInstanceName(stage.unique("producer"));
        producer.setTransactionListener(listener);
        return stage.started(producer);
    }

    private static SendResult send(TransactionMQProducer producer, String topic, String body) throws Exception {
        Message message = new Message(topic, "A", "key", Stage.bytes(body));
        message.putUserProperty("mine", "kept");
        return Stage.sent(producer.sendMessageInTransaction(message, null));
    }

    private static void commit(Stage stage) throws Exception {
        String topic = stage.topic(2);
        Inbox inbox = stage.inbox(topic, "A");
        Listener listener = new Listener();
        TransactionMQProducer producer = producer(stage, listener);
        Stage.send(stage.producer(), topic, "B", "so that the half message is not the first of the log");
        SendResult result = send(producer, topic, "commit");
        inbox.awaitExactly(List.of("commit"));
        Thread.sleep(PAST_A_CHECK_MS);
        inbox.awaitExactly(List.of("commit"));
        Wait.equal(0, listener.questions.get("commit").get(), "questions about what was committed");
        MessageExt message = inbox.all().get(0).message;
        Wait.equal(result.getMsgId(), message.getMsgId(), "message id");
        Wait.equal("key", message.getKeys(), "keys");
        Wait.equal("kept", message.getUserProperty("mine"), "property");
        Wait.equal(result.getMessageQueue().getQueueId(), message.getQueueId(), "queue");
        Wait.check(message.getPreparedTransactionOffset() > 0, "no place of the half message");
    }

    private static void rollback(Stage stage) throws Exception {
        String topic = stage.topic(1);
        Inbox inbox = stage.inbox(topic);
        Listener listener = new Listener();
        TransactionMQProducer producer = producer(stage, listener);
        send(producer, topic, "rollback");
        Thread.sleep(PAST_A_CHECK_MS);
        Stage.send(stage.producer(), topic, "A", "after");
        inbox.awaitExactly(List.of("after"));
        Wait.equal(0, listener.questions.get("rollback").get(), "questions about what was rolled back");
    }

    private static void checkBack(Stage stage) throws Exception {
        String topic = stage.topic(2);
        Inbox inbox = stage.inbox(topic);
        Listener listener = new Listener();
        TransactionMQProducer producer = producer(stage, listener);
        for (String body : List.of("unknown, commit", "unknown, rollback", "unknown, unknown, unknown, commit")) {
            send(producer, topic, body);
        }
        inbox.awaitBodies(List.of("unknown, commit", "unknown, unknown, unknown, commit"));
        Wait.until("a question about what is rolled back then", () -> listener.questions.get("unknown, rollback").get() > 0);
        Thread.sleep(2_500);
        Wait.equal(Set.of("unknown, commit", "unknown, unknown, unknown, commit"), Set.copyOf(inbox.bodies()), "messages");
        Wait.check(listener.questions.get("unknown, unknown, unknown, commit").get() >= 3, "too few questions");
        Wait.equal("kept", inbox.all().get(0).message.getUserProperty("mine"), "property");
    }
}
