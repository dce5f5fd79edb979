// One measurement: bench CONTENDER WORKLOAD THREADS OPERATIONS prints nanoseconds per operation, of
// the clock and of all processors. Of several threads, each does as many operations; the clock's time
// is divided by those of all.
//
// cancel  a pair: the oldest of a thousand timeouts is cancelled, and another started. Delays are
//         between 5 s and 60 s, at random.
// reset   one of a thousand timeouts is moved to 30 s from now.
// fire    timers with delays of up to 200 ms are started, and all fire.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <time.h>

#include "contender.hpp"

namespace {

constexpr std::uint64_t MS = 1'000'000;
constexpr long WINDOW = 1000;

struct times {
    double wall_ns, cpu_ns;
};

times now() {
    timespec wall, cpu;
    clock_gettime(CLOCK_MONOTONIC, &wall);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    return {double(wall.tv_sec) * 1e9 + double(wall.tv_nsec),
            double(cpu.tv_sec) * 1e9 + double(cpu.tv_nsec)};
}

/// xorshift: the same for each contender.
struct random_numbers {
    std::uint64_t state = 0x9e3779b97f4a7c15;

    std::uint64_t below(std::uint64_t n) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return state % n;
    }
};

void cancel(side &side, long operations) {
    random_numbers random;
    for (long n = 0; n < operations; n++) {
        side.cancel(n % WINDOW);
        side.start(n % WINDOW, (5000 + random.below(55'000)) * MS);
    }
}

void reset(side &side, long operations) {
    for (long n = 0; n < operations; n++) {
        side.reset(n * 7 % WINDOW, 30'000 * MS);
    }
}

void fire(side &side, long operations) {
    random_numbers random;
    for (long n = 0; n < operations; n++) {
        side.start(n, random.below(200) * MS);
    }
    side.wait(operations);
}

} // namespace

int main(int argc, char **argv) {
    using maker = std::unique_ptr<contender> (*)();
    using workload = void (*)(side &, long);
    const std::map<std::string, maker> contenders = {
        {"tickless", make_tickless}, {"libuv", make_libuv}, {"libevent", make_libevent},
        {"timerfd", make_timerfd},   {"heap", make_heap},
    };
    const std::map<std::string, workload> workloads = {
        {"cancel", cancel}, {"reset", reset}, {"fire", fire}};
    if (argc != 5 || !contenders.count(argv[1]) || !workloads.count(argv[2])) {
        std::fprintf(stderr, "usage: bench CONTENDER WORKLOAD THREADS OPERATIONS\n");
        return 2;
    }
    const workload work = workloads.at(argv[2]);
    const bool fires = work == fire;
    const long threads = std::atol(argv[3]), operations = std::atol(argv[4]);

    std::unique_ptr<contender> contender = contenders.at(argv[1])();
    std::vector<std::unique_ptr<side>> sides;
    for (long i = 0; i < threads; i++) {
        sides.push_back(contender->make_side());
        sides.back()->reserve(fires ? operations : WINDOW);
    }
    std::atomic<long> ready{0};
    std::atomic<bool> go{false};
    std::vector<std::thread> running;
    for (auto &side : sides) {
        running.emplace_back([&, side = side.get()] {
            if (!fires) {
                for (long n = 0; n < WINDOW; n++) {
                    side->start(n, 60'000 * MS);
                }
                work(*side, operations / 10); // Warm.
            }
            ready++;
            while (!go) {
                std::this_thread::yield();
            }
            work(*side, operations);
        });
    }
    while (ready < threads) {
        std::this_thread::yield();
    }
    const times before = now();
    go = true;
    for (auto &thread : running) {
        thread.join();
    }
    const times after = now();
    const double all = double(threads) * double(operations);
    std::printf("%s %s %ld %.1f %.1f\n", argv[1], argv[2], threads,
                (after.wall_ns - before.wall_ns) / all, (after.cpu_ns - before.cpu_ns) / all);
    if (!fires) {
        for (auto &side : sides) {
            for (long n = 0; n < WINDOW; n++) {
                side->cancel(n);
            }
        }
    }
    sides.clear();
}
