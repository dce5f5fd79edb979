// What the workloads ask of a timer engine. Each contender implements this; run.sh compares.
#ifndef CONTENDER_HPP
#define CONTENDER_HPP

#include <atomic>
#include <cstdint>
#include <memory>

/// How many timers have fired, of a thread's.
struct alignas(64) tally {
    std::atomic<long> fired{0};
};

/// A thread's side of a contender. All calls come from that thread.
struct side {
    virtual ~side() = default;
    /// Makes room for so many timers, numbered from 0.
    virtual void reserve(long timers) = 0;
    /// Starts a timer that is not running.
    virtual void start(long timer, std::uint64_t delay_ns) = 0;
    /// Cancels a timer that is running.
    virtual void cancel(long timer) = 0;
    /// Moves a timer that is running.
    virtual void reset(long timer, std::uint64_t delay_ns) = 0;
    /// Waits until so many timers of this thread have fired.
    virtual void wait(long fired) = 0;
};

/// A contender as all threads share it, or none.
struct contender {
    virtual ~contender() = default;
    virtual std::unique_ptr<side> make_side() = 0;
};

std::unique_ptr<contender> make_tickless();
std::unique_ptr<contender> make_libuv();
std::unique_ptr<contender> make_libevent();
std::unique_ptr<contender> make_timerfd();
std::unique_ptr<contender> make_heap();

#endif
