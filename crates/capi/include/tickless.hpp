/// tickless for C++17: engines and timers that end with their scope, times of std::chrono, and
/// callbacks that are lambdas. Header only, over tickless.h, which has the rules for threads and
/// callbacks.
///
///     tickless::engine engine;
///     auto timeout = engine.schedule(std::chrono::seconds(5), [&] { connection.close(); });
///     timeout.cancel();
///
/// A call that fails throws tickless::error, unless it says otherwise. A callback must not throw: an
/// exception that leaves it ends the process (std::terminate). It is destroyed after it has run, in
/// the cancel, when the engine stops, or if it could not be scheduled. Its destructor must not throw.
/// Compiled without exceptions (-fno-exceptions), a call that would throw ends the process.
#ifndef TICKLESS_HPP
#define TICKLESS_HPP

#if !defined(__cplusplus) || __cplusplus < 201703L
#error "tickless.hpp needs C++17 or later: compile with -std=c++17"
#endif

#include <chrono>
#if defined(__cpp_impl_coroutine)
#include <coroutine>
#endif
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <ratio>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "tickless.h"

#if defined(__SANITIZE_THREAD__)
#define TICKLESS_TSAN_ 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TICKLESS_TSAN_ 1
#endif
#endif

#ifdef TICKLESS_TSAN_
extern "C" void __tsan_acquire(void *address);
extern "C" void __tsan_release(void *address);
#endif

namespace tickless {

/// Tells ThreadSanitizer what the library orders, which it does not see in a library that is not
/// instrumented: what was done before a schedule comes before the callback and its destruction;
/// and what a callback has done comes before the end of a wait or a stop. For the latter, all
/// callbacks leave their mark in one place, so that some races that are none of the library's go
/// unnoticed.
namespace tsan {
#ifdef TICKLESS_TSAN_
inline constexpr bool is_on = true;
inline char ends;
inline void acquire(void *address) noexcept { __tsan_acquire(address); }
inline void release(void *address) noexcept { __tsan_release(address); }
inline void end_callback() noexcept { __tsan_release(&ends); }
inline void end_wait() noexcept { __tsan_acquire(&ends); }
#else
inline constexpr bool is_on = false;
inline void acquire(void *) noexcept {}
inline void release(void *) noexcept {}
inline void end_callback() noexcept {}
inline void end_wait() noexcept {}
#endif
} // namespace tsan

class engine;

/// What a call failed with.
class error : public std::runtime_error {
public:
    explicit error(int code) : error(code, tickless_last_error()) {}
    error(int code, const char *what) : std::runtime_error(what), code_(code) {}

    /// One of TICKLESS_E_*.
    int code() const noexcept { return code_; }

private:
    int code_;
};

/// Says why on stderr, and ends the process.
[[noreturn]] inline void terminate_because(const char *what, int code) noexcept {
    std::fprintf(stderr, "tickless: %s: %s\n", what, tickless_strerror(code));
    std::terminate();
}

/// Throws if `code` is one of an error, else returns it. `what` is the text; NULL for that of the last
/// failure.
inline int check(int code, const char *what = nullptr) {
    if (code < 0) {
#ifdef __cpp_exceptions
        throw error(code, what != nullptr ? what : tickless_last_error());
#else
        (void)what;
        terminate_because("a call failed, without exceptions", code);
#endif
    }
    return code;
}

/// Nanoseconds of a duration, rounded up. Negative ones, and what is not a number, are 0; what is
/// too long is TICKLESS_NEVER.
template <class Rep, class Period>
constexpr std::uint64_t to_ns(std::chrono::duration<Rep, Period> duration) {
    using nanoseconds = std::chrono::duration<long double, std::nano>;
    if (!(duration > duration.zero())) {
        return 0;
    }
    // 2^63 ns are 292 years.
    if (std::chrono::duration_cast<nanoseconds>(duration).count() >= 9.2e18L) {
        return TICKLESS_NEVER;
    }
    auto ns = std::chrono::ceil<std::chrono::nanoseconds>(duration);
    return static_cast<std::uint64_t>(ns.count());
}

/// When a timer is due.
class when {
public:
    /// After a delay.
    template <class Rep, class Period>
    when(std::chrono::duration<Rep, Period> delay) : when_{to_ns(delay), 0, 0} {}

