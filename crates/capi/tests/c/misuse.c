/* What a program should not do, or rarely does: each call has a defined end. Absurd numbers, engines
 * that are freed by two, releases that call back, and eventfds that are used in other ways than as the
 * header says. */
#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "check.h"

static const uint64_t absurd[] = {
    0, 1, MS, HOUR, UINT64_C(1) << 53, UINT64_C(1) << 62, INT64_MAX, UINT64_C(1) << 63,
    UINT64_MAX - HOUR, TICKLESS_NEVER - 1, TICKLESS_NEVER,
};

enum { ABSURD = sizeof absurd / sizeof absurd[0] };

static int released;

static void nothing(void *user_data) {
    (void)user_data;
}

static void release(void *user_data) {
    (void)user_data;
    released++;
}

/* --- Numbers --- */

/* An option that is out of range is an error, whatever it is, and none is a panic. */
static void no_option_is_a_panic(void) {
    const uint32_t words[] = {0, 1, 2, 3, 64, 65, 1024, 1025, UINT32_MAX / 2, UINT32_MAX};
    int field, made = 0, refused = 0;
    size_t i, j;
    for (field = 0; field < 8; field++) {
        for (i = 0; i < sizeof words / sizeof words[0]; i++) {
            tickless_options options = {.size = sizeof options};
            tickless_engine *engine;
            uint32_t *const fields[] = {&options.slots,       &options.reach, &options.reapers_min,
                                        &options.reapers_max, &options.clock, &options.driver,
                                        &options.shards,      &options.precise_percent};
            int code;
            options.shards = 1;
            options.driver = TICKLESS_DRIVER_CALLER;
            *fields[field] = words[i];
            code = tickless_engine_new(&options, &engine);
            /* A thousand eventfds may be too many. */
            CHECK(code == TICKLESS_OK || code == TICKLESS_E_ARGUMENT || code == TICKLESS_E_SYSTEM);
            CHECK((code == TICKLESS_OK) == (engine != NULL));
            made += code == TICKLESS_OK;
            refused += code == TICKLESS_E_ARGUMENT;
            OK(tickless_engine_free(engine));
        }
    }
    CHECK(made > 8 && refused > 8);
    for (i = 0; i < ABSURD; i++) {
        for (j = 0; j < 3; j++) {
            tickless_options options = {.size = sizeof options, .clock = TICKLESS_CLOCK_MANUAL};
            uint64_t *const fields[] = {&options.tick_ns, &options.max_pending,
                                        &options.takeover_ns};
            tickless_engine *engine;
            int code;
            *fields[j] = absurd[i];
            code = tickless_engine_new(&options, &engine);
            CHECK(code == TICKLESS_OK || code == TICKLESS_E_ARGUMENT);
            if (code == TICKLESS_OK) {
                tickless_timer timer;
                OK(tickless_schedule(engine, HOUR, nothing, NULL, NULL, &timer));
                RETURNS(1, tickless_timer_cancel(&timer));
            }
            OK(tickless_engine_free(engine));
        }
    }
}

static void no_time_is_a_panic_and_none_is_early(void) {
    tickless_engine *engine = manual_engine();
    uint64_t start, deadline;
    int i, j, flag;
    OK(tickless_now_ns(engine, &start));
    for (i = 0; i < ABSURD; i++) {
        for (j = 0; j < ABSURD; j++) {
            for (flag = 0; flag < 4; flag++) {
                tickless_when when = {absurd[i], absurd[j], 0};
                tickless_timer timer;
                uint64_t due = absurd[i];
                when.flags = (uint64_t)flag;
                OK(tickless_schedule_when(engine, &when, nothing, NULL, release, &timer));
                if (!(flag & TICKLESS_AT)) {
                    due = due > TICKLESS_NEVER - start ? TICKLESS_NEVER : start + due;
                }
                OK(tickless_timer_deadline_ns(&timer, &deadline));
                CHECK(deadline >= due || deadline >= start + 100 * 365 * 24 * HOUR);
                OK(tickless_timer_reset_when(&timer, &when));
                OK(tickless_timer_reset(&timer, absurd[j]));
                RETURNS(1, tickless_timer_cancel(&timer));
            }
        }
    }
    CHECK(stats_of(engine).pending == 0);
    OK(tickless_engine_free(engine));
}

