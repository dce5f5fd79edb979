import io.netty.util.HashedWheelTimer;
import io.netty.util.Timeout;
import java.util.concurrent.TimeUnit;

/** Netty's wheel with a tick of a millisecond. */
public final class Netty implements Timers.Contender {
    private final HashedWheelTimer timer = new HashedWheelTimer(1, TimeUnit.MILLISECONDS);

    @Override
    public Object schedule(Runnable task, long delayNs) {
        return timer.newTimeout(timeout -> task.run(), delayNs, TimeUnit.NANOSECONDS);
    }

    @Override
    public boolean cancel(Object timer) {
        return ((Timeout) timer).cancel();
    }
}
