// The C++ wrapper: scopes, moves, lambdas of all kinds, times, and what it throws.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <poll.h>

#include "check.hpp"
#include "tickless.hpp"

using namespace std::chrono_literals;

static_assert(!std::is_copy_constructible_v<tickless::timer>);
static_assert(!std::is_copy_constructible_v<tickless::scoped_timer>);
static_assert(!std::is_copy_constructible_v<tickless::engine>);
static_assert(std::is_nothrow_move_constructible_v<tickless::timer>);
static_assert(std::is_nothrow_move_assignable_v<tickless::scoped_timer>);
static_assert(sizeof(tickless::timer) == sizeof(tickless_timer));
static_assert(sizeof(tickless::scoped_timer) == sizeof(tickless_timer));

static_assert(tickless::to_ns(-1h) == 0);
static_assert(tickless::to_ns(std::chrono::duration<double, std::nano>(1.5)) == 2);
static_assert(tickless::to_ns(std::chrono::hours::max()) == TICKLESS_NEVER);
static_assert(tickless::to_ns(std::chrono::duration<double>(
                  std::numeric_limits<double>::quiet_NaN())) == 0);
static_assert(std::is_convertible_v<decltype(std::chrono::steady_clock::now() +
                                             std::chrono::duration<double>(1.5)),
                                    tickless::when>);
static_assert(!std::is_convertible_v<std::chrono::system_clock::time_point, tickless::when>);

static tickless::engine manual() {
    tickless::options options;
    options.clock = TICKLESS_CLOCK_MANUAL;
    options.shards = 1;
    return tickless::engine(options);
}

template <class F>
static int thrown_by(F &&call) {
    try {
        call();
    } catch (const tickless::error &error) {
        CHECK(std::string(error.what()).size() > 3);
        return error.code();
    }
    return TICKLESS_OK;
}

static int freely_counted;

static void count_freely() {
    freely_counted++;
}

static void callbacks_of_all_kinds_run_once() {
    auto engine = manual();
    int count = 0;
    engine.schedule_detached(1ms, [&count] { count++; });
    engine.schedule_detached(1ms, [&count, a = std::string(100, 'a')] { count += a.size() == 100; });
    engine.schedule_detached(1ms, [&count, p = std::make_unique<int>(7)] { count += *p == 7; });
    engine.schedule_detached(1ms, [&count, state = 0]() mutable { count += ++state; });
    std::function<void()> function = [&count] { count++; };
    engine.schedule_detached(1ms, function);
    engine.schedule_detached(1ms, count_freely);
    CHECK(engine.advance(1ms) == 6);
    CHECK(count == 5 && freely_counted == 1);
}

static void a_callback_is_destroyed_once_by_each_way_to_end_its_timer() {
    auto shared = std::make_shared<int>(0);
    auto use = [shared] { ++*shared; };
    {
        auto engine = manual();
        auto cancelled = engine.schedule(1s, use);
        auto fired = engine.schedule(1ms, use);
        auto pending = engine.schedule(1s, use);
        auto scoped = engine.schedule_scoped(1s, use);
        engine.schedule_detached(1s, use);
        CHECK(shared.use_count() == 7);
        CHECK(cancelled.cancel() && shared.use_count() == 6);
        CHECK(!cancelled.cancel());
        CHECK(engine.advance(1ms) == 1 && *shared == 1 && shared.use_count() == 5);
        CHECK(!fired.cancel() && !fired.is_pending() && pending.is_pending());
        CHECK(scoped.cancel_wait() && !scoped.cancel_wait() && shared.use_count() == 4);
        engine.stop();
        CHECK(shared.use_count() == 2);
        CHECK(thrown_by([&] { engine.schedule_detached(1s, use); }) == TICKLESS_E_STOPPED);
        CHECK(shared.use_count() == 2);
    }
    CHECK(*shared == 1);
}

static void a_timer_that_goes_out_of_scope_fires_and_a_scoped_one_does_not() {
    auto engine = manual();
    int count = 0;
    {
        auto timer = engine.schedule(1ms, [&] { count++; });
        auto scoped = engine.schedule_scoped(1ms, [&] { count += 100; });
    }
    CHECK(engine.advance(1ms) == 1 && count == 1);
}

static void timers_move() {
    auto engine = manual();
    int count = 0;
    std::vector<tickless::timer> timers;
    for (int i = 0; i < 100; i++) {
        timers.push_back(engine.schedule(1ms, [&] { count++; }));
    }
    timers[0] = std::move(timers[1]); // The first is detached, and fires.
    CHECK(!timers[1].cancel() && timers[0].cancel());
    CHECK(engine.advance(1ms) == 99 && count == 99);
    tickless::scoped_timer scoped = engine.schedule_scoped(1ms, [&] { count++; });
    scoped = engine.schedule_scoped(1ms, [&] { count++; }); // The first is cancelled.
    tickless::scoped_timer other(std::move(scoped));
    CHECK(engine.advance(1ms) == 1 && count == 100);
    tickless::engine moved(std::move(engine));
    CHECK(moved.stats().fired == 100);
    CHECK(thrown_by([&] { engine.stats(); }) == TICKLESS_E_NULL);
}