    /// At a time of the steady clock, which is CLOCK_MONOTONIC on Linux.
    template <class Duration>
    when(std::chrono::time_point<std::chrono::steady_clock, Duration> time)
        : when_{to_ns(time.time_since_epoch()), 0, TICKLESS_AT} {}

    /// It may fire as much later, so that it can share a wake-up with others.
    template <class Rep, class Period>
    when slack(std::chrono::duration<Rep, Period> slack) const {
        when other = *this;
        other.when_.slack_ns = to_ns(slack);
        return other;
    }

    /// As C knows it.
    const tickless_when &get() const noexcept { return when_; }

private:
    friend class engine;
    tickless_when when_;
};

/// A timer that can be cancelled and moved. Movable, not copyable. Its destructor *detaches*: the
/// timer still fires. One thread may use it at a time.
class timer {
public:
    timer() noexcept = default;
    timer(const timer &) = delete;
    timer &operator=(const timer &) = delete;

    timer(timer &&other) noexcept : timer_(std::exchange(other.timer_, tickless_timer{})) {}

    timer &operator=(timer &&other) noexcept {
        if (this != &other) {
            detach();
            timer_ = std::exchange(other.timer_, tickless_timer{});
        }
        return *this;
    }

    ~timer() { detach(); }

    /// Cancels. Returns whether the callback will never run; false also if this is no timer any
    /// more. Never waits for a callback, does not throw.
    bool cancel() noexcept { return tickless_timer_cancel(&timer_) == 1; }

    /// Lets it run, and forgets it. Does not throw.
    void detach() noexcept { tickless_timer_detach(&timer_); }

    /// Moves it. Returns false if it has fired, was ended, or its engine was stopped. Throws if it
    /// repeats.
    bool reset(const when &when) {
        switch (int code = tickless_timer_reset_when(&timer_, &when.get())) {
        case TICKLESS_E_TOO_LATE:
        case TICKLESS_E_STOPPED:
        case TICKLESS_E_HANDLE:
            return false;
        default:
            check(code);
            return true;
        }
    }

    /// Whether it waits for its deadline.
    bool is_pending() const noexcept { return state() == TICKLESS_STATE_PENDING; }

    /// One of TICKLESS_STATE_*, or TICKLESS_E_HANDLE if this is no timer any more.
    int state() const noexcept { return tickless_timer_state(&timer_); }

    /// When it is or was due, on the steady clock, rounded up to the tick; max() if it never fires or
    /// its engine was stopped. Throws if this is no timer any more.
    std::chrono::steady_clock::time_point deadline() {
        using clock = std::chrono::steady_clock;
        std::uint64_t ns = 0;
        check(tickless_timer_deadline_ns(&timer_, &ns));
        if (ns == TICKLESS_NEVER) {
            return clock::time_point::max();
        }
        return clock::time_point(std::chrono::nanoseconds(static_cast<std::int64_t>(ns)));
    }

protected:
    friend class engine;
    tickless_timer timer_{};
};

/// How a callback of that type lies in a timer: in the place of its user data, or allocated.
template <class F>
inline constexpr bool is_stored_inside = !tsan::is_on && sizeof(F) <= sizeof(void *) &&
                                         std::is_trivially_copyable_v<F> &&
                                         std::is_trivially_destructible_v<F>;

/// A timer whose callback comes back if it is cancelled, with what it has captured: see
/// engine::schedule_owning. Otherwise as timer: its destructor detaches.
template <class F> class owning_timer : private timer {
public:
    using timer::cancel;
    using timer::deadline;
    using timer::detach;
    using timer::is_pending;
    using timer::reset;
    using timer::state;

    owning_timer() noexcept = default;

    /// As cancel, and returns the callback instead of destroying it. Returns nothing if it has run, runs
    /// or is about to, if its engine was stopped, or if this is no timer any more.
    std::optional<F> take() noexcept(std::is_nothrow_move_constructible_v<F>) {
        void *user_data = nullptr;
        if (tickless_timer_take(&timer_, &user_data) != 1) {
            return std::nullopt;
        }
        if constexpr (is_stored_inside<F>) {
            alignas(F) unsigned char bytes[sizeof(F)];
            std::memcpy(bytes, &user_data, sizeof(F));
            return *std::launder(reinterpret_cast<F *>(bytes));
        } else {
            std::unique_ptr<F> owned(static_cast<F *>(user_data));
            return std::move(*owned);
        }
    }

private:
    friend class engine;
};

/// A timer that ends before its scope does: its destructor cancels, or waits until the callback has
/// returned. So the callback may use what was declared before it. Declare it last: members that follow
/// it are destroyed while its callback may still run.
///
/// Its own callback may destroy it, and the object that it is a member of: it is detached then. The
/// callback itself is destroyed after it has returned. A callback that its callback waits for must
/// not destroy it: std::terminate.
///
/// Its own callback may also schedule into it again. The destructor ends that timer as well, but no
/// longer waits for the callback that has scheduled it: let that be the last that it does. (What
/// repeats by engine::schedule_every needs no such care.)
class scoped_timer : private timer {
public:
    using timer::deadline;
    using timer::detach;
    using timer::is_pending;
    using timer::reset;
    using timer::state;

