// C++20: coroutines that sleep. The timer lies in the coroutine's frame, which the callback resumes, and
// so may destroy, before the call that schedules has returned.
#include <atomic>
#include <utility>
#include <vector>

#include "check.hpp"
#include "task.hpp"
#include "tickless.hpp"

using namespace std::chrono_literals;

// One that its owner may destroy while it sleeps.
struct owned {
    struct promise_type {
        owned get_return_object() noexcept {
            return owned{std::coroutine_handle<promise_type>::from_promise(*this)};
        }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        void return_void() noexcept {}
        void unhandled_exception() noexcept { std::terminate(); }
    };

    explicit owned(std::coroutine_handle<promise_type> handle) : handle(handle) {}
    owned(owned &&other) noexcept : handle(std::exchange(other.handle, nullptr)) {}
    ~owned() { destroy(); }

    void destroy() {
        if (handle) {
            std::exchange(handle, nullptr).destroy();
        }
    }

    std::coroutine_handle<promise_type> handle;
};

struct counted {
    explicit counted(int &n) : n(n) { n++; }
    ~counted() { n--; }
    int &n;
};

static tickless::engine manual(std::uint64_t max_pending = 0) {
    tickless::options options;
    options.clock = TICKLESS_CLOCK_MANUAL;
    options.shards = 1;
    options.max_pending = max_pending;
    return tickless::engine(options);
}

static std::atomic<long> done{0};

static task work(tickless::engine &engine, int naps) {
    for (int i = 0; i < naps; i++) {
        co_await engine.sleep(0ns);
    }
    done++;
    done.notify_all();
}

static void coroutines_sleep_on_the_threads_of_an_engine() {
    tickless::options options;
    options.tick_ns = 10000;
    tickless::engine engine(options);
    const long tasks = 5000;
    for (long i = 0; i < tasks; i++) {
        work(engine, 4);
    }
    for (long now = done; now < tasks; now = done) {
        done.wait(now);
    }
}

static task nap(tickless::engine &engine, tickless::when when, int &naps, int &code) {
    try {
        for (;;) {
            co_await engine.sleep(when);
            naps++;
        }
    } catch (const tickless::error &error) {
        CHECK(error.what()[0] != 0);
        code = error.code();
    }
}

static void a_sleep_takes_its_time_and_ends_with_its_engine() {
    int naps = 0, code = 0;
    {
        auto engine = manual();
        nap(engine, 10ms, naps, code);
        CHECK(engine.advance(9ms) == 0 && engine.advance(91ms) == 10 && naps == 10 && code == 0);
        CHECK(engine.stats().unended == 0);
        engine.stop();
        CHECK(naps == 10 && code == TICKLESS_E_STOPPED);
        code = 0;
        nap(engine, 10ms, naps, code);
        CHECK(naps == 10 && code == TICKLESS_E_STOPPED);
    }
    auto engine = manual(1);
    auto other = engine.schedule(1h, [] {});
    nap(engine, 10ms, naps, code);
    CHECK(naps == 10 && code == TICKLESS_E_FULL);
}

static owned sleep_once(tickless::engine &engine, int &alive, int &woken) {
    counted local(alive);
    co_await engine.sleep(10ms);
    woken++;
}

static void a_coroutine_that_is_destroyed_takes_its_timer_with_it() {
    auto engine = manual();
    int alive = 0, woken = 0;
    {
        auto first = sleep_once(engine, alive, woken);
        auto second = sleep_once(engine, alive, woken);
        CHECK(alive == 2 && engine.stats().pending == 2);
        first.destroy();
        CHECK(alive == 1 && engine.stats().pending == 1);
        CHECK(engine.advance(10ms) == 1 && woken == 1);
    }
    CHECK(alive == 0);
    // By a callback of the same turn, when its own was handed over already: whichever comes first.
    std::vector<owned> all;
    auto destroy_all = [&all] { all.clear(); };
    engine.schedule_detached(10ms, destroy_all);
    for (int i = 0; i < 2; i++) {
        all.push_back(sleep_once(engine, alive, woken));
    }
    engine.schedule_detached(10ms, destroy_all);
    engine.advance(10ms);
    CHECK(all.empty() && alive == 0 && woken < 3 && engine.stats().pending == 0);
}

int main() {
    RUN(coroutines_sleep_on_the_threads_of_an_engine);
    RUN(a_sleep_takes_its_time_and_ends_with_its_engine);
    RUN(a_coroutine_that_is_destroyed_takes_its_timer_with_it);
}
