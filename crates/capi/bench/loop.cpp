// Timers of one loop, on one thread: loop CONTENDER WORKLOAD PENDING OPERATIONS prints nanoseconds of
// CPU time per operation.
//
// cancel-random    a pair: the oldest timeout is cancelled and started anew, due in 5 s to 60 s.
// cancel-constant  the same, due in 30 s.
// reset-random     a timeout is moved, to 5 s to 60 s from now.
// reset-constant   the same, to 30 s from now.
// fire             as many timers as are pending are started, due within 60 s, and all fire: per timer.
//                  Only wheels, whose time can be moved.
//
// A tick is a millisecond. Like a loop, each contender knows the time that it has read last; after 1,000
// operations it reads the clock, and fires what is due.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <ev.h>
#include <time.h>

#include "tickless.h"
#include "tickless_wheel.h"

namespace {

std::uint64_t nanoseconds(clockid_t clock) {
    timespec time;
    clock_gettime(clock, &time);
    return std::uint64_t(time.tv_sec) * 1'000'000'000 + std::uint64_t(time.tv_nsec);
}

std::uint64_t now_ms() {
    return nanoseconds(CLOCK_MONOTONIC) / 1'000'000;
}

long fired_all;

void must(int code) {
    if (code < 0) {
        std::fprintf(stderr, "%s\n", tickless_last_error());
        std::abort();
    }
}

/// tickless_wheel.h.
struct c_wheel {
    static constexpr bool has_time = true;
    struct tickless_wheel wheel;
    std::vector<struct tickless_wheel_timer> timers;
    std::uint64_t now = now_ms();

    explicit c_wheel(long n) : timers(std::size_t(n)) { tickless_wheel_init(&wheel, now); }
    static void fired(struct tickless_wheel_timer *, void *) { fired_all++; }
    void start(long n, std::uint64_t ms) { tickless_wheel_add(&wheel, &timers[std::size_t(n)], now + ms); }
    void cancel(long n) { tickless_wheel_cancel(&wheel, &timers[std::size_t(n)]); }
    void reset(long n, std::uint64_t ms) {
        tickless_wheel_reset(&wheel, &timers[std::size_t(n)], now + ms);
    }
    void turn_at(std::uint64_t ms) {
        now = ms;
        tickless_wheel_advance(&wheel, now, UINT64_MAX, fired, nullptr);
    }
    void turn() {
        turn_at(now_ms());
        (void)tickless_wheel_next(&wheel);
    }
};

/// The 30 lines that people write: one ring, a slot for each millisecond of about a minute, and
/// timers of later rounds passed over. It has no next wake-up: it looks at each slot.
struct hashed {
    static constexpr bool has_time = true;
    struct node {
        node *next, **place;
        std::uint64_t deadline;
    };
    static constexpr std::uint64_t SLOTS = 65536;
    std::vector<node *> ring = std::vector<node *>(SLOTS);
    std::vector<node> timers;
    std::uint64_t now = now_ms(), passed = now;

    explicit hashed(long n) : timers(std::size_t(n)) {}
    void start(long n, std::uint64_t ms) {
        node &timer = timers[std::size_t(n)];
        timer.deadline = now + ms;
        node **place = &ring[timer.deadline % SLOTS];
        timer.next = *place;
        timer.place = place;
        if (timer.next != nullptr) {
            timer.next->place = &timer.next;
        }
        *place = &timer;
    }
    static void unlink(node &timer) {
        *timer.place = timer.next;
        if (timer.next != nullptr) {
            timer.next->place = timer.place;
        }
    }
    void cancel(long n) { unlink(timers[std::size_t(n)]); }
    void reset(long n, std::uint64_t ms) {
        cancel(n);
        start(n, ms);
    }
    void turn_at(std::uint64_t ms) {
        now = ms;
        for (; passed <= now; passed++) {
            for (node *timer = ring[passed % SLOTS], *next; timer != nullptr; timer = next) {
                next = timer->next;
                if (timer->deadline <= now) {
                    unlink(*timer);
                    fired_all++;
                }
            }
        }
    }
    void turn() { turn_at(now_ms()); }
};

/// The crate tickless-wheel, behind functions for C: wheel.rs.
extern "C" {
void *rust_wheel_new(std::uint64_t now);
void rust_wheel_free(void *wheel);
std::uint64_t rust_wheel_insert(void *wheel, std::uint64_t deadline, std::uint64_t payload);
int rust_wheel_cancel(void *wheel, std::uint64_t key);
int rust_wheel_reset(void *wheel, std::uint64_t key, std::uint64_t deadline);
std::uint64_t rust_wheel_advance(void *wheel, std::uint64_t now);
std::uint64_t rust_wheel_next(void *wheel);
}

struct rust_wheel {
    static constexpr bool has_time = true;
    std::vector<std::uint64_t> keys;
    std::uint64_t now = now_ms();
    void *wheel = rust_wheel_new(now);

    explicit rust_wheel(long n) : keys(std::size_t(n)) {}
    ~rust_wheel() { rust_wheel_free(wheel); }
    void start(long n, std::uint64_t ms) {
        keys[std::size_t(n)] = rust_wheel_insert(wheel, now + ms, std::uint64_t(n));
    }
    void cancel(long n) { rust_wheel_cancel(wheel, keys[std::size_t(n)]); }
    void reset(long n, std::uint64_t ms) { rust_wheel_reset(wheel, keys[std::size_t(n)], now + ms); }
    void turn_at(std::uint64_t ms) {
        now = ms;
        fired_all += long(rust_wheel_advance(wheel, now));
    }
    void turn() {
        turn_at(now_ms());
        (void)rust_wheel_next(wheel);
    }
};

/// libev. A reset is ev_timer_again, as its manual advises for timeouts.
struct libev {
    static constexpr bool has_time = false;
    struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
    std::vector<ev_timer> timers;