    scoped_timer() noexcept = default;
    scoped_timer(scoped_timer &&) noexcept = default;

    scoped_timer &operator=(scoped_timer &&other) noexcept {
        if (this != &other) {
            end();
            timer::operator=(std::move(other));
        }
        return *this;
    }

    ~scoped_timer() { end(); }

    /// Cancels, or waits until the callback has returned. Returns whether it was cancelled; false
    /// also if this is no timer any more.
    bool cancel_wait() {
        int code = tickless_timer_cancel_wait(&timer_, TICKLESS_NEVER);
        tsan::end_wait();
        return code != TICKLESS_E_HANDLE && check(code) == 1;
    }

    /// As cancel_wait, but waits no longer than `limit`: throws TICKLESS_E_TIMED_OUT then, and the
    /// timer is still there.
    template <class Rep, class Period>
    bool cancel_wait_for(std::chrono::duration<Rep, Period> limit) {
        int code = tickless_timer_cancel_wait(&timer_, to_ns(limit));
        tsan::end_wait();
        return code != TICKLESS_E_HANDLE && check(code) == 1;
    }

private:
    friend class engine;
    friend class sleeping;

    /// In a child process, a callback that runs in the parent is none of its business.
    void end() noexcept {
        int code;
        // A callback that this waits for may have scheduled into the timer again.
        do {
            code = tickless_timer_cancel_wait(&timer_, TICKLESS_NEVER);
            tsan::end_wait();
        } while (code >= 0);
        switch (code) {
        case TICKLESS_E_HANDLE:
            return;
        case TICKLESS_E_INSIDE_TASK:
        case TICKLESS_E_FORKED:
            detach();
            return;
        default:
            terminate_because("a scoped_timer cannot be destroyed here", code);
        }
    }
};

/// Timers of a connection or request that end before their scope does: the destructor cancels them, or
/// waits until their callbacks have returned. So the callbacks may use what was declared before it.
/// Declare it last, as a scoped_timer. Movable, not copyable: not while another thread uses it.
///
/// Several threads may use a scope at the same time, and its callbacks may use it and destroy it: all
/// others have ended then. Two callbacks that both run must not both destroy it: the second destructor
/// returns at once, while others run. Nor may a callback destroy it that one of its callbacks waits
/// for: std::terminate.
class scope {
public:
    /// Names a timer in its scope. It may be copied; a default one is that of no timer.
    using key = tickless_scope_key;

    /// A scope without timers, on an engine that may end before it.
    explicit scope(const engine &engine);
    scope(const scope &) = delete;
    scope &operator=(const scope &) = delete;

