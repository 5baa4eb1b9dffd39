import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Many mqadmin commands in one JVM, because starting a JVM costs more than the command.
 *
 * In:  one command a line, its arguments separated by tabs.
 * Out: for each, a line with the number of bytes, then exactly what the command printed (both streams).
 */
public class MqAdminSession {
    public static void main(String[] ignored) throws Exception {
        PrintStream answers = System.out;
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            PrintStream capture = new PrintStream(printed, true, "UTF-8");
            System.setOut(capture);
            System.setErr(capture);
            forgetCommands();
            MQAdminStartup.main(line.split("\t"));
            capture.flush();
            answers.println(printed.size());
            printed.writeTo(answers);
            answers.flush();
        }
        System.exit(0); // the client library leaves threads behind that would keep the JVM alive
    }

    /** Some commands can run only once: they keep a producer or a consumer and shut it down. */
    private static void forgetCommands() throws IllegalAccessException {
        for (Field field : MQAdminStartup.class.getDeclaredFields()) {
            if (List.class.isAssignableFrom(field.getType())) { // named differently in 4.9 and 5.x
                field.setAccessible(true);
                ((List<?>) field.get(null)).clear();
            }
        }
    }
}
