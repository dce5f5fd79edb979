// Callbacks that destroy what they belong to: their timer, its object, the engine, the process.
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "check.hpp"
#include "tickless.hpp"

using namespace std::chrono_literals;

struct gone {
    std::mutex lock;
    std::condition_variable changed;
    long n = 0;

    void one() {
        std::lock_guard<std::mutex> guard(lock);
        n++;
        changed.notify_all();
    }

    void wait(long at_least) {
        std::unique_lock<std::mutex> guard(lock);
        CHECK(changed.wait_for(guard, 60s, [&] { return n >= at_least; }));
    }
};

struct connection {
    gone &counted;
    std::string text = std::string(100, 'a');
    tickless::scoped_timer scoped;
    tickless::timer plain;

    explicit connection(gone &counted) : counted(counted) {}
    ~connection() { counted.one(); }
};

static void an_object_is_destroyed_by_the_callback_of_its_scoped_timer() {
    gone counted;
    tickless::engine engine;
    for (int i = 0; i < 2000; i++) {
        auto *owned = new connection(counted);
        engine.schedule_into(owned->scoped, 0s, [owned] {
            CHECK(owned->text.size() == 100);
            delete owned;
        });
    }
    counted.wait(2000);
}

static void an_object_is_destroyed_by_the_callback_of_its_timer() {
    gone counted;
    tickless::engine engine;
    for (int i = 0; i < 2000; i++) {
        auto *owned = new connection(counted);
        engine.schedule_into(owned->plain, 0s, [owned] { delete owned; });
    }
    counted.wait(2000);
}

static void a_destructor_also_ends_what_the_callback_has_scheduled_meanwhile() {
    for (int repeats = 0; repeats < 2; repeats++) {
        gone begun;
        tickless::engine engine;
        {
            tickless::scoped_timer timer;
            auto again = [&] {
                begun.one();
                while (timer.state() != TICKLESS_E_HANDLE) {
                    std::this_thread::yield();
                }
                engine.schedule_into(timer, 1h, [] {});
            };
            if (repeats) {
                engine.schedule_every_into(timer, 1ms, again);
            } else {
                engine.schedule_into(timer, 0s, again);
            }
            begun.wait(1);
        }
        CHECK(engine.stats().pending == 0);
    }
}

static void a_scoped_timer_can_be_detached() {
    gone counted;
    tickless::engine engine;
    {
        auto timer = engine.schedule_scoped(1ms, [&] { counted.one(); });
        timer.detach();
    }
    counted.wait(1);
}

static void an_engine_that_its_callback_destroys_stays() {
    gone counted;
    auto engine = std::make_shared<tickless::engine>();
    auto *raw = engine.get();
    raw->schedule_detached(1ms, [&counted, engine = std::move(engine)]() mutable {
        engine.reset();
        counted.one();
    });
    counted.wait(1);
}

// A program of its own: its engine is global, and a callback ends it.
static int exit_in_a_callback() {
    static tickless::engine engine;
    engine.schedule_detached(1ms, [] { std::exit(3); });
    for (;;) {
        pause();
    }
}

static void a_callback_may_end_the_process() {
    pid_t child = fork();
    if (child == 0) {
        exit_in_a_callback();
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
}

int main() {
    RUN(a_callback_may_end_the_process);
    RUN(an_object_is_destroyed_by_the_callback_of_its_scoped_timer);
    RUN(an_object_is_destroyed_by_the_callback_of_its_timer);
    RUN(a_destructor_also_ends_what_the_callback_has_scheduled_meanwhile);
    RUN(a_scoped_timer_can_be_detached);
    RUN(an_engine_that_its_callback_destroys_stays);
}