static void a_clock_that_is_moved_too_far_stands_at_its_end(void) {
    tickless_engine *engine = manual_engine();
    uint64_t before, now, next;
    int i, round;
    OK(tickless_now_ns(engine, &before));
    for (round = 0; round < 3; round++) {
        for (i = 0; i < ABSURD; i++) {
            OK(tickless_schedule(engine, HOUR, nothing, NULL, release, NULL));
            OK(tickless_clock_advance(engine, absurd[i]));
            OK(tickless_advance(engine, absurd[i], NULL));
            OK(tickless_now_ns(engine, &now));
            CHECK(now >= before);
            before = now;
            OK(tickless_next_deadline_ns(engine, 0, &next));
        }
    }
    OK(tickless_engine_free(engine));
}

/* --- Ends of engines --- */

struct busy {
    tickless_engine *engine;
    struct count begun, may_end, freed;
    int code;
};

static void use_until_told(void *user_data) {
    struct busy *busy = user_data;
    tickless_timer timer;
    int code;
    count_add(&busy->begun, 1);
    /* Until the engine ends, which may return the timer. */
    while ((code = tickless_schedule(busy->engine, HOUR, nothing, NULL, NULL, &timer)) == 0) {
        CHECK(tickless_timer_cancel(&timer) >= 0);
    }
    CHECK(code == TICKLESS_E_STOPPED);
    /* While it ends, another call may still be accepted: its timer does not run. */
    code = tickless_schedule(busy->engine, 0, nothing, NULL, release, NULL);
    CHECK(code == TICKLESS_OK || code == TICKLESS_E_STOPPED);
    RETURNS(TICKLESS_E_INSIDE_TASK, tickless_engine_stop(busy->engine, 0, NULL, NULL));
    /* Another thread frees it. */
    RETURNS(TICKLESS_E_HANDLE, tickless_engine_free(busy->engine));
    CHECK(stats_of(busy->engine).scheduled > 0);
    count_wait(&busy->may_end, 1);
}

static void *free_it(void *user_data) {
    struct busy *busy = user_data;
    busy->code = tickless_engine_free(busy->engine);
    count_add(&busy->freed, 1);
    return NULL;
}

static void a_free_waits_for_a_callback_that_uses_the_engine_and_a_second_free_is_refused(void) {
    struct busy busy = {NULL, COUNT_INIT, COUNT_INIT, COUNT_INIT, 1};
    tickless_options options = {.size = sizeof options, .shards = 1};
    pthread_t thread;
    int code, before = released;
    OK(tickless_engine_new(&options, &busy.engine));
    OK(tickless_schedule(busy.engine, 0, use_until_told, &busy, NULL, NULL));
    count_wait(&busy.begun, 1);
    CHECK(pthread_create(&thread, NULL, free_it, &busy) == 0);
    /* The callback has the engine, so it is there; the other thread waits for the callback. */
    do {
        code = tickless_schedule(busy.engine, HOUR, nothing, NULL, NULL, NULL);
    } while (code == TICKLESS_OK);
    CHECK(code == TICKLESS_E_STOPPED);
    RETURNS(TICKLESS_E_HANDLE, tickless_engine_free(busy.engine));
    CHECK(count_now(&busy.freed) == 0);
    count_add(&busy.may_end, 1);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(busy.code == TICKLESS_OK && released == before + 1);
    RETURNS(TICKLESS_E_HANDLE, tickless_engine_free(busy.engine));
}

static struct count tried = COUNT_INIT;

static void free_own(void *engine) {
    RETURNS(TICKLESS_E_INSIDE_TASK, tickless_engine_free(engine));
    RETURNS(TICKLESS_E_INSIDE_TASK, tickless_engine_free(engine));
    count_add(&tried, 1);
}

static void a_free_that_was_refused_can_be_repeated(void) {
    tickless_engine *engine;
    OK(tickless_engine_new(NULL, &engine));
    OK(tickless_schedule(engine, 0, free_own, engine, NULL, NULL));
    count_wait(&tried, 1);
    OK(tickless_engine_free(engine));
}

struct ending {
    tickless_engine *engine;
    int stop_code, free_code, n;
};

static void free_while_released(void *user_data) {
    struct ending *ending = user_data;
    ending->n++;
    ending->stop_code = tickless_engine_stop(ending->engine, TICKLESS_NEVER, NULL, NULL);
    ending->free_code = tickless_engine_free(ending->engine);
}

/* The release runs on the caller's thread, where nothing of the engine runs: it may even free the
 * engine, and the cancel goes on with what is its own. */