static void times_are_those_of_chrono() {
    auto engine = manual();
    int count = 0;
    auto add = [&] { count++; };
    auto at = engine.schedule(engine.now() + 10ms, add);
    auto with_slack = engine.schedule(tickless::when(10ms).slack(5ms), add);
    auto never = engine.schedule(std::chrono::hours::max(), add);
    engine.schedule_detached(-5s, add);
    engine.schedule_detached(std::chrono::duration<double>(0.002), add);
    CHECK(engine.advance(0ms) == 1 && engine.advance(2ms) == 1);
    CHECK(engine.advance(20ms) == 2);
    CHECK(never.is_pending() && never.reset(1ms) && engine.advance(1ms) == 1);
    CHECK(!at.reset(1ms) && count == 5);
}

static void a_timer_tells_its_state_and_its_deadline() {
    auto engine = manual();
    engine.bind_thread(0);
    CHECK(thrown_by([&] { engine.bind_thread(1); }) == TICKLESS_E_NO_SHARD);
    auto timer = engine.schedule(engine.now() + 10ms, [] {});
    auto never = engine.schedule(std::chrono::hours::max(), [] {});
    auto scoped = engine.schedule_scoped(10ms, [] {});
    CHECK(timer.state() == TICKLESS_STATE_PENDING && scoped.state() == TICKLESS_STATE_PENDING);
    CHECK(timer.deadline() >= engine.now() + 10ms && timer.deadline() < engine.now() + 12ms);
    CHECK(never.deadline() == std::chrono::steady_clock::time_point::max());
    CHECK(engine.advance(20ms) == 2);
    CHECK(timer.state() == TICKLESS_STATE_FIRED && scoped.state() == TICKLESS_STATE_FINISHED);
    timer.detach();
    CHECK(timer.state() == TICKLESS_E_HANDLE);
    CHECK(thrown_by([&] { timer.deadline(); }) == TICKLESS_E_HANDLE);
}

static void a_loop_waits_for_one_descriptor_without_a_timeout() {
    tickless::options options;
    options.driver = TICKLESS_DRIVER_CALLER;
    options.shards = 1;
    tickless::engine engine(options);
    pollfd waited = {engine.pollable_fd(0), POLLIN, 0};
    CHECK(waited.fd != engine.eventfd(0) && waited.fd == engine.pollable_fd(0));
    int count = 0;
    engine.schedule_detached(2ms, [&] { count++; });
    engine.schedule_detached(1h, [&] { count = 100; });
    while (count == 0) {
        CHECK(poll(&waited, 1, -1) == 1);
        engine.turn(0);
    }
    engine.turn(0);
    CHECK(count == 1 && poll(&waited, 1, 0) == 0);
    CHECK(thrown_by([&] { engine.pollable_fd(1); }) == TICKLESS_E_NO_SHARD);
}

static void a_timer_that_repeats_keeps_its_state_and_ends_with_its_scope() {
    auto engine = manual();
    auto shared = std::make_shared<int>(0);
    {
        auto rate = engine.schedule_every(10ms, [shared, n = 0]() mutable { *shared = ++n; });
        CHECK(engine.advance(1s) == 100 && *shared == 100 && rate.is_pending());
        CHECK(rate.deadline() == engine.now() + 10ms);
    }
    CHECK(shared.use_count() == 1 && engine.advance(1s) == 0);
    auto pauses = engine.schedule_with_pauses(10ms, [shared, &engine] {
        tickless_clock_advance(engine.get(), 30000000);
        ++*shared;
    });
    CHECK(engine.advance(10ms) == 1 && engine.advance(9ms) == 0 && engine.advance(1ms) == 1);
    CHECK(pauses.cancel_wait() && !pauses.cancel_wait() && shared.use_count() == 1);
    // Its own callback ends it.
    tickless::scoped_timer own;
    engine.schedule_every_into(own, 10ms, [&own, shared] { own = tickless::scoped_timer(); });
    CHECK(engine.advance(1s) == 1 && shared.use_count() == 1);
    CHECK(thrown_by([&] { (void)engine.schedule_every(0s, [shared] {}); }) == TICKLESS_E_ARGUMENT);
    CHECK(shared.use_count() == 1 && engine.stats().unended == 0);
}

