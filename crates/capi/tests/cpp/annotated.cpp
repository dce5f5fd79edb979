// A correct program under ThreadSanitizer, with a library that is not instrumented: what a thread
// writes before it schedules is the callback's, and what the callback writes is that of the
// thread that has waited for it, or runs what comes after it.
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "tickless.hpp"

using namespace std::chrono_literals;

static void check(bool holds, const char *what) {
    if (!holds) {
        std::fprintf(stderr, "%s\n", what);
        std::abort();
    }
}

struct state {
    std::string text;
    std::vector<int> numbers;
    long uses = 0;
};

#if defined(__cpp_impl_coroutine)
#include "task.hpp"

// A coroutine that sleeps goes on on the engine's thread, maybe before the call returns that made it
// sleep.
static task sleeps(tickless::engine &engine, int naps, std::promise<void> &done) {
    state local;
    for (int i = 0; i < naps; i++) {
        co_await engine.sleep(0s);
        local.uses++;
    }
    done.set_value();
}

static void coroutines(tickless::engine &engine) {
    for (int i = 0; i < 100; i++) {
        std::promise<void> done;
        sleeps(engine, 20, done);
        done.get_future().wait();
    }
}
#else
static void coroutines(tickless::engine &) {}
#endif

int main() {
    long total = 0;
    {
        tickless::options options;
        options.tick_ns = 10000;
        tickless::engine engine(options);
        for (int i = 0; i < 300; i++) {
            // Owned by the callback, and destroyed by it.
            auto owned = std::make_unique<state>();
            owned->text = std::string(100, 'a');
            owned->numbers.assign(100, i);
            engine.schedule_detached(0s, [owned = std::move(owned), i] {
                check(owned->text.size() == 100 && owned->numbers[99] == i, "the callback's");
            });
            // On this stack, and looked at after the scope has waited.
            state local;
            local.text = std::string(50, 'b');
            {
                auto timer = engine.schedule_scoped(0s, [&local] {
                    local.text += "c";
                    local.uses++;
                });
                while (timer.is_pending() && i % 2) {
                }
                timer.cancel_wait();
            }
            check(local.text.size() >= 50 && local.uses >= 0, "the scope's");
            local.text.clear();
            // Cancelled: destroyed here, or by the engine's thread.
            auto shared = std::make_unique<state>();
            shared->numbers.assign(10, i);
            engine.schedule(i % 3 ? 1h : 0h, [shared = std::move(shared)] { shared->numbers[0] = 0; })
                .cancel();
        }
        coroutines(engine);
        // Written by callbacks, and read when the engine was stopped.
        auto counters = std::make_unique<state>();
        counters->numbers.assign(1, 0);
        auto *numbers = &counters->numbers;
        std::promise<void> done;
        auto is_done = done.get_future();
        engine.schedule_detached(0s, [numbers, &done] {
            (*numbers)[0] = 7;
            done.set_value();
        });
        is_done.wait();
        engine.stop();
        total = counters->numbers[0];
    }
    check(total == 7, "the engine's");
    std::printf("ok no_false_report\n");
}
