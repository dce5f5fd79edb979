/* The longest call of a wheel: stall wheel|rust TIMERS LIMIT RUNS. (`rust` is the crate's, behind functions
 * for C.) A loop looks at the clock each millisecond, and advances until nothing is left to do. Printed
 * is, for four ways to have that many timers, how much CPU time one advance has taken, and how long
 * the wheel was busy at a stretch, which is how late a timer could be. All runs do the same, so the
 * time of an advance is the least that it took in any run: on a machine that does other things as well,
 * the most that one takes is what others did to the caches. Callbacks do nothing.
 *
 * idle   connections whose idle timeouts are 75 s, each moved as often as once in 75 s
 * spread timers that are due in 70 to 130 s
 * tick   timers that are all due in one tick, in any order in memory
 * behind timers of which each is due in a tick of its own, when the loop comes a minute late */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tickless_wheel.h"

struct connection {
    char before[40];
    struct tickless_wheel_timer timer;
    char after[64];
};

static struct tickless_wheel wheel;
static struct connection *connections;

/* The crate's wheel, if that is what is measured, and the keys of its timers. */
struct rust_wheel;
struct rust_wheel *rust_wheel_new(uint64_t now);
void rust_wheel_free(struct rust_wheel *);
uint64_t rust_wheel_insert(struct rust_wheel *, uint64_t deadline, uint64_t of);
int32_t rust_wheel_reset(struct rust_wheel *, uint64_t key, uint64_t deadline);
uint64_t rust_wheel_advance_within(struct rust_wheel *, uint64_t now, uint64_t most);
uint64_t rust_wheel_next(struct rust_wheel *);
static struct rust_wheel *rust;
static uint64_t *keys;
static uint32_t *order;
static uint64_t timers, limit, fired, runs, run_number, seed = UINT64_C(0x9e3779b97f4a7c15);

static uint64_t below(uint64_t n) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed % n;
}

static uint64_t cpu_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

static void fire(struct tickless_wheel_timer *timer, void *context) {
    (void)timer;
    (void)context;
    fired++;
}

/* Starts a timer, or moves it. */
static void move(uint64_t timer, uint64_t deadline) {
    if (rust == NULL) {
        tickless_wheel_reset(&wheel, &connections[timer].timer, deadline);
    } else if (!rust_wheel_reset(rust, keys[timer], deadline)) {
        keys[timer] = rust_wheel_insert(rust, deadline, timer);
    }
}

static void advance(uint64_t now) {
    if (rust == NULL) {
        tickless_wheel_advance(&wheel, now, limit, fire, NULL);
    } else {
        fired += rust_wheel_advance_within(rust, now, limit);
    }
}

static uint64_t next(void) {
    return rust == NULL ? tickless_wheel_next(&wheel) : rust_wheel_next(rust);
}

static int by_size(const void *one, const void *other) {
    const uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return a < b ? -1 : a > b;
}

/* What an advance took at least, over the runs, in each of the phases. */
#define ADVANCES 2000000
struct phase {
    uint64_t times[ADVANCES];
    uint64_t advances;
    uint64_t stretch;
};
static struct phase idle, spread, tick, behind;

/* From one time to another, in which `moves` timers are moved in each millisecond. */
static void run(struct phase *phase, uint64_t from, uint64_t to, uint64_t moves) {
    uint64_t now, i, kept = 0, stretch_max = 0;
    for (now = from; now < to; now++) {
        uint64_t stretch = 0;
        for (i = 0; i < moves; i++) {
            move(below(timers), now + 75000);
        }
        do {
            const uint64_t before = cpu_ns();
            uint64_t taken;
            advance(now);
            taken = cpu_ns() - before;
            stretch += taken;
            if (phase != NULL && kept < ADVANCES) {
                if (run_number == 0 || taken < phase->times[kept]) {
                    phase->times[kept] = taken;
                }
                kept++;
            }
        } while (next() <= now);
        stretch_max = stretch > stretch_max ? stretch : stretch_max;
    }
    if (phase != NULL) {
        phase->advances = kept;
        phase->stretch = run_number == 0 || stretch_max < phase->stretch ? stretch_max : phase->stretch;
    }
}

static void print(const char *name, struct phase *phase) {
    uint64_t i, sum = 0;
    const uint64_t *times = phase->times, kept = phase->advances;
    for (i = 0; i < kept; i++) {
        sum += times[i];
    }
    qsort(phase->times, kept, sizeof *phase->times, by_size);
    printf("%-7s advances %8" PRIu64 "  us: 99.9 %% %7.1f  99.99 %% %7.1f  longest %9.1f  at a stretch"
           " %9.1f  all in ms %8.1f\n",
           name, kept, (double)times[kept - 1 - kept / 1000] / 1e3,
           (double)times[kept - 1 - kept / 10000] / 1e3, (double)times[kept - 1] / 1e3,
           (double)phase->stretch / 1e3, (double)sum / 1e6);
}

/* One run of all. Returns whether all have fired. */
static int run_all(void) {
    uint64_t i, now = 0;
    seed = UINT64_C(0x9e3779b97f4a7c15);
    memset(connections, 0, timers * sizeof *connections);
    memset(keys, 0, timers * sizeof *keys);
    if (rust != NULL) {
        rust_wheel_free(rust);
        rust = rust_wheel_new(now);
        /* The key of no timer is zero. */
    }
    tickless_wheel_init(&wheel, now);
    /* Most are moved on the way, so that their order in memory is any. */
    for (i = 0; i < timers; i++) {
        move(i, 1 + below(75000));
    }
    run(NULL, now, now + 75000, timers / 75000 + 1);
    now += 75000;
    run(&idle, now, now + 140000, timers / 75000 + 1);
    now += 140000;
    for (i = 0; i < timers; i++) {
        move(below(timers), now + 70000 + below(60000));
    }
    for (i = 0; i < timers; i++) {
        move(i, now + 70000 + below(60000));
    }
    fired = 0;
    run(&spread, now, now + 131000, 0);
    if (fired != timers) {
        return 0;
    }
    now += 131000;
    /* In any order in memory. */
    for (i = 0; i < timers; i++) {
        order[i] = (uint32_t)i;
    }
    for (i = timers - 1; i > 0; i--) {
        const uint64_t other = below(i + 1);
        const uint32_t kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    for (i = 0; i < timers; i++) {
        move(order[i], now + 100);
    }
    run(&tick, now, now + 101, 0);
    now += 101;
    for (i = 0; i < timers && i < 60000; i++) {
        move(order[i], now + 1 + order[i] % 60000);
    }
    run(&behind, now + 60001, now + 60002, 0);
    return fired == 2 * timers + i;
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: stall wheel|rust TIMERS LIMIT RUNS\n");
        return 2;
    }
    timers = strtoull(argv[2], NULL, 10);
    limit = strcmp(argv[3], "none") == 0 ? UINT64_MAX : strtoull(argv[3], NULL, 10);
    runs = strtoull(argv[4], NULL, 10);
    connections = calloc(timers, sizeof *connections);
    keys = calloc(timers, sizeof *keys);
    order = calloc(timers, sizeof *order);
    if (timers == 0 || limit == 0 || runs == 0 || connections == NULL || keys == NULL ||
        order == NULL) {
        return 1;
    }
    if (strcmp(argv[1], "rust") == 0) {
        rust = rust_wheel_new(0);
    }
    for (run_number = 0; run_number < runs; run_number++) {
        if (!run_all()) {
            return 1;
        }
    }
    print("idle", &idle);
    print("spread", &spread);
    print("tick", &tick);
    print("behind", &behind);
    return 0;
}