    explicit libev(long n) : timers(std::size_t(n)) {
        for (auto &timer : timers) {
            ev_init(&timer, fired);
        }
    }
    ~libev() {
        for (auto &timer : timers) {
            ev_timer_stop(loop, &timer);
        }
        ev_loop_destroy(loop);
    }
    static void fired(struct ev_loop *, ev_timer *, int) { fired_all++; }
    void start(long n, std::uint64_t ms) {
        ev_timer_set(&timers[std::size_t(n)], double(ms) * 1e-3, 0.);
        ev_timer_start(loop, &timers[std::size_t(n)]);
    }
    void cancel(long n) { ev_timer_stop(loop, &timers[std::size_t(n)]); }
    void reset(long n, std::uint64_t ms) {
        timers[std::size_t(n)].repeat = double(ms) * 1e-3;
        ev_timer_again(loop, &timers[std::size_t(n)]);
    }
    void turn_at(std::uint64_t) {}
    void turn() { ev_run(loop, EVRUN_NOWAIT); }
};

/// The engine, with threads of its own, which reads the clock each time.
struct engine {
    static constexpr bool has_time = false;
    tickless_engine *engine_ = nullptr;
    std::vector<tickless_timer> timers;

    explicit engine(long n) : timers(std::size_t(n)) {
        must(tickless_engine_new(nullptr, &engine_));
    }
    ~engine() {
        for (auto &timer : timers) {
            tickless_timer_cancel(&timer);
        }
        tickless_engine_free(engine_);
    }
    static void fired(void *) {}
    void start(long n, std::uint64_t ms) {
        must(tickless_schedule(engine_, ms * 1'000'000, fired, nullptr, nullptr,
                               &timers[std::size_t(n)]));
    }
    void cancel(long n) { tickless_timer_cancel(&timers[std::size_t(n)]); }
    void reset(long n, std::uint64_t ms) {
        tickless_timer_reset(&timers[std::size_t(n)], ms * 1'000'000);
    }
    void turn_at(std::uint64_t) {}
    void turn() {}
};

struct random_numbers {
    std::uint64_t state = 0x9e3779b97f4a7c15;

    std::uint64_t below(std::uint64_t n) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return std::uint64_t((unsigned __int128)state * n >> 64);
    }
};

template <class C, bool RESETS, bool IS_RANDOM> void churn(C &contender, long pending, long operations) {
    random_numbers random;
    long at = 0;
    for (long n = 0; n < operations; n++) {
        const std::uint64_t ms = IS_RANDOM ? 5000 + random.below(55'000) : 30'000;
        if constexpr (RESETS) {
            at = at + 7 < pending ? at + 7 : at + 7 - pending;
            contender.reset(at, ms);
        } else {
            at = at + 1 < pending ? at + 1 : 0;
            contender.cancel(at);
            contender.start(at, ms);
        }
        if (n % 1000 == 999) {
            contender.turn();
        }
    }
}

template <class C> void fill(C &contender, long pending) {
    random_numbers random;
    for (long n = 0; n < pending; n++) {
        contender.start(n, 5000 + random.below(55'000));
    }
}

/// Time moves by a millisecond, as for a loop that is busy.
template <class C> void fire(C &contender, long pending) {
    const std::uint64_t begin = contender.now;
    fired_all = 0;
    fill(contender, pending);
    for (std::uint64_t ms = 1; ms <= 60'000; ms++) {
        contender.turn_at(begin + ms);
    }
    if (fired_all != pending) {
        std::fprintf(stderr, "%ld of %ld fired\n", fired_all, pending);
        std::abort();
    }
}

template <class C> int run(const std::string &workload, long pending, long operations) {
    C contender(pending);
    const std::map<std::string, void (*)(C &, long, long)> churns = {
        {"cancel-random", churn<C, false, true>},
        {"cancel-constant", churn<C, false, false>},
        {"reset-random", churn<C, true, true>},
        {"reset-constant", churn<C, true, false>},
    };
    std::uint64_t before, each;
    if (workload == "fire") {
        if constexpr (C::has_time) {
            before = nanoseconds(CLOCK_PROCESS_CPUTIME_ID);
            fire(contender, pending);
            each = std::uint64_t(pending);
        } else {
            return 2;
        }
    } else {
        fill(contender, pending);
        churns.at(workload)(contender, pending, operations / 10); // Warm.
        before = nanoseconds(CLOCK_PROCESS_CPUTIME_ID);
        churns.at(workload)(contender, pending, operations);
        each = std::uint64_t(operations);
    }
    return std::printf("%.2f\n", double(nanoseconds(CLOCK_PROCESS_CPUTIME_ID) - before) / double(each)) < 0;
}

} // namespace

int main(int argc, char **argv) {
    const std::map<std::string, int (*)(const std::string &, long, long)> contenders = {
        {"wheel", run<c_wheel>},  {"hashed", run<hashed>},   {"rust", run<rust_wheel>},
        {"libev", run<libev>},    {"engine", run<engine>},
    };
    if (argc != 5 || !contenders.count(argv[1])) {
        std::fprintf(stderr, "usage: loop CONTENDER WORKLOAD PENDING OPERATIONS\n");
        return 2;
    }
    return contenders.at(argv[1])(argv[2], std::atol(argv[3]), std::atol(argv[4]));
}
