// A program that uses an engine to its very end: in destructors of thread-locals, also of a thread
// that ends, in functions of atexit, and in destructors of objects with static storage. There it
// frees the engine, too, and makes another.
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>

#include "tickless.hpp"

using namespace std::chrono_literals;

// Pointers, so that no destructor ends what is behind them before the last test.
static std::unique_ptr<tickless::engine> *engine;

static void use(tickless::engine &engine, const char *where) {
    std::mutex lock;
    std::condition_variable changed;
    bool has_fired = false;
    auto kept = engine.schedule(1h, [] {});
    // Its scope waits for the callback, which notifies after the last look at the flag.
    auto fires = engine.schedule_scoped(0s, [&] {
        std::lock_guard<std::mutex> guard(lock);
        has_fired = true;
        changed.notify_one();
    });
    std::unique_lock<std::mutex> guard(lock);
    bool is_in_time = changed.wait_for(guard, 60s, [&] { return has_fired; });
    guard.unlock();
    if (!is_in_time || !kept.cancel()) {
        std::fprintf(stderr, "%s: in time %d\n", where, is_in_time);
        std::abort();
    }
    std::printf("ok %s\n", where);
    std::fflush(stdout);
}

struct at_thread_end {
    ~at_thread_end() { use(**engine, "a destructor of a thread-local"); }
};

struct at_static_end {
    ~at_static_end() {
        use(**engine, "a destructor of a static object");
        engine->reset();
        tickless::engine another;
        use(another, "an engine that is made there");
    }
};

static at_static_end static_end;
static thread_local at_thread_end thread_end;

int main() {
    engine = new std::unique_ptr<tickless::engine>(new tickless::engine);
    std::atexit([] { use(**engine, "a function of atexit"); });
    std::thread([] {
        (void)&thread_end;
        use(**engine, "a thread");
    }).join();
    (void)&thread_end;
    use(**engine, "the main thread");
}
