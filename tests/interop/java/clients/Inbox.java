import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.rocketmq.common.message.MessageExt;

/** The messages that a consumer got, in the order in which it got them. */
class Inbox {
    static class Arrival {
        final MessageExt message;
        final long atMillis = System.currentTimeMillis();
        final String consumer;

        Arrival(MessageExt message, String consumer) {
            this.message = message;
            this.consumer = consumer;
        }

        String body() {
            return Stage.text(message.getBody());
        }
    }

    private final List<Arrival> arrivals = new ArrayList<>();

    synchronized void add(Collection<MessageExt> messages) {
        add(messages, "");
    }

    synchronized void add(Collection<MessageExt> messages, String consumer) {
        messages.forEach(message -> arrivals.add(new Arrival(message, consumer)));
    }

    synchronized List<Arrival> all() {
        return new ArrayList<>(arrivals);
    }

    synchronized int size() {
        return arrivals.size();
    }

    List<String> bodies() {
        return all().stream().map(Arrival::body).collect(Collectors.toList());
    }

    /** Wait until each of these has come. */
    void awaitBodies(Collection<String> expected) throws Exception {
        TreeSet<String> missing = new TreeSet<>(expected);
        Wait.until(() -> missing.size() + " of " + expected.size() + " messages, the first of them " + missing.first(), () -> {
            missing.removeAll(bodies());
            return missing.isEmpty();
        });
    }

    /** Wait until these have come, and then no others must be there, nor one twice. */
    void awaitExactly(Collection<String> expected) throws Exception {
        awaitBodies(expected);
        List<String> found = bodies();
        found.sort(null);
        List<String> sorted = new ArrayList<>(expected);
        sorted.sort(null);
        Wait.equal(sorted, found, "messages");
    }
}
