import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/**
 * ClientDriver NAMESRV BROKER SCENARIO...: what applications do with the official client, each scenario on topics and
 * groups of its own, many at the same time and in this order. BROKER is the address of the one broker behind NAMESRV.
 *
 * Prints a line for each when it is over: RESULT name OK|FAILED|SKIPPED milliseconds words. What went wrong in full goes to
 * stderr. Nothing here knows whose broker it is.
 */
public class ClientDriver {
    interface Scenario {
        void play(Stage stage) throws Exception;
    }

    /** This client cannot do it. */
    static class Skipped extends Exception {
        Skipped(String why) {
            super(why);
        }
    }

    private static final int AT_ONCE = 10;
    private static final Map<String, Scenario> SCENARIOS = new LinkedHashMap<>();

    static {
        SendScenarios.addTo(SCENARIOS);
        PushScenarios.addTo(SCENARIOS);
        PullScenarios.addTo(SCENARIOS);
        GroupScenarios.addTo(SCENARIOS);
        LaterScenarios.addTo(SCENARIOS);
        TransactionScenarios.addTo(SCENARIOS);
    }

    public static void main(String[] args) throws Exception {
        Troupe troupe = new Troupe(args[0], args[1]);
        ExecutorService players = Executors.newFixedThreadPool(AT_ONCE);
        for (int i = 2; i < args.length; i++) {
            String name = args[i];
            Scenario scenario = SCENARIOS.get(name);
            if (scenario == null) {
                print(name, "FAILED", 0, "no such scenario");
                continue;
            }
            Stage stage = new Stage(troupe, name);
            players.submit((Callable<Void>) () -> {
                play(stage, scenario);
                return null;
            });
        }
        players.shutdown();
        players.awaitTermination(10, TimeUnit.MINUTES);
        System.exit(0); // the client library leaves threads behind that would keep the JVM alive
    }

    private static void play(Stage stage, Scenario scenario) {
        long began = System.nanoTime();
        String result = "OK";
        String words = "";
        try {
            scenario.play(stage);
        } catch (Skipped skipped) {
            result = "SKIPPED";
            words = skipped.getMessage();
        } catch (Throwable error) {
            result = "FAILED";
            words = error.toString();
            synchronized (ClientDriver.class) {
                System.err.println("--- " + stage.name);
                error.printStackTrace();
            }
        }
        print(stage.name, result, (System.nanoTime() - began) / 1_000_000, words);
        stage.close();
    }

    private static synchronized void print(String name, String result, long millis, String words) {
        System.out.println(("RESULT " + name + " " + result + " " + millis + " " + words.replaceAll("\\s+", " ")).trim());
        System.out.flush();
    }
}