    scope(scope &&other) noexcept : scope_(std::exchange(other.scope_, tickless_scope{})) {}

    scope &operator=(scope &&other) noexcept {
        if (this != &other) {
            destroy();
            scope_ = std::exchange(other.scope_, tickless_scope{});
        }
        return *this;
    }

    ~scope() { destroy(); }

    /// Schedules `callback` as engine::schedule does. Throws TICKLESS_E_HANDLE if the scope was ended
    /// or moved from.
    template <class F> key schedule(const when &when, F &&callback) {
        key made{};
        schedule_into(made, when, std::forward<F>(callback));
        return made;
    }

    /// As schedule, for a callback that uses the key: `made` is written before the callback can run, and
    /// not touched after that.
    template <class F> void schedule_into(key &made, const when &when, F &&callback);

    /// Cancels a timer. Returns whether its callback will never run; false also if the key is of no
    /// timer or the scope was ended. Never waits for a callback, does not throw.
    bool cancel(key which) noexcept { return tickless_scope_cancel(&scope_, which) == 1; }

    /// Moves a timer. Returns false if it has fired, was cancelled, or its engine was stopped. Throws
    /// only if the scope was ended.
    bool reset(key which, const when &when) {
        int code = tickless_scope_reset_when(&scope_, which, &when.get());
        return code != TICKLESS_E_TOO_LATE && code != TICKLESS_E_STOPPED && check(code) == 0;
    }

    /// Cancels all timers whose callbacks have not begun, and returns how many. Never waits for a
    /// callback.
    int cancel_all() { return check(tickless_scope_cancel_all(&scope_)); }

    /// As the destructor, but throws where that ends the process. In a callback of the scope, waits for
    /// the others. Does nothing if the scope was ended, or while another thread ends it: callbacks may
    /// still run then.
    void end() {
        int code = tickless_scope_end(&scope_, TICKLESS_NEVER);
        tsan::end_wait();
        if (code != TICKLESS_E_HANDLE) {
            check(code);
        }
    }

private:
    /// In a child process, a callback that runs in the parent is none of its business.
    void destroy() noexcept {
        int code = tickless_scope_end(&scope_, TICKLESS_NEVER);
        tsan::end_wait();
        if (code != TICKLESS_OK && code != TICKLESS_E_HANDLE && code != TICKLESS_E_FORKED) {
            terminate_because("a scope cannot be destroyed here", code);
        }
    }

    tickless_scope scope_{};
};

/// Timers that are due together: see options::on_batches.
class batch {
public:
    explicit batch(tickless_batch *due) noexcept : batch_(due) {}

    /// Runs the next timer. Returns false if none is left.
    bool run() { return check(tickless_batch_run(batch_)) == 1; }

private:
    tickless_batch *batch_;
};

#if defined(__cpp_impl_coroutine)

/// What a coroutine awaits: co_await engine.sleep(5s). It goes on where callbacks run: on a thread of
/// the engine's, or in a turn. If the engine stops first, or cannot take the timer, the await throws
/// that error, TICKLESS_E_STOPPED for example.
///
/// A coroutine that is destroyed while it sleeps takes its timer with it, also in another callback of
/// the same turn. As with any coroutine, the program sees to it that no other thread resumes it then.
/// A sleep costs two allocations.
class [[nodiscard]] sleeping {
public:
    sleeping(tickless_engine *engine, const when &when) noexcept
        : engine_(engine), when_(when.get()) {}
    sleeping(const sleeping &) = delete;
    sleeping &operator=(const sleeping &) = delete;

    ~sleeping() {
        is_over_ = true;
        timer_.end();
    }

    bool await_ready() const noexcept { return false; }

    /// Returns false if it cannot sleep.
    bool await_suspend(std::coroutine_handle<> waiting) {
        when_.flags |= TICKLESS_WAITABLE;
        auto *owned = new wake{waiting, this};
        // The coroutine may go on on another thread before the call returns: what the call needs is
        // read before the release.
        tickless_engine *const engine = engine_;
        const tickless_when when = when_;
        tickless_timer *const timer = &timer_.timer_;
        const void *outer = std::exchange(wake::begun, owned);
        tsan::release(owned);
        int code = tickless_schedule_when(engine, &when, &wake::run, owned, &wake::drop, timer);
        wake::begun = outer;
        // From here on, the coroutine may be gone, unless the timer was refused.
        if (code < 0) {
            code_ = code;
        }
        return code >= 0;
    }

