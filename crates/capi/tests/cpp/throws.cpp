// An exception that leaves a callback ends the process: it never gets through the engine, whichever
// callback throws, and on whichever thread.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tickless.hpp"

static void throws(void *) {
    throw std::runtime_error("this leaves a callback");
}

static void nothing(void *) {}

static void throws_when_returned(void *, tickless_fn, void *) {
    throw std::runtime_error("this leaves a callback");
}

static void by(const char *which) {
    tickless::options options;
    options.clock = TICKLESS_CLOCK_MANUAL;
    tickless::engine engine(options);
    if (std::strcmp(which, "lambda") == 0) {
        engine.schedule_detached(std::chrono::seconds(0), [] { throws(nullptr); });
    } else if (std::strcmp(which, "callback") == 0) {
        tickless::check(tickless_schedule(engine.get(), 0, throws, nullptr, nullptr, nullptr));
    } else if (std::strcmp(which, "release") == 0) {
        tickless::check(tickless_schedule(engine.get(), 0, nothing, nullptr, throws, nullptr));
    }
    try {
        tickless_timer timer;
        engine.advance(std::chrono::seconds(0));
        if (std::strcmp(which, "release in a cancel") == 0) {
            tickless::check(tickless_schedule(engine.get(), 1, nothing, nullptr, throws, &timer));
            tickless_timer_cancel(&timer);
        } else if (std::strcmp(which, "release in a refusal") == 0) {
            tickless::check(tickless_schedule(engine.get(), 1, nullptr, nullptr, throws, &timer));
        } else if (std::strcmp(which, "callback of a stop") == 0) {
            tickless::check(tickless_schedule(engine.get(), 1, nothing, nullptr, nullptr, nullptr));
            tickless_engine_stop(engine.get(), 0, throws_when_returned, nullptr);
        } else if (std::strcmp(which, "callback on a thread") == 0) {
            tickless::engine threads;
            tickless::check(tickless_schedule(threads.get(), 0, throws, nullptr, nullptr, nullptr));
            sleep(60);
        }
    } catch (...) {
        std::puts("it came through");
    }
}

int main() {
    const rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    for (const char *which : {"lambda", "callback", "release", "release in a cancel",
                              "release in a refusal", "callback of a stop",
                              "callback on a thread"}) {
        pid_t child = fork();
        if (child == 0) {
            std::freopen("/dev/null", "w", stderr);
            by(which);
            _exit(0);
        }
        int status = 0;
        if (waitpid(child, &status, 0) != child || !WIFSIGNALED(status) ||
            WTERMSIG(status) != SIGABRT) {
            std::fprintf(stderr, "a %s that throws: status %d\n", which, status);
            return 1;
        }
        std::printf("ok a %s that throws ends the process\n", which);
    }
}
