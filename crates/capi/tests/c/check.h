/* What the test programs share: checks that name their line, and counters that threads share. */
#ifndef CHECK_H
#define CHECK_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tickless.h"

#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)
#define HOUR (3600 * SECOND)

/* Fails the program unless `condition` holds. */
#define CHECK(condition)                                                                       \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            fprintf(stderr, "%s:%d: %s does not hold (%s)\n", __FILE__, __LINE__, #condition,   \
                    tickless_last_error());                                                    \
            abort();                                                                           \
        }                                                                                      \
    } while (0)

/* Fails the program unless `call` returns `expected`. */
#define RETURNS(expected, call)                                                                \
    do {                                                                                       \
        int returned_ = (call);                                                                \
        if (returned_ != (expected)) {                                                         \
            fprintf(stderr, "%s:%d: %s returned %d (%s)\n", __FILE__, __LINE__, #call,         \
                    returned_, tickless_last_error());                                         \
            abort();                                                                           \
        }                                                                                      \
    } while (0)

#define OK(call) RETURNS(TICKLESS_OK, call)

/* Runs a test, and says so. */
#define RUN(test)                                                                              \
    do {                                                                                       \
        test();                                                                                \
        printf("ok %s\n", #test);                                                              \
        fflush(stdout);                                                                        \
    } while (0)

/* A number that threads count, and wait for. */
struct count {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    long n;
};

#define COUNT_INIT {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0}

static inline void count_add(struct count *count, long n) {
    pthread_mutex_lock(&count->lock);
    count->n += n;
    pthread_cond_broadcast(&count->changed);
    pthread_mutex_unlock(&count->lock);
}

static inline long count_now(struct count *count) {
    long n;
    pthread_mutex_lock(&count->lock);
    n = count->n;
    pthread_mutex_unlock(&count->lock);
    return n;
}

/* Waits until the number is at least `n`; fails after a minute. */
static inline void count_wait(struct count *count, long n) {
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += 60;
    pthread_mutex_lock(&count->lock);
    while (count->n < n) {
        CHECK(pthread_cond_timedwait(&count->changed, &count->lock, &limit) == 0);
    }
    pthread_mutex_unlock(&count->lock);
}

static inline void count_one(void *count) {
    count_add(count, 1);
}

/* A callback that does nothing. */
static inline void count_nothing(void *user_data) {
    (void)user_data;
}

/* An engine whose clock is moved by hand, with one shard. */
static inline tickless_engine *manual_engine(void) {
    tickless_options options;
    tickless_engine *engine;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.clock = TICKLESS_CLOCK_MANUAL;
    options.shards = 1;
    OK(tickless_engine_new(&options, &engine));
    return engine;
}

/* Moves time, and returns how many timers fired. */
static inline uint64_t advance(tickless_engine *engine, uint64_t ns) {
    uint64_t fired = 0;
    OK(tickless_advance(engine, ns, &fired));
    return fired;
}

static inline tickless_stats_info stats_of(const tickless_engine *engine) {
    tickless_stats_info stats;
    stats.size = sizeof stats;
    OK(tickless_stats(engine, &stats));
    return stats;
}

#endif