    void await_resume() const { check(code_, tickless_strerror(code_)); }

private:
    /// What the timer has.
    struct wake {
        std::coroutine_handle<> waiting;
        sleeping *sleep;
        /// The one that this thread is about to schedule.
        static inline thread_local const void *begun = nullptr;

        static void run(void *user_data) noexcept {
            auto *self = static_cast<wake *>(user_data);
            tsan::acquire(self);
            self->sleep = nullptr;
            self->waiting.resume();
            tsan::release(self);
        }

        static void drop(void *user_data) noexcept {
            auto *self = static_cast<wake *>(user_data);
            tsan::acquire(self);
            // It did not run: its engine has stopped, it was refused, or its coroutine is destroyed.
            if (self->sleep != nullptr && begun != self && !self->sleep->is_over_) {
                self->sleep->code_ = TICKLESS_E_STOPPED;
                self->waiting.resume();
            }
            delete self;
            tsan::end_callback();
        }
    };

    tickless_engine *engine_;
    tickless_when when_;
    int code_ = TICKLESS_OK;
    bool is_over_ = false;
    scoped_timer timer_;
};

#endif

/// Options, all of them the defaults: set the fields of tickless_options.
struct options : tickless_options {
    options() noexcept : tickless_options{} { size = sizeof(tickless_options); }

    /// Lets `handler` run the timers that are due together: it is called with a tickless::batch, on
    /// several threads at a time if there are several shards. What it leaves is run after it. It must
    /// not throw, and must be there until the engine is destroyed.
    template <class H> void on_batches(H &handler) noexcept {
        static_assert(std::is_invocable_v<H &, batch>, "it is called with a tickless::batch");
        on_batch = [](void *data, tickless_batch *due) noexcept {
            (*static_cast<H *>(data))(batch(due));
        };
        on_batch_data = const_cast<void *>(static_cast<const void *>(std::addressof(handler)));
    }
};

/// An engine. Movable, not copyable. Its destructor stops it and waits for its callbacks, unless the
/// last stop_for has returned false. In a callback it cannot: if one ends the process (std::exit) or
/// destroys the engine, the engine is left as it is, and is not freed. An engine that was moved from is
/// empty: its calls throw TICKLESS_E_NULL.
class engine {
public:
    engine() : engine(nullptr) {}
    explicit engine(const options &options) : engine(&options) {}

    /// Schedules `callback`, which is called once without arguments. A callback that is trivially
    /// copyable and no larger than a pointer is stored in the timer; another is allocated.
    template <class F>
    [[nodiscard]] timer schedule(const when &when, F &&callback) {
        timer timer;
        schedule(when.get(), std::forward<F>(callback), &timer.timer_);
        return timer;
    }

    /// As schedule, for a timer that its callback uses, or whose memory it frees: `timer` is written
    /// before the callback can run, and not touched after that. (What schedule returns is written by
    /// the caller, when the callback may have run.) A timer that was there is detached.
    template <class F>
    void schedule_into(timer &timer, const when &when, F &&callback) {
        timer.detach();
        schedule(when.get(), std::forward<F>(callback), &timer.timer_);
    }

    /// As schedule_into, for a timer whose end can be waited for. One that was there is ended as by
    /// its destructor.
    template <class F>
    void schedule_into(scoped_timer &timer, const when &when, F &&callback) {
        timer.end();
        tickless_when waitable = when.get();
        waitable.flags |= TICKLESS_WAITABLE;
        schedule(waitable, std::forward<F>(callback), &timer.timer_);
    }

    /// As schedule, for a timer that nobody cancels or moves, which costs less.
    template <class F>
    void schedule_detached(const when &when, F &&callback) {
        schedule(when.get(), std::forward<F>(callback), nullptr);
    }

