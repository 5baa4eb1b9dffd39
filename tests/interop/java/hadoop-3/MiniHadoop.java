import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.DFSConfigKeys;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/**
 * HDFS with one data node and YARN with one node manager, on ports that are free. Everything is below the folder given
 * as the only argument; its `conf` is what HADOOP_CONF_DIR names. Prints `ready`, and ends when stdin is closed: so it
 * does not outlive whoever started it.
 */
public final class MiniHadoop {
    private static final int NODE_MEMORY_MB = 4096;
    private static final int NODE_CORES = 4;

    public static void main(String[] words) {
        try {
            run(new File(words[0]));
        } catch (Throwable error) { // threads of the cluster would keep the JVM alive
            error.printStackTrace();
            System.exit(1);
        }
        System.exit(0);
    }

    private static void run(File home) throws Exception {
        System.setProperty("test.build.data", new File(home, "yarn").getPath()); // else it is ./target
        YarnConfiguration conf = new YarnConfiguration();
        MiniDFSCluster files = new MiniDFSCluster.Builder(conf, new File(home, "dfs")).numDataNodes(1).build();
        files.waitActive();
        MiniYARNCluster jobs = new MiniYARNCluster("hanabi", 1, 1, 1, 1);
        jobs.init(oneNode(conf));
        jobs.start();
        if (!jobs.waitForNodeManagersToConnect(120_000)) {
            throw new IOException("the node manager did not connect");
        }
        File folder = new File(home, "conf");
        folder.mkdirs();
        String defaultFs = files.getURI().toString();
        write(new File(folder, "core-site.xml"), "fs.defaultFS", defaultFs);
        write(new File(folder, "hdfs-site.xml"), DFSConfigKeys.DFS_REPLICATION_KEY, "1");
        Configuration known = jobs.getConfig();
        write(
                new File(folder, "yarn-site.xml"),
                YarnConfiguration.RM_ADDRESS, known.get(YarnConfiguration.RM_ADDRESS),
                YarnConfiguration.RM_SCHEDULER_ADDRESS, known.get(YarnConfiguration.RM_SCHEDULER_ADDRESS));
        System.out.println("ready " + defaultFs);
        while (System.in.read() >= 0) {
            continue;
        }
        jobs.stop();
        files.shutdown();
    }

    /** One node manager that takes a few small containers, whatever the machine has. */
    private static Configuration oneNode(Configuration conf) {
        conf.setInt(YarnConfiguration.YARN_MINICLUSTER_NM_PMEM_MB, NODE_MEMORY_MB);
        conf.setInt(YarnConfiguration.NM_VCORES, NODE_CORES);
        conf.setInt(YarnConfiguration.RM_SCHEDULER_MINIMUM_ALLOCATION_MB, 128);
        conf.setBoolean(YarnConfiguration.NM_DISK_HEALTH_CHECK_ENABLE, false); // a full disk is not what is tested
        conf.setBoolean(YarnConfiguration.NM_VMEM_CHECK_ENABLED, false); // JVMs reserve more than they use
        conf.set("yarn.scheduler.capacity.root.queues", "default");
        conf.set("yarn.scheduler.capacity.root.default.capacity", "100");
        conf.set("yarn.scheduler.capacity.maximum-am-resource-percent", "0.5");
        return conf;
    }

    private static void write(File file, String... keysAndValues) throws IOException {
        Configuration conf = new Configuration(false);
        for (int i = 0; i < keysAndValues.length; i += 2) {
            conf.set(keysAndValues[i], keysAndValues[i + 1]);
        }
        try (OutputStream out = new FileOutputStream(file)) {
            conf.writeXml(out);
        }
    }
}
