import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** What all scenarios share: where the servers are, and the tools that make topics. */
class Troupe {
    static final int PATIENCE_MS = 20_000;

    final String nameServer;
    final String broker;
    final DefaultMQAdminExt admin = new DefaultMQAdminExt(PATIENCE_MS);

    Troupe(String nameServer, String broker) throws Exception {
        this.nameServer = nameServer;
        this.broker = broker;
        admin.setNamesrvAddr(nameServer);
        admin.setInstanceName("tools");
        admin.start();
    }

    /** Make a topic, and return when clients can find it: else a consumer would look for it only half a minute later. */
    void makeTopic(String topic, int queues) throws Exception {
        TopicConfig config = new TopicConfig(topic);
        config.setReadQueueNums(queues);
        config.setWriteQueueNums(queues);
        synchronized (this) {
            admin.createAndUpdateTopicConfig(broker, config);
        }
        Wait.until("a route for " + topic, () -> {
            try {
                return !admin.examineTopicRouteInfo(topic).getBrokerDatas().isEmpty();
            } catch (Exception notYet) {
                return false;
            }
        });
    }
}
