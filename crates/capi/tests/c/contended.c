/* Threads that end, move and look at the same timers at the same time: one of them ends each, nobody
 * touches the timer that comes after it in its place, and what it carries is released once. The
 * argument is the number of rounds. */
#include <sched.h>

#include "check.h"

static long rounds = 10000;
static tickless_engine *engine;
/* One thread prepares a round, both do it, and the first then looks at what came of it. */
static long begun, ended;
static tickless_timer shared;
static struct count released = COUNT_INIT;

typedef int (*act_fn)(long round);

struct side {
    act_fn act;
    int outcome;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved_on = PTHREAD_COND_INITIALIZER;

static int has_reached(const long *place, long at_least) {
    return __atomic_load_n(place, __ATOMIC_ACQUIRE) >= at_least;
}

/* Spins, so that both sides begin at once, and sleeps only if the other side does not run. (Who yields
 * instead waits for its turn behind everything else that the machine does, twice in each round.) */
static void reach(const long *place, long at_least) {
    int spins;
    for (spins = 0; spins < 1000; spins++) {
        if (has_reached(place, at_least)) {
            return;
        }
    }
    pthread_mutex_lock(&lock);
    while (!has_reached(place, at_least)) {
        pthread_cond_wait(&moved_on, &lock);
    }
    pthread_mutex_unlock(&lock);
}

static void move_on(long *place, long to) {
    pthread_mutex_lock(&lock);
    __atomic_store_n(place, to, __ATOMIC_RELEASE);
    pthread_cond_signal(&moved_on);
    pthread_mutex_unlock(&lock);
}

static const uint64_t stranger_ns = 1000 * HOUR;

/* Acts on the shared timer, and then has a timer of its own, which takes a place that is free. Nobody
 * else may end or move that. */
static void act(struct side *side, long round) {
    tickless_timer own[2];
    uint64_t now, deadline;
    int i;
    side->outcome = side->act(round);
    OK(tickless_now_ns(engine, &now));
    for (i = 0; i < 2; i++) {
        OK(tickless_schedule(engine, stranger_ns, count_nothing, NULL, NULL, &own[i]));
    }
    for (i = 0; i < 2; i++) {
        RETURNS(TICKLESS_STATE_PENDING, tickless_timer_state(&own[i]));
        OK(tickless_timer_deadline_ns(&own[i], &deadline));
        CHECK(deadline >= now + stranger_ns);
        RETURNS(1, tickless_timer_cancel(&own[i]));
    }
}

static void *other_side(void *user_data) {
    struct side *side = user_data;
    long round;
    for (round = 1; round <= rounds; round++) {
        reach(&begun, round);
        act(side, round);
        move_on(&ended, round);
    }
    return NULL;
}

/* Runs the rounds; `look` checks the outcomes. `flags` are those of the shared timer. */
static void race(act_fn first, act_fn second, uint64_t flags, void (*look)(int, int)) {
    const tickless_when when = {HOUR, 0, flags};
    struct side sides[2] = {{first, 0}, {second, 0}};
    pthread_t thread;
    long round, before = count_now(&released);
    begun = ended = 0;
    engine = manual_engine();
    CHECK(pthread_create(&thread, NULL, other_side, &sides[1]) == 0);
    for (round = 1; round <= rounds; round++) {
        OK(tickless_schedule_when(engine, &when, count_nothing, &released, count_one, &shared));
        move_on(&begun, round);
        act(&sides[0], round);
        reach(&ended, round);
        look(sides[0].outcome, sides[1].outcome);
        RETURNS(TICKLESS_E_HANDLE, tickless_timer_detach(&shared));
    }
    CHECK(pthread_join(thread, NULL) == 0);
    OK(tickless_engine_free(engine));
    CHECK(count_now(&released) == before + rounds);
}

static int cancel(long round) {
    (void)round;
    return tickless_timer_cancel(&shared);
}

static int cancel_wait(long round) {
    (void)round;
    return tickless_timer_cancel_wait(&shared, TICKLESS_NEVER);
}

/* To a later time, which changes its entry, or to an earlier one, which takes another. */
static int reset(long round) {
    return tickless_timer_reset(&shared, round % 2 ? 2 * HOUR : HOUR / 1000);
}

static int look(long round) {
    uint64_t deadline;
    int state = tickless_timer_state(&shared);
    (void)round;
    if (state == TICKLESS_E_HANDLE) {
        return state;
    }
    CHECK(state == TICKLESS_STATE_PENDING || state == TICKLESS_STATE_STOPPED);
    return tickless_timer_deadline_ns(&shared, &deadline);
}

static int restart(long round) {
    (void)round;
    return tickless_timer_restart(engine, &shared, HOUR, count_nothing, NULL, NULL);
}

/* Another thread may be in the middle of a cancel of the timer that this one cancels. */
static int cancel_and_restart(long round) {
    (void)cancel(round);
    return restart(round);
}

/* The looks keep a thread that ends the timer from coming first. */
static int look_and_restart(long round) {
    int i;
    for (i = 0; i < 30; i++) {
        (void)look(round);
    }
    return restart(round);
}

static void one_ends_it(int first, int second) {
    CHECK(first + second == 1 + TICKLESS_E_HANDLE && (first == 1 || second == 1));
}

static void the_first_ends_it(int first, int second) {
    CHECK(first == 1);
    CHECK(second == TICKLESS_OK || second == TICKLESS_E_HANDLE);
}

static void both_have_moved_it(int first, int second) {
    CHECK(first == TICKLESS_OK && second == TICKLESS_OK);
    RETURNS(1, tickless_timer_cancel(&shared));
}

static void the_last_start_counts(int first, int second) {
    CHECK(second == TICKLESS_OK);
    /* A cancel may come after the old timer was ended, and before the new one is there. */
    CHECK(first == TICKLESS_OK || first == 1 || first == TICKLESS_E_HANDLE);
    CHECK(stats_of(engine).pending <= 1);
    /* Cancelled after it was started again, or before. */
    if (tickless_timer_cancel(&shared) != 1) {
        CHECK(first == 1);
    }
    CHECK(stats_of(engine).pending == 0);
}

/* A timer that was started again cannot be waited for, so a wait ends the old one, or none. */
static void the_new_one_is_left(int first, int second) {
    CHECK(second == TICKLESS_OK);
    CHECK(first == 1 || first == TICKLESS_E_NOT_WAITABLE || first == TICKLESS_E_HANDLE);
    RETURNS(1, tickless_timer_cancel(&shared));
    CHECK(stats_of(engine).pending == 0);
}

static void of_two_threads_that_cancel_a_timer_one_does(void) {
    race(cancel, cancel, 0, one_ends_it);
    race(cancel, cancel_wait, TICKLESS_WAITABLE, one_ends_it);
    race(cancel_wait, cancel_wait, TICKLESS_WAITABLE, one_ends_it);
}

static void a_timer_that_one_thread_moves_is_cancelled_by_another(void) {
    race(cancel, reset, 0, the_first_ends_it);
    race(cancel_wait, reset, TICKLESS_WAITABLE, the_first_ends_it);
}

static void a_timer_that_one_thread_looks_at_is_cancelled_by_another(void) {
    race(cancel, look, 0, the_first_ends_it);
}

static void two_threads_move_a_timer(void) {
    race(reset, reset, 0, both_have_moved_it);
    race(reset, look, 0, both_have_moved_it);
}

static void a_timer_that_one_thread_starts_again_is_ended_or_moved_by_another(void) {
    race(cancel, restart, 0, the_last_start_counts);
    race(cancel, cancel_and_restart, 0, the_last_start_counts);
    race(restart, restart, 0, the_last_start_counts);
}

static void a_wait_does_not_end_what_cannot_be_waited_for(void) {
    race(cancel_wait, restart, TICKLESS_WAITABLE, the_new_one_is_left);
    race(cancel_wait, look_and_restart, TICKLESS_WAITABLE, the_new_one_is_left);
}

/* A timer of an engine that is full, and a lock that a release takes. */
struct locked {
    pthread_mutex_t lock;
    tickless_engine *engine;
    tickless_timer timer;
    struct count ended;
};

static void release_under_the_lock(void *user_data) {
    struct locked *locked = user_data;
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += 60;
    CHECK(pthread_mutex_timedlock(&locked->lock, &limit) == 0);
    pthread_mutex_unlock(&locked->lock);
}

static void *cancel_under_the_lock(void *user_data) {
    struct locked *locked = user_data;
    while (count_now(&locked->ended) == 0) {
        int i;
        pthread_mutex_lock(&locked->lock);
        for (i = 0; i < 20; i++) {
            RETURNS(TICKLESS_E_HANDLE, tickless_timer_cancel(&locked->timer));
        }
        pthread_mutex_unlock(&locked->lock);
        sched_yield();
    }
    return NULL;
}

static void a_cancel_does_not_wait_for_a_release(void) {
    struct locked locked = {PTHREAD_MUTEX_INITIALIZER, NULL, {{0}}, COUNT_INIT};
    tickless_options options = {.size = sizeof options, .max_pending = 1};
    pthread_t thread;
    long round;
    options.clock = TICKLESS_CLOCK_MANUAL;
    OK(tickless_engine_new(&options, &locked.engine));
    OK(tickless_schedule(locked.engine, HOUR, count_nothing, NULL, NULL, NULL));
    CHECK(pthread_create(&thread, NULL, cancel_under_the_lock, &locked) == 0);
    for (round = 0; round < rounds * 5; round++) {
        const tickless_when when = {HOUR, 0, round % 2 ? 0 : TICKLESS_WAITABLE};
        RETURNS(TICKLESS_E_FULL,
                tickless_timer_restart_when(locked.engine, &locked.timer, &when, count_nothing, &locked,
                                            release_under_the_lock));
    }
    count_one(&locked.ended);
    CHECK(pthread_join(thread, NULL) == 0);
    OK(tickless_engine_free(locked.engine));
}

/* For all threads and callbacks: how often user data was passed, released and taken back. */
static long passed, let_go, taken;
static tickless_timer anyones;

static void let_one_go(void *user_data) {
    (void)user_data;
    __atomic_add_fetch(&let_go, 1, __ATOMIC_RELAXED);
}

static void start_anyones(uint64_t delay_ns, uint64_t flags);

/* A callback ends or starts the timer that fires, or what has come in its place. */
static void anyones_run(void *user_data) {
    const uint64_t delay_ns = (uint64_t)(size_t)user_data;
    if (delay_ns % 4 == 0) {
        (void)tickless_timer_cancel(&anyones);
    } else if (delay_ns % 4 == 1) {
        start_anyones(delay_ns / 2, 0);
    }
}

static void start_anyones(uint64_t delay_ns, uint64_t flags) {
    const tickless_when when = {delay_ns, 0, flags};
    __atomic_add_fetch(&passed, 1, __ATOMIC_RELAXED);
    CHECK(tickless_timer_restart_when(engine, &anyones, &when, anyones_run,
                                      (void *)(size_t)delay_ns, let_one_go) <= 0);
}

static void *do_anything(void *first) {
    uint64_t random = (uint64_t)(size_t)first, ns;
    long n;
    for (n = 0; n < rounds * 3; n++) {
        void *user_data;
        uint64_t delay_ns;
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        delay_ns = random >> 40 & 0xffff;
        switch (random >> 60) {
        case 0:
        case 1:
            tickless_timer_cancel(&anyones);
            break;
        case 2:
            if (tickless_timer_take(&anyones, &user_data) == 1) {
                __atomic_add_fetch(&taken, 1, __ATOMIC_RELAXED);
            }
            break;
        case 3:
            tickless_timer_cancel_wait(&anyones, delay_ns % 2 == 0 ? TICKLESS_NEVER : 0);
            break;
        case 4:
            tickless_timer_detach(&anyones);
            break;
        case 5:
        case 6:
            tickless_timer_reset(&anyones, delay_ns);
            break;
        case 7:
            tickless_timer_state(&anyones);
            break;
        case 8:
            tickless_timer_deadline_ns(&anyones, &ns);
            break;
        default:
            start_anyones(delay_ns, random >> 60 < 12 ? 0 : TICKLESS_WAITABLE);
        }
    }
    return NULL;
}

static void whatever_threads_do_to_one_timer_its_user_data_is_released_once(void) {
    tickless_options options = {0};
    pthread_t threads[4];
    size_t i;
    options.size = sizeof options;
    options.tick_ns = 10000;
    options.shards = 2;
    OK(tickless_engine_new(&options, &engine));
    for (i = 0; i < 4; i++) {
        CHECK(pthread_create(&threads[i], NULL, do_anything, (void *)(i + 1)) == 0);
    }
    for (i = 0; i < 4; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    tickless_timer_detach(&anyones);
    OK(tickless_engine_free(engine));
    CHECK(passed > rounds && taken > 0 && passed == let_go + taken);
}

int main(int argc, char **argv) {
    rounds = argc > 1 ? atol(argv[1]) : rounds;
    RUN(of_two_threads_that_cancel_a_timer_one_does);
    RUN(a_timer_that_one_thread_moves_is_cancelled_by_another);
    RUN(a_timer_that_one_thread_looks_at_is_cancelled_by_another);
    RUN(two_threads_move_a_timer);
    RUN(a_timer_that_one_thread_starts_again_is_ended_or_moved_by_another);
    RUN(a_wait_does_not_end_what_cannot_be_waited_for);
    RUN(a_cancel_does_not_wait_for_a_release);
    RUN(whatever_threads_do_to_one_timer_its_user_data_is_released_once);
    return 0;
}
