import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.filter.expression.BooleanExpression;
import org.apache.rocketmq.filter.expression.EvaluationContext;
import org.apache.rocketmq.filter.expression.MQFilterException;
import org.apache.rocketmq.filter.parser.SelectorParser;
import org.apache.rocketmq.filter.util.BitsArray;
import org.apache.rocketmq.filter.util.BloomFilter;

/**
 * What Apache's filters answer. One question a line, its parts separated by tabs, texts in Base64:
 *
 * sql EXPRESSION [NAME VALUE]...      -> syntax, true, false, null or throws
 * bloom ERROR_PERCENT EXPECTED TEXT   -> bits, hashes, bitmap in hexadecimal and the positions, separated by blanks
 */
public class SqlJudge {
    public static void main(String[] ignored) throws Exception {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder answers = new StringBuilder();
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            String[] parts = line.split("\t", -1);
            answers.append(parts[0].equals("sql") ? evaluate(parts) : positions(parts)).append('\n');
        }
        System.out.print(answers);
    }

    private static String evaluate(String[] parts) {
        BooleanExpression expression;
        try {
            expression = SelectorParser.parse(text(parts[1]));
        } catch (MQFilterException error) {
            return "syntax";
        }
        Map<String, Object> properties = new HashMap<>();
        for (int i = 2; i < parts.length; i += 2) {
            properties.put(text(parts[i]), text(parts[i + 1]));
        }
        try {
            return String.valueOf(expression.evaluate(new Properties(properties)));
        } catch (Throwable error) {
            return "throws";
        }
    }

    private static String positions(String[] parts) {
        BloomFilter filter = BloomFilter.createByFn(Integer.parseInt(parts[1]), Integer.parseInt(parts[2]));
        int[] positions = filter.calcBitPositions(text(parts[3]));
        BitsArray bits = BitsArray.create(filter.getM());
        filter.hashTo(positions, bits);
        StringBuilder answer = new StringBuilder().append(filter.getM()).append(' ').append(filter.getK()).append(" 0x");
        for (byte part : bits.bytes()) {
            answer.append(String.format("%02x", part));
        }
        Arrays.stream(positions).forEach(position -> answer.append(' ').append(position));
        return answer.toString();
    }

    private static String text(String base64) {
        return new String(Base64.getDecoder().decode(base64), StandardCharsets.UTF_8);
    }

    private static final class Properties implements EvaluationContext {
        private final Map<String, Object> values;

        Properties(Map<String, Object> values) {
            this.values = values;
        }

        @Override
        public Object get(String name) {
            return values.get(name);
        }

        @Override
        public Map<String, Object> keyValues() {
            return values;
        }
    }
}
