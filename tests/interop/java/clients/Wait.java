import java.util.concurrent.Callable;
import java.util.function.Supplier;

/** Waiting for facts. */
class Wait {
    static final int SECONDS_MAX = 60;

    static void until(String what, Callable<Boolean> isSo) throws Exception {
        until(() -> what, isSo);
    }

    /** Look until it is so; the error says what was waited for. */
    static void until(Supplier<String> what, Callable<Boolean> isSo) throws Exception {
        long deadline = System.nanoTime() + SECONDS_MAX * 1_000_000_000L;
        while (!isSo.call()) {
            if (System.nanoTime() > deadline) {
                throw new AssertionError("not within " + SECONDS_MAX + " s: " + what.get());
            }
            Thread.sleep(20);
        }
    }

    static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    static void equal(Object expected, Object found, String what) {
        check(expected.equals(found), what + ": expected " + expected + ", found " + found);
    }
}
