// C++20: the obvious awaitable sleep. The timer lies in the coroutine's frame, which the callback
// resumes, and so may destroy, before the call that schedules has returned.
#include <atomic>
#include <coroutine>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "tickless.hpp"

using namespace std::chrono_literals;

struct sleep_for {
    tickless::engine &engine;
    std::chrono::nanoseconds delay;
    tickless::timer timer{};

    bool await_ready() const noexcept { return false; }

    void await_suspend(std::coroutine_handle<> waiting) {
        engine.schedule_into(timer, delay, [waiting] { waiting.resume(); });
    }

    void await_resume() noexcept { timer.cancel(); }
};

struct task {
    struct promise_type {
        task get_return_object() noexcept { return {}; }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_never final_suspend() noexcept { return {}; }
        void return_void() noexcept {}
        void unhandled_exception() noexcept { std::terminate(); }
    };
};

static std::atomic<long> done{0};

static task work(tickless::engine &engine, int naps) {
    for (int i = 0; i < naps; i++) {
        co_await sleep_for{engine, 0ns};
    }
    done++;
    done.notify_all();
}

int main() {
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
    std::printf("ok coroutines_sleep\n");
}
