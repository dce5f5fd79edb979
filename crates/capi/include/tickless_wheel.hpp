/// tickless_wheel.h for C++17: times of std::chrono::steady_clock, and timers that have a lambda and
/// end with their scope. Header only, and without a library.
///
///     tickless::wheel<> wheel;
///     tickless::wheel_timer idle(wheel, [&] { connection.close(); });
///     idle.start(std::chrono::seconds(30));
///     for (;;) {
///         wait for events, at most until wheel.next();
///         wheel.advance();
///     }
///
/// A wheel and its timers are used by one thread. Neither moves: a timer is a member of what it
/// belongs to. A callback may start, cancel and destroy any timer; its own it may destroy as the last
/// thing that it does. Nothing here throws, except what a callback throws, which leaves `advance`:
/// the timers that are left fire at the next one.
#ifndef TICKLESS_WHEEL_HPP
#define TICKLESS_WHEEL_HPP

#if !defined(__cplusplus) || __cplusplus < 201703L
#error "tickless_wheel.hpp needs C++17 or later: compile with -std=c++17"
#endif

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

#include "tickless_wheel.h"

namespace tickless {

/// What a wheel knows of a timer. The node comes first: its address is that of this.
struct wheel_node {
    tickless_wheel_timer timer{};
    void (*run)(wheel_node &) = nullptr;
};

/// A wheel whose ticks are `Tick` long.
template <class Tick = std::chrono::milliseconds> class wheel {
public:
    using clock = std::chrono::steady_clock;

    /// A wheel at that time.
    explicit wheel(clock::time_point now = clock::now()) noexcept {
        tickless_wheel_init(&wheel_, floor(now));
    }

    wheel(const wheel &) = delete;
    wheel &operator=(const wheel &) = delete;

    /// Timers that are pending do not run.
    ~wheel() { clear(); }

    /// Cancels all timers.
    void clear() noexcept {
        while (tickless_wheel_remove_any(&wheel_) != nullptr) {
        }
    }

    /// Runs what is due at that time, in order of the deadlines, within a limit as that of
    /// tickless_wheel_advance. Returns how many timers it has run. If the limit has left something to
    /// do, next() is not after the time.
    std::uint64_t advance(clock::time_point now = clock::now(),
                          std::uint64_t limit = std::numeric_limits<std::uint64_t>::max()) {
        return tickless_wheel_advance(&wheel_, floor(now), limit, run, nullptr);
    }

    /// The time until which nothing has to be done; none if nothing will ever fire.
    std::optional<clock::time_point> next() noexcept {
        const std::uint64_t tick = tickless_wheel_next(&wheel_);
        if (tick == TICKLESS_WHEEL_NEVER) {
            return std::nullopt;
        }
        return clock::time_point(Tick(static_cast<std::int64_t>(tick)));
    }

    /// The time that it has reached, in whole ticks. In a callback: that of its timer.
    clock::time_point now() const noexcept {
        return clock::time_point(Tick(static_cast<std::int64_t>(tickless_wheel_now(&wheel_))));
    }

    /// The latest time that an advance was given, also in its callbacks, in whole ticks.
    clock::time_point latest() const noexcept {
        return clock::time_point(Tick(static_cast<std::int64_t>(tickless_wheel_latest(&wheel_))));
    }

    /// How many timers are pending.
    std::uint64_t size() const noexcept { return tickless_wheel_count(&wheel_); }

    /// As C knows it.
    tickless_wheel *get() noexcept { return &wheel_; }

    /// A deadline in ticks, rounded up, so that no timer is early. max() never comes.
    static std::uint64_t deadline(clock::time_point time) noexcept {
        if (time == clock::time_point::max()) {
            return TICKLESS_WHEEL_NEVER;
        }
        const auto ticks = std::chrono::ceil<Tick>(time.time_since_epoch()).count();
        return ticks > 0 ? static_cast<std::uint64_t>(ticks) : 0;
    }

private:
    static std::uint64_t floor(clock::time_point time) noexcept {
        const auto ticks = std::chrono::floor<Tick>(time.time_since_epoch()).count();
        return ticks > 0 ? static_cast<std::uint64_t>(ticks) : 0;
    }

    static void run(tickless_wheel_timer *timer, void *) {
        auto *node = reinterpret_cast<wheel_node *>(timer);
        node->run(*node);
    }

    tickless_wheel wheel_;
};

/// A timer of a wheel, with its callback. Its destructor cancels.
template <class F = std::function<void()>, class Tick = std::chrono::milliseconds>
class wheel_timer : private wheel_node {
    static_assert(std::is_invocable_v<F &>, "a callback takes no arguments");

public:
    using clock = std::chrono::steady_clock;

    wheel_timer(wheel<Tick> &wheel, F callback)
        : wheel_(wheel.get()), callback_(std::move(callback)) {
        run = call;
    }

    wheel_timer(const wheel_timer &) = delete;
    wheel_timer &operator=(const wheel_timer &) = delete;

    ~wheel_timer() { cancel(); }

    /// Starts it, or moves it if it is pending: due after a delay from now.
    template <class Rep, class Period>
    void start(std::chrono::duration<Rep, Period> delay) noexcept {
        start_at(after(clock::now(), delay));
    }

    /// As start, from the time of the last advance on, or of the one that is under way: costs no look
    /// at the clock.
    template <class Rep, class Period>
    void start_from_last(std::chrono::duration<Rep, Period> delay) noexcept {
        const auto now = Tick(static_cast<std::int64_t>(tickless_wheel_latest(wheel_)));
        start_at(after(clock::time_point(now), delay));
    }

    /// Starts it, or moves it if it is pending.
    void start_at(clock::time_point deadline) noexcept {
        tickless_wheel_reset(wheel_, &timer, tickless::wheel<Tick>::deadline(deadline));
    }

    /// Stops it. Returns whether it was pending.
    bool cancel() noexcept { return tickless_wheel_cancel(wheel_, &timer) == 1; }

    bool is_pending() const noexcept { return tickless_wheel_is_pending(&timer) == 1; }

private:
    template <class Rep, class Period>
    static clock::time_point after(clock::time_point now,
                                   std::chrono::duration<Rep, Period> delay) noexcept {
        using seconds = std::chrono::duration<long double>;
        if (!(delay > delay.zero())) {
            return now;
        }
        if (seconds(delay) >= seconds(clock::time_point::max() - now)) {
            return clock::time_point::max();
        }
        return now + std::chrono::ceil<clock::duration>(delay);
    }

    static void call(wheel_node &node) { static_cast<wheel_timer &>(node).callback_(); }

    tickless_wheel *wheel_;
    F callback_;
};

template <class Tick, class F> wheel_timer(wheel<Tick> &, F) -> wheel_timer<F, Tick>;

} // namespace tickless

#endif
