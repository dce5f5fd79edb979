import java.lang.management.ManagementFactory;
import java.util.Arrays;
import java.util.Locale;
import java.util.SplittableRandom;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/**
 * Timers of Java on two of the workloads of `rivals`: `cancel-heavy` (each thread keeps 10,000 timers
 * of 10 to 30 s, cancels the oldest and schedules another) and `fire-all` (timers within 2 s, all of
 * which fire). It prints a line of JSON per measurement, as `rivals` does, and measures after a round
 * that warms the compiler up. Arguments: contender, workload, threads, scale.
 */
public final class Timers {
    private static final int RING = 10_000;
    private static final int STEPS = 2_000_000;
    private static final int TIMERS = 1_000_000;
    private static final long MOST_NS = 2_000_000_000L;
    private static final int WARM_UPS = 3;

    /** A timer for any thread. */
    interface Contender {
        /** What is handed to {@link #cancel}. */
        Object schedule(Runnable task, long delayNs);

        /** Whether it came in time. */
        boolean cancel(Object timer);
    }

    /** An executor of the JDK. */
    record Executor(ScheduledExecutorService service) implements Contender {
        @Override
        public Object schedule(Runnable task, long delayNs) {
            return service.schedule(task, delayNs, TimeUnit.NANOSECONDS);
        }

        @Override
        public boolean cancel(Object timer) {
            return ((Future<?>) timer).cancel(false);
        }
    }

    private static Contender contender(String name) throws ReflectiveOperationException {
        switch (name) {
            case "delay-scheduler":
                // Since Java 25 the pool is such an executor, and its timers are DelayScheduler's.
                Object pool = ForkJoinPool.commonPool();
                if (!(pool instanceof ScheduledExecutorService service)) {
                    throw new IllegalStateException("delay-scheduler needs Java 25");
                }
                return new Executor(service);
            case "scheduled-pool":
                var executor = new ScheduledThreadPoolExecutor(1);
                executor.setRemoveOnCancelPolicy(true);
                return new Executor(executor);
            case "netty":
                // Compiled only if it is asked for, since its imports may be missing.
                return (Contender) Class.forName("Netty").getDeclaredConstructor().newInstance();
            default:
                throw new IllegalArgumentException("no contender is called " + name);
        }
    }

    public static void main(String[] arguments) throws Exception {
        String name = arguments[0];
        String workload = arguments[1];
        int threads = Integer.parseInt(arguments[2]);
        double scale = Double.parseDouble(arguments[3]);
        Contender contender = contender(name);
        for (int round = 0; round <= WARM_UPS; round++) {
            System.gc();
            String line = switch (workload) {
                case "cancel-heavy" -> cancelHeavy(contender, threads, scale);
                case "fire-all" -> fireAll(contender, threads, scale);
                default -> throw new IllegalArgumentException("no workload is called " + workload);
            };
            if (round == WARM_UPS) {
                System.out.printf(Locale.ROOT, "{\"contender\":\"%s\",\"workload\":\"%s\",\"threads\":%d,%s}%n",
                        name, workload, threads, line);
            }
        }
        System.exit(0);
    }

    private static String cancelHeavy(Contender contender, int threads, double scale) throws Exception {
        int steps = Math.max(100, (int) (STEPS * scale));
        var watch = run(threads, (thread, start) -> {
            var random = new SplittableRandom(thread + 1);
            Runnable task = () -> { throw new IllegalStateException("a timer fired"); };
            var ring = new Object[RING];
            for (int at = 0; at < RING; at++) {
                ring[at] = contender.schedule(task, delay(random));
            }
            start.await();
            for (int step = 0; step < steps; step++) {
                int at = step % RING;
                check(contender.cancel(ring[at]), "a timer fired");
                ring[at] = contender.schedule(task, delay(random));
            }
            return () -> {
                for (Object timer : ring) {
                    check(contender.cancel(timer), "a timer fired");
                }
            };
        });
        long n = (long) steps * threads;
        return watch.line(n, String.format(Locale.ROOT, "\"cancelled\":%d,\"fired\":0", n));
    }

    private static String fireAll(Contender contender, int threads, double scale) throws Exception {
        int each = Math.max(200, (int) (TIMERS * scale)) / threads;
        var due = new long[each * threads];
        var fired = new long[each * threads];
        var left = new CountDownLatch(each * threads);
        var watch = run(threads, (thread, start) -> {
            var random = new SplittableRandom(thread + 1);
            start.await();
            for (int at = thread * each; at < (thread + 1) * each; at++) {
                int place = at;
                long delayNs = random.nextLong(1_000_000, MOST_NS);
                due[at] = System.nanoTime() + delayNs;
                contender.schedule(() -> {
                    fired[place] = System.nanoTime();
                    left.countDown();
                }, delayNs);
            }
            return left::await;
        });
        var late = new long[due.length];
        Arrays.setAll(late, at -> fired[at] - due[at]);
        Arrays.sort(late);
        long early = Arrays.stream(late).filter(ns -> ns < 0).count();
        return watch.line(late.length, String.format(Locale.ROOT,
                "\"fired\":%d,\"early\":%d,\"late_us\":{\"p50\":%.1f,\"p99\":%.1f,\"p999\":%.1f,\"max\":%.1f}",
                late.length, early, us(late, 0.5), us(late, 0.99), us(late, 0.999), us(late, 1)));
    }

    private static long delay(SplittableRandom random) {
        return random.nextLong(10_000_000_000L, 30_000_000_000L);
    }

    private static double us(long[] sorted, double share) {
        return sorted[Math.max(0, (int) Math.ceil(share * sorted.length) - 1)] / 1e3;
    }

    private static void check(boolean holds, String otherwise) {
        if (!holds) {
            throw new IllegalStateException(otherwise);
        }
    }

    /** What one thread does: it prepares, waits for the start, and returns what comes after the schedules. */
    interface Lane {
        End run(int thread, CyclicBarrier start) throws Exception;
    }

    /** Counted as CPU time, but not as wall time. */
    interface End {
        void run() throws Exception;
    }

    /** Wall time of the threads that schedule, and CPU time of the process up to the end of everything. */
    record Watch(long wallNs, long cpuNs) {
        String line(long n, String extra) {
            return String.format(Locale.ROOT, "\"n\":%d,\"ns_per_op\":%.1f,\"cpu_ns_per_op\":%.1f,\"extra\":{%s}",
                    n, (double) wallNs / n, (double) cpuNs / n, extra);
        }
    }

    private static Watch run(int threads, Lane lane) throws Exception {
        var taken = new long[2];
        var start = new CyclicBarrier(threads, () -> {
            taken[0] = System.nanoTime();
            taken[1] = cpuNs();
        });
        var ends = new End[threads];
        var failure = new Throwable[1];
        var running = new Thread[threads];
        for (int at = 0; at < threads; at++) {
            int thread = at;
            running[at] = new Thread(() -> {
                try {
                    ends[thread] = lane.run(thread, start);
                } catch (Throwable thrown) {
                    failure[0] = thrown;
                    start.reset();
                }
            });
            running[at].start();
        }
        for (Thread thread : running) {
            thread.join();
        }
        long wallNs = System.nanoTime() - taken[0];
        if (failure[0] != null) {
            throw new IllegalStateException(failure[0]);
        }
        for (End end : ends) {
            end.run();
        }
        return new Watch(wallNs, cpuNs() - taken[1]);
    }

    private static long cpuNs() {
        var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        return system.getProcessCpuTime();
    }
}
