import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/** The 5.x client at its defaults: ENDPOINT TOPIC TX_TOPIC GROUP COUNT. One line on stdout for each fact. */
public class GrpcJourney {
    public static void main(String[] args) throws Exception {
        String topic = args[1], transactions = args[2], group = args[3];
        int count = Integer.parseInt(args[4]);
        ClientServiceProvider provider = ClientServiceProvider.loadService();
        ClientConfiguration config = ClientConfiguration.newBuilder().setEndpoints(args[0]).build();
        Producer producer = provider.newProducerBuilder().setClientConfiguration(config).setTopics(topic, transactions)
            .setTransactionChecker(message -> TransactionResolution.COMMIT).build();
        CountDownLatch pushed = new CountDownLatch(count);
        PushConsumer push = provider.newPushConsumerBuilder().setClientConfiguration(config).setConsumerGroup(group)
            .setSubscriptionExpressions(Collections.singletonMap(topic, FilterExpression.SUB_ALL))
            .setMessageListener(message -> {
                if (pushed.getCount() > 0) {
                    say("pushed", message);
                }
                pushed.countDown();
                return ConsumeResult.SUCCESS;
            }).build();
        for (int number = 0; number < count; number++) {
            producer.send(provider.newMessageBuilder().setTopic(topic).setTag("tag").setKeys("key-" + number)
                .addProperty("colour", "blue").setBody(("message " + number).getBytes(StandardCharsets.UTF_8)).build());
        }
        System.out.println("complete " + pushed.await(60, TimeUnit.SECONDS));
        SimpleConsumer simple = provider.newSimpleConsumerBuilder().setClientConfiguration(config)
            .setConsumerGroup(group + "Simple").setAwaitDuration(Duration.ofSeconds(10))
            .setSubscriptionExpressions(Collections.singletonMap(transactions, FilterExpression.SUB_ALL)).build();
        for (String body : new String[] {"rolled back", "committed"}) {
            Transaction transaction = producer.beginTransaction();
            producer.send(provider.newMessageBuilder().setTopic(transactions)
                .setBody(body.getBytes(StandardCharsets.UTF_8)).build(), transaction);
            if (body.equals("committed")) {
                transaction.commit();
            } else {
                transaction.rollback();
            }
        }
        Transaction open = producer.beginTransaction();  // the server asks for its outcome
        producer.send(provider.newMessageBuilder().setTopic(transactions)
            .setBody("checked".getBytes(StandardCharsets.UTF_8)).build(), open);
        for (int received = 0, tries = 0; received < 2 && tries < 12; tries++) {
            List<MessageView> messages = simple.receive(8, Duration.ofSeconds(30));
            for (MessageView message : messages) {
                say("received", message);
                simple.changeInvisibleDuration(message, Duration.ofSeconds(20));
                simple.ack(message);
                received++;
            }
        }
        closeSoon(push, producer, provider, topic);
        simple.close();
        producer.close();
        System.out.println("stopped");
        System.exit(0);
    }

    /** The client waits for its held receives, up to 20 s: messages end them sooner. */
    private static void closeSoon(PushConsumer push, Producer producer, ClientServiceProvider provider, String topic)
            throws Exception {
        Thread closing = new Thread(() -> {
            try {
                push.close();
            } catch (java.io.IOException error) {
                throw new java.io.UncheckedIOException(error);
            }
        });
        closing.start();
        for (int number = 0; closing.isAlive() && number < 300; number++) {
            producer.send(provider.newMessageBuilder().setTopic(topic).setBody("end".getBytes()).build());
            closing.join(200);
        }
    }

    private static synchronized void say(String what, MessageView message) {
        String body = StandardCharsets.UTF_8.decode(message.getBody()).toString();
        System.out.println(what + "|" + body + "|" + message.getTag().orElse("") + "|" + message.getKeys() + "|"
            + message.getProperties() + "|" + message.getDeliveryAttempt());
    }
}