static void a_release_in_a_cancel_may_free_the_engine(void) {
    const uint64_t flags[] = {0, TICKLESS_WAITABLE};
    int i, way;
    for (i = 0; i < 2; i++) {
        for (way = 0; way < 2; way++) {
            const tickless_when when = {HOUR, 0, flags[i]};
            struct ending ending = {manual_engine(), 1, 1, 0};
            tickless_timer timer, other;
            int before = released;
            OK(tickless_schedule(ending.engine, HOUR, nothing, NULL, release, &other));
            OK(tickless_schedule_when(ending.engine, &when, nothing, &ending, free_while_released,
                                      &timer));
            if (way == 1 && flags[i] != 0) {
                RETURNS(1, tickless_timer_cancel_wait(&timer, TICKLESS_NEVER));
            } else {
                RETURNS(1, tickless_timer_cancel(&timer));
            }
            CHECK(ending.n == 1 && ending.stop_code == 0 && ending.free_code == 0);
            CHECK(released == before + 1);
            RETURNS(0, tickless_timer_cancel(&other));
            RETURNS(TICKLESS_E_HANDLE, tickless_engine_free(ending.engine));
        }
    }
}

static void a_release_in_a_refused_schedule_may_free_the_engine(void) {
    tickless_options options = {.size = sizeof options, .clock = TICKLESS_CLOCK_MANUAL};
    struct ending ending = {NULL, 1, 1, 0};
    tickless_timer timer;
    options.max_pending = 1;
    OK(tickless_engine_new(&options, &ending.engine));
    OK(tickless_schedule(ending.engine, HOUR, nothing, NULL, NULL, NULL));
    RETURNS(TICKLESS_E_FULL, tickless_schedule(ending.engine, 0, nothing, &ending,
                                               free_while_released, &timer));
    CHECK(ending.n == 1 && ending.stop_code == 0 && ending.free_code == 0);
}

/* While it is freed, a release finds that it is, and the rest is released all the same. */
static void a_release_in_a_free_cannot_free_again(void) {
    struct ending ending = {manual_engine(), 1, 1, 0};
    int i, before = released;
    for (i = 0; i < 3; i++) {
        OK(tickless_schedule(ending.engine, HOUR, nothing, &ending, free_while_released, NULL));
        OK(tickless_schedule(ending.engine, HOUR, nothing, NULL, release, NULL));
    }
    OK(tickless_engine_free(ending.engine));
    CHECK(ending.n == 3 && ending.stop_code == 0 && ending.free_code == TICKLESS_E_HANDLE);
    CHECK(released == before + 3);
}

static void free_when_returned(void *context, tickless_fn run, void *user_data) {
    (void)run;
    (void)user_data;
    ((struct ending *)context)->n++;
    ((struct ending *)context)->free_code |= tickless_engine_free(((struct ending *)context)->engine);
}

static void the_callback_of_a_stop_may_free_the_engine(void) {
    struct ending ending = {manual_engine(), 1, 0, 0};
    int before = released;
    OK(tickless_schedule(ending.engine, HOUR, nothing, NULL, release, NULL));
    OK(tickless_engine_stop(ending.engine, TICKLESS_NEVER, free_when_returned, &ending));
    CHECK(ending.n == 1 && ending.free_code == 0 && released == before + 1);
    RETURNS(TICKLESS_E_HANDLE, tickless_engine_free(ending.engine));
}

/* --- Timers --- */

struct own {
    tickless_timer timer;
    struct count may_begin, done;
    int by_wait;
};

static void wait_for_own_release(void *user_data) {
    struct own *own = user_data;
    RETURNS(TICKLESS_E_INSIDE_TASK, tickless_timer_cancel_wait(&own->timer, TICKLESS_NEVER));
    RETURNS(TICKLESS_STATE_RUNNING, tickless_timer_state(&own->timer));
    count_add(&own->done, 1);
}

static void wait_to_begin(void *user_data) {
    count_wait(&((struct own *)user_data)->may_begin, 1);
}

static void a_release_cannot_wait_for_itself(void) {
    const tickless_when when = {0, 0, TICKLESS_WAITABLE};
    struct own own = {{{0}}, COUNT_INIT, COUNT_INIT, 0};
    tickless_engine *engine;
    OK(tickless_engine_new(NULL, &engine));
    OK(tickless_schedule_when(engine, &when, wait_to_begin, &own, wait_for_own_release,
                              &own.timer));
    count_add(&own.may_begin, 1);
    count_wait(&own.done, 1);
    RETURNS(0, tickless_timer_cancel_wait(&own.timer, TICKLESS_NEVER));
    OK(tickless_engine_free(engine));
}