    /// As schedule, for a callback that is wanted back if it does not run: owning_timer::take.
    template <class F>
    [[nodiscard]] owning_timer<std::decay_t<F>> schedule_owning(const when &when, F &&callback) {
        owning_timer<std::decay_t<F>> timer;
        schedule(when.get(), std::forward<F>(callback), &timer.timer_);
        return timer;
    }

    /// As schedule, for a timer whose end can be waited for. It costs an allocation more.
    template <class F>
    [[nodiscard]] scoped_timer schedule_scoped(const when &when, F &&callback) {
        scoped_timer timer;
        tickless_when waitable = when.get();
        waitable.flags |= TICKLESS_WAITABLE;
        schedule(waitable, std::forward<F>(callback), &timer.timer_);
        return timer;
    }

#if defined(__cpp_impl_coroutine)
    /// For coroutines: co_await engine.sleep(5s).
    sleeping sleep(const when &when) const noexcept { return {get(), when}; }
#endif

    /// Calls `callback` every `period`, without drift: each run is due a period after the one before
    /// was due, and times that have passed when a run ends are left out. Runs do not overlap. The end
    /// of the timer's scope ends it, and waits for a run; in its own callback it ends without a wait.
    template <class Rep, class Period, class F>
    [[nodiscard]] scoped_timer schedule_every(std::chrono::duration<Rep, Period> period, F &&callback) {
        scoped_timer timer;
        repeat(period, 0, std::forward<F>(callback), &timer.timer_);
        return timer;
    }

    /// As schedule_every, with a pause of that length between runs, however long they take.
    template <class Rep, class Period, class F>
    [[nodiscard]] scoped_timer schedule_with_pauses(std::chrono::duration<Rep, Period> pause, F &&callback) {
        scoped_timer timer;
        repeat(pause, TICKLESS_FIXED_DELAY, std::forward<F>(callback), &timer.timer_);
        return timer;
    }

    /// As schedule_every, for a timer that its callback uses: see schedule_into.
    template <class Rep, class Period, class F>
    void schedule_every_into(scoped_timer &timer, std::chrono::duration<Rep, Period> period, F &&callback) {
        timer.end();
        repeat(period, 0, std::forward<F>(callback), &timer.timer_);
    }

    /// Stops, and waits for the callbacks that run. What was pending is destroyed unrun.
    void stop() {
        check(tickless_engine_stop(get(), TICKLESS_NEVER, nullptr, nullptr));
        tsan::end_wait();
    }

    /// As stop, but waits no longer than `limit`. Returns whether all callbacks have returned.
    template <class Rep, class Period>
    bool stop_for(std::chrono::duration<Rep, Period> limit) {
        int code = tickless_engine_stop(get(), to_ns(limit), nullptr, nullptr);
        tsan::end_wait();
        return code != TICKLESS_E_TIMED_OUT && check(code) == 0;
    }

    /// Moves a manual clock. Returns how many timers fired.
    template <class Rep, class Period>
    std::uint64_t advance(std::chrono::duration<Rep, Period> by) {
        std::uint64_t fired = 0;
        check(tickless_advance(get(), to_ns(by), &fired));
        return fired;
    }

    /// Runs a turn of a shard of an engine that its caller drives.
    tickless_turn_info turn(std::uint32_t shard, std::uint64_t fired_max = 0) {
        tickless_turn_info turn{};
        turn.size = sizeof turn;
        check(tickless_turn(get(), shard, fired_max, &turn));
        return turn;
    }

    /// Binds the calling thread to a shard: from now on its timers go there.
    void bind_thread(std::uint32_t shard) { check(tickless_bind_thread(get(), shard)); }

    /// The eventfd of a shard of an engine that its caller drives.
    int eventfd(std::uint32_t shard) const { return check(tickless_eventfd(get(), shard)); }

    /// A descriptor that is readable when a shard of an engine that its caller drives needs a turn: no
    /// timeout is needed beside it.
    int pollable_fd(std::uint32_t shard) const { return check(tickless_pollable_fd(get(), shard)); }