static void a_scope_ends_when_its_callback_has_returned() {
    tickless::engine engine;
    for (int i = 0; i < 200; i++) {
        // The callback uses what lies on this stack.
        int uses = 0;
        std::promise<void> begun;
        auto is_begun = begun.get_future();
        auto timer = engine.schedule_scoped(0s, [&] {
            begun.set_value();
            uses++;
        });
        if (i % 2 == 0) {
            is_begun.wait();
            CHECK(!timer.cancel_wait());
            CHECK(uses == 1);
        }
    }
    CHECK(engine.stop_for(60s));
}

/// A connection with two timers: one closes it, the other counts.
struct connection {
    std::string log;
    tickless::scoped_timer idle, beat;
};

static void connections_are_destroyed_by_their_timers_and_by_other_threads() {
    tickless::options options;
    options.tick_ns = 20000;
    tickless::engine engine(options);
    std::mutex mutex;
    std::map<int, std::unique_ptr<connection>> open;
    std::atomic<int> closed{0};
    auto close = [&](int number) {
        std::unique_ptr<connection> here;
        {
            std::lock_guard<std::mutex> lock(mutex);
            auto found = open.find(number);
            if (found == open.end()) {
                return;
            }
            here = std::move(found->second);
            open.erase(found);
        }
        here.reset();
        closed++;
    };
    for (int number = 0; number < 2000; number++) {
        auto made = std::make_unique<connection>();
        {
            // The timers may fire at once.
            std::lock_guard<std::mutex> lock(mutex);
            auto *here = open.emplace(number, std::move(made)).first->second.get();
            engine.schedule_into(here->idle, std::chrono::microseconds(number % 200),
                                 [&close, number] { close(number); });
            engine.schedule_every_into(here->beat, std::chrono::microseconds(20 + number % 7),
                                       [here] { here->log += "."; });
        }
        if (number % 2 == 0) {
            close(number);
        }
    }
    while (closed < 2000) {
        std::this_thread::yield();
    }
    engine.stop();
    CHECK(engine.stats().unended == 0 && open.empty());
}

static void threads_share_an_engine() {
    tickless::engine engine;
    std::atomic<long> fired{0};
    long kept = 0;
    std::vector<std::thread> threads;
    std::atomic<long> cancelled{0};
    for (int i = 0; i < 4; i++) {
        threads.emplace_back([&] {
            for (int n = 0; n < 500; n++) {
                auto timer = engine.schedule(n % 2 ? 0ms : 1h, [&fired] { fired++; });
                cancelled += timer.cancel();
            }
        });
    }
    for (auto &thread : threads) {
        thread.join();
    }
    engine.stop();
    auto stats = engine.stats();
    kept = static_cast<long>(stats.scheduled - stats.returned);
    CHECK(stats.scheduled == 2000 && kept == fired + cancelled);
}

static void a_callback_that_does_not_run_comes_back() {
    auto engine = manual();
    auto kept = std::make_shared<int>(7);
    struct send {
        std::unique_ptr<std::string> message;
        void operator()() { *message += " sent"; }
    };
    auto timer = engine.schedule_owning(5s, send{std::make_unique<std::string>("hello")});
    auto moved = std::move(timer);
    CHECK(!timer.take() && moved.is_pending() && moved.reset(7s));
    auto back = moved.take();
    CHECK(back && *back->message == "hello" && !moved.take());
    (*back)();
    CHECK(*back->message == "hello sent");
    // Small ones, which lie in the timer.
    int n = 0;
    auto small = engine.schedule_owning(5s, [&n] { n++; });
    (*small.take())();
    CHECK(n == 1);
    auto late = engine.schedule_owning(1ms, [&n, kept] { n += *kept; });
    engine.advance(1ms);
    CHECK(!late.take() && n == 8 && kept.use_count() == 1);
    auto stopped = engine.schedule_owning(1ms, [kept] {});
    engine.stop();
    CHECK(!stopped.take() && kept.use_count() == 1);
    CHECK(engine.stats().unended == 0);
}

int main() {
    RUN(a_callback_that_does_not_run_comes_back);
    RUN(callbacks_of_all_kinds_run_once);
    RUN(a_callback_is_destroyed_once_by_each_way_to_end_its_timer);
    RUN(a_timer_that_goes_out_of_scope_fires_and_a_scoped_one_does_not);
    RUN(timers_move);
    RUN(times_are_those_of_chrono);
    RUN(a_timer_tells_its_state_and_its_deadline);
    RUN(a_loop_waits_for_one_descriptor_without_a_timeout);
    RUN(a_timer_that_repeats_keeps_its_state_and_ends_with_its_scope);
    RUN(a_scope_ends_when_its_callback_has_returned);
    RUN(connections_are_destroyed_by_their_timers_and_by_other_threads);
    RUN(threads_share_an_engine);
}