static void a_timer_outlives_its_engine_and_the_next_one(void) {
    const tickless_when waitable = {HOUR, 0, TICKLESS_WAITABLE};
    tickless_engine *engine = manual_engine(), *next;
    tickless_timer timers[8];
    uint64_t deadline;
    void *user_data;
    int i;
    for (i = 0; i < 8; i++) {
        if (i % 2 == 0) {
            OK(tickless_schedule(engine, HOUR, nothing, NULL, release, &timers[i]));
        } else {
            OK(tickless_schedule_when(engine, &waitable, nothing, NULL, release, &timers[i]));
        }
    }
    OK(tickless_engine_free(engine));
    /* Its memory, and its place in tables, may be those of the one before. */
    next = manual_engine();
    for (i = 0; i < 100; i++) {
        OK(tickless_schedule(next, HOUR, nothing, NULL, NULL, NULL));
    }
    for (i = 0; i < 8; i++) {
        RETURNS(TICKLESS_STATE_STOPPED, tickless_timer_state(&timers[i]));
        RETURNS(TICKLESS_E_STOPPED, tickless_timer_reset(&timers[i], MS));
        OK(tickless_timer_deadline_ns(&timers[i], &deadline));
        CHECK(deadline == TICKLESS_NEVER);
        if (i < 4) {
            RETURNS(0, tickless_timer_cancel(&timers[i]));
        } else if (i < 6) {
            RETURNS(0, tickless_timer_take(&timers[i], &user_data));
            CHECK(user_data == NULL);
        } else {
            OK(tickless_timer_detach(&timers[i]));
        }
        RETURNS(TICKLESS_E_HANDLE, tickless_timer_cancel(&timers[i]));
    }
    CHECK(stats_of(next).pending == 100);
    OK(tickless_engine_free(next));
}

/* --- Eventfds --- */

static int is_ready(int epoll) {
    struct epoll_event event;
    int n = epoll_wait(epoll, &event, 1, 0);
    CHECK(n >= 0);
    return n;
}

static int epoll_of(int fd, uint32_t events) {
    struct epoll_event event;
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    memset(&event, 0, sizeof event);
    event.events = EPOLLIN | events;
    CHECK(epoll >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0);
    return epoll;
}

