/* The longest call of a wheel: stall wheel|rust TIMERS LIMIT. (`rust` is the crate's, behind functions
 * for C.) A loop looks at the clock each millisecond, and advances until nothing is left to do. Printed
 * are, for two ways to have that many timers, the most CPU time that one advance has taken, and how
 * long the wheel was busy at a stretch, which is how late a timer could be.
 *
 * idle   connections whose idle timeouts are 75 s, each moved as often as once in 75 s
 * spread timers that are due in 70 to 130 s */
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
uint64_t rust_wheel_insert(struct rust_wheel *, uint64_t deadline, uint64_t of);
int32_t rust_wheel_reset(struct rust_wheel *, uint64_t key, uint64_t deadline);
uint64_t rust_wheel_advance_within(struct rust_wheel *, uint64_t now, uint64_t most);
uint64_t rust_wheel_next(struct rust_wheel *);
static struct rust_wheel *rust;
static uint64_t *keys;
static uint64_t timers, limit, fired, seed = UINT64_C(0x9e3779b97f4a7c15);

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

/* From one time to another, in which `moves` timers are moved in each millisecond. */
static void run(const char *name, uint64_t from, uint64_t to, uint64_t moves) {
    uint64_t now, longest = 0, advances = 0, sum = 0, stretch_max = 0, i;
    /* Those that had something to do. */
    static uint64_t times[8000000];
    uint64_t kept = 0;
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
            advances++;
            sum += taken;
            stretch += taken;
            longest = taken > longest ? taken : longest;
            if (kept < sizeof times / sizeof *times) {
                times[kept++] = taken;
            }
        } while (next() <= now);
        stretch_max = stretch > stretch_max ? stretch : stretch_max;
    }
    qsort(times, kept, sizeof *times, by_size);
    if (*name == 0) {
        return;
    }
    printf("%-7s advances %8" PRIu64 "  us: median %7.1f  99.9 %% %7.1f  longest %9.1f  at a stretch"
           " %9.1f  all in ms %8.1f\n",
           name, advances, (double)times[kept / 2] / 1e3, (double)times[kept - 1 - kept / 1000] / 1e3,
           (double)longest / 1e3, (double)stretch_max / 1e3, (double)sum / 1e6);
}

int main(int argc, char **argv) {
    uint64_t i, now = 0;
    if (argc != 4) {
        fprintf(stderr, "usage: stall wheel|rust TIMERS LIMIT\n");
        return 2;
    }
    timers = strtoull(argv[2], NULL, 10);
    limit = strcmp(argv[3], "none") == 0 ? UINT64_MAX : strtoull(argv[3], NULL, 10);
    connections = calloc(timers, sizeof *connections);
    keys = calloc(timers, sizeof *keys);
    if (timers == 0 || limit == 0 || connections == NULL || keys == NULL) {
        return 1;
    }
    if (strcmp(argv[1], "rust") == 0) {
        rust = rust_wheel_new(now);
        /* The key of no timer is zero. */
    }
    tickless_wheel_init(&wheel, now);
    /* Most are moved on the way, so that their order in memory is any. */
    for (i = 0; i < timers; i++) {
        move(i, 1 + below(75000));
    }
    run("", now, now + 75000, timers / 75000 + 1);
    now += 75000;
    run("idle", now, now + 140000, timers / 75000 + 1);
    now += 140000;
    for (i = 0; i < timers; i++) {
        move(below(timers), now + 70000 + below(60000));
    }
    for (i = 0; i < timers; i++) {
        move(i, now + 70000 + below(60000));
    }
    fired = 0;
    run("spread", now, now + 131000, 0);
    return fired == timers ? 0 : 1;
}