    /// The engine's time, on the steady clock.
    std::chrono::steady_clock::time_point now() const {
        std::uint64_t ns = 0;
        check(tickless_now_ns(get(), &ns));
        auto since = std::chrono::nanoseconds(static_cast<std::int64_t>(ns));
        return std::chrono::steady_clock::time_point(since);
    }

    /// What it has counted.
    tickless_stats_info stats() const {
        tickless_stats_info stats{};
        stats.size = sizeof stats;
        check(tickless_stats(get(), &stats));
        return stats;
    }

    /// As C knows it. It stays this engine's.
    tickless_engine *get() const noexcept { return engine_.get(); }

private:
    friend class tickless::scope;

    struct end {
        void operator()(tickless_engine *engine) const noexcept {
            int code = tickless_engine_free(engine);
            tsan::end_wait();
            if (code != TICKLESS_OK && code != TICKLESS_E_INSIDE_TASK) {
                terminate_because("an engine cannot be destroyed here", code);
            }
        }
    };

    explicit engine(const tickless_options *options) {
        tickless_engine *made = nullptr;
        check(tickless_engine_new(options, &made));
        engine_.reset(made);
    }

    template <class F>
    void schedule(const tickless_when &when, F &&callback, tickless_timer *timer) {
        pass(std::forward<F>(callback), [&](tickless_fn run, void *user_data, tickless_fn drop_fn) {
            return tickless_schedule_when(get(), &when, run, user_data, drop_fn, timer);
        });
    }

    /// Passes a callback to a call, as C has it.
    template <class F, class Call> static void pass(F &&callback, Call &&call) {
        using callback_type = std::decay_t<F>;
        static_assert(std::is_invocable_v<callback_type &>, "a callback takes no arguments");
        if constexpr (is_stored_inside<callback_type>) {
            callback_type copy(std::forward<F>(callback));
            void *word = nullptr;
            std::memcpy(&word, &copy, sizeof copy);
            check(call(&run_word<callback_type>, word, nullptr));
        } else {
            auto *owned = new callback_type(std::forward<F>(callback));
            tsan::release(owned);
            check(call(&run_owned<callback_type>, owned, &destroy<callback_type>));
        }
    }

    /// The callback is not stored in the timer: it may keep something from run to run.
    template <class Rep, class Period, class F>
    void repeat(std::chrono::duration<Rep, Period> period, std::uint64_t flags, F &&callback,
                tickless_timer *timer) {
        using callback_type = std::decay_t<F>;
        static_assert(std::is_invocable_v<callback_type &>, "a callback takes no arguments");
        const tickless_when first = {to_ns(period), 0, flags};
        auto *owned = new callback_type(std::forward<F>(callback));
        tsan::release(owned);
        check(tickless_schedule_repeating(get(), &first, first.time_ns, &run_owned<callback_type>, owned,
                                          &destroy<callback_type>, timer));
    }

    template <class F>
    static void run_word(void *word) noexcept {
        alignas(F) unsigned char bytes[sizeof(F)];
        std::memcpy(bytes, &word, sizeof(F));
        (*std::launder(reinterpret_cast<F *>(bytes)))();
    }

    template <class F>
    static void run_owned(void *owned) noexcept {
        tsan::acquire(owned);
        (*static_cast<F *>(owned))();
        tsan::release(owned);
    }

    template <class F>
    static void destroy(void *owned) noexcept {
        tsan::acquire(owned);
        delete static_cast<F *>(owned);
        tsan::end_callback();
    }

    std::unique_ptr<tickless_engine, end> engine_;
};

inline scope::scope(const engine &engine) { check(tickless_scope_init(engine.get(), &scope_)); }

template <class F> void scope::schedule_into(key &made, const when &when, F &&callback) {
    engine::pass(std::forward<F>(callback), [&](tickless_fn run, void *user_data, tickless_fn drop_fn) {
        return tickless_scope_schedule_when(&scope_, &when.get(), run, user_data, drop_fn, &made);
    });
}

} // namespace tickless

#endif