/* Level-triggered, edge-triggered, and through a copy of the descriptor: each is woken each time. */
static void an_eventfd_may_be_in_several_epolls_and_be_copied(void) {
    tickless_engine *engine = manual_engine();
    int fd = tickless_eventfd(engine, 0), copy = dup(fd);
    int level = epoll_of(fd, 0), edge = epoll_of(fd, EPOLLET), other = epoll_of(copy, 0);
    int i;
    OK(tickless_turn(engine, 0, 0, NULL));
    CHECK(copy >= 0 && (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    for (i = 0; i < 100; i++) {
        CHECK(!is_ready(level) && !is_ready(edge) && !is_ready(other));
        OK(tickless_schedule(engine, MS, nothing, NULL, NULL, NULL));
        CHECK(is_ready(level) && is_ready(edge) && is_ready(other));
        OK(tickless_clock_advance(engine, MS));
        OK(tickless_turn(engine, 0, 0, NULL));
    }
    CHECK(stats_of(engine).fired == 100);
    OK(tickless_engine_free(engine));
    /* The copy is the program's, and can still be polled. */
    CHECK(is_ready(other) >= 0);
    CHECK(close(copy) == 0 && close(level) == 0 && close(edge) == 0 && close(other) == 0);
}

/* Who reads it takes the wake-up, but the next turn finds what it was for, and the next one comes. */
static void an_eventfd_that_the_program_reads_wakes_it_the_next_time(void) {
    tickless_engine *engine = manual_engine();
    int fd = tickless_eventfd(engine, 0), epoll = epoll_of(fd, 0), i;
    uint64_t n, next;
    OK(tickless_turn(engine, 0, 0, NULL));
    for (i = 0; i < 3; i++) {
        OK(tickless_schedule(engine, MS, nothing, NULL, NULL, NULL));
        CHECK(read(fd, &n, sizeof n) == sizeof n && n == 1);
        CHECK(!is_ready(epoll));
        OK(tickless_next_deadline_ns(engine, 0, &next));
        CHECK(next == 0);
        OK(tickless_clock_advance(engine, MS));
        OK(tickless_turn(engine, 0, 0, NULL));
    }
    CHECK(stats_of(engine).fired == 3);
    /* A program that writes to it only wakes itself; a full one blocks nobody. */
    n = UINT64_MAX - 1;
    CHECK(write(fd, &n, sizeof n) == sizeof n && is_ready(epoll));
    OK(tickless_schedule(engine, MS, nothing, NULL, NULL, NULL));
    OK(tickless_clock_advance(engine, MS));
    OK(tickless_turn(engine, 0, 0, NULL));
    CHECK(stats_of(engine).fired == 4 && !is_ready(epoll));
    OK(tickless_engine_free(engine));
    CHECK(close(epoll) == 0);
}

/* The program has broken what was not its own: no call fails or blocks because of that, but nobody is
 * woken any more. (Here nothing is opened meanwhile, which would get the number.) */
static void an_eventfd_that_the_program_closes_wakes_nobody_and_ends_nothing(void) {
    tickless_engine *engine = manual_engine();
    CHECK(close(tickless_eventfd(engine, 0)) == 0);
    OK(tickless_turn(engine, 0, 0, NULL));
    OK(tickless_schedule(engine, MS, nothing, NULL, NULL, NULL));
    CHECK(advance(engine, MS) == 1);
    OK(tickless_engine_stop(engine, TICKLESS_NEVER, NULL, NULL));
    OK(tickless_engine_free(engine));
}

/* --- Turns --- */

struct moved {
    tickless_engine *engine;
    uint64_t seen;
};

static void move_on(void *user_data) {
    struct moved *moved = user_data;
    RETURNS(TICKLESS_E_INSIDE_TASK, tickless_advance(moved->engine, HOUR, NULL));
    OK(tickless_clock_advance(moved->engine, HOUR));
    OK(tickless_now_ns(moved->engine, &moved->seen));
}

static void a_callback_that_moves_the_clock_does_not_turn_it_back(void) {
    struct moved moved = {manual_engine(), 0};
    uint64_t start, now;
    OK(tickless_now_ns(moved.engine, &start));
    OK(tickless_schedule(moved.engine, MS, move_on, &moved, NULL, NULL));
    OK(tickless_schedule(moved.engine, 2 * MS, nothing, NULL, NULL, NULL));
    CHECK(advance(moved.engine, 3 * MS) == 2);
    OK(tickless_now_ns(moved.engine, &now));
    CHECK(moved.seen == start + MS + HOUR && now == moved.seen);
    OK(tickless_engine_free(moved.engine));
}

static void *advance_often(void *engine) {
    int i;
    for (i = 0; i < 2000; i++) {
        OK(tickless_advance(engine, MS, NULL));
    }
    return NULL;
}

static void threads_that_advance_one_clock_lose_no_timer(void) {
    enum { N = 4000 };
    struct count fired = COUNT_INIT;
    tickless_engine *engine = manual_engine();
    pthread_t threads[2];
    int i;
    for (i = 0; i < N; i++) {
        OK(tickless_schedule(engine, (uint64_t)(i % 1000) * MS, count_one, &fired, NULL, NULL));
    }
    for (i = 0; i < 2; i++) {
        CHECK(pthread_create(&threads[i], NULL, advance_often, engine) == 0);
    }
    for (i = 0; i < 2; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    OK(tickless_advance(engine, 1000 * MS, NULL));
    CHECK(count_now(&fired) == N && stats_of(engine).pending == 0);
    OK(tickless_engine_free(engine));
}

int main(void) {
    RUN(no_option_is_a_panic);
    RUN(no_time_is_a_panic_and_none_is_early);
    RUN(a_clock_that_is_moved_too_far_stands_at_its_end);
    RUN(a_free_waits_for_a_callback_that_uses_the_engine_and_a_second_free_is_refused);
    RUN(a_free_that_was_refused_can_be_repeated);
    RUN(a_release_in_a_cancel_may_free_the_engine);
    RUN(a_release_in_a_refused_schedule_may_free_the_engine);
    RUN(a_release_in_a_free_cannot_free_again);
    RUN(the_callback_of_a_stop_may_free_the_engine);
    RUN(a_release_cannot_wait_for_itself);
    RUN(a_timer_outlives_its_engine_and_the_next_one);
    RUN(an_eventfd_may_be_in_several_epolls_and_be_copied);
    RUN(an_eventfd_that_the_program_reads_wakes_it_the_next_time);
    RUN(an_eventfd_that_the_program_closes_wakes_nobody_and_ends_nothing);
    RUN(a_callback_that_moves_the_clock_does_not_turn_it_back);
    RUN(threads_that_advance_one_clock_lose_no_timer);
    return 0;
}
