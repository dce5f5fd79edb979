/* An engine that its caller drives: turns, the eventfd, and several loops. */
#define _DEFAULT_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "check.h"

/* What this thread has last set a timer of the system's to. */
static __thread int set_flags;
static __thread uint64_t set_ns;

/* In the place of the system's. */
int timerfd_settime(int fd, int flags, const struct itimerspec *to, struct itimerspec *before) {
    set_flags = flags;
    set_ns = (uint64_t)to->it_value.tv_sec * SECOND + (uint64_t)to->it_value.tv_nsec;
    return (int)syscall(SYS_timerfd_settime, fd, flags, to, before);
}

static tickless_engine *driven_engine(uint32_t shards, uint32_t clock) {
    tickless_options options = {.size = sizeof options, .shards = shards, .clock = clock};
    tickless_engine *engine;
    options.driver = TICKLESS_DRIVER_CALLER;
    OK(tickless_engine_new(&options, &engine));
    return engine;
}

static int is_readable(int fd, int timeout_ms) {
    struct pollfd waited = {fd, POLLIN, 0};
    int n = poll(&waited, 1, timeout_ms);
    CHECK(n >= 0);
    return n;
}

static tickless_turn_info turn(tickless_engine *engine, uint32_t shard) {
    tickless_turn_info turn = {.size = sizeof turn};
    OK(tickless_turn(engine, shard, 0, &turn));
    return turn;
}

static void nothing(void *user_data) {
    (void)user_data;
}

static void the_eventfd_is_readable_when_an_earlier_timer_came_and_until_the_next_turn(void) {
    tickless_engine *engine = driven_engine(1, TICKLESS_CLOCK_MANUAL);
    int fd = tickless_eventfd(engine, 0);
    uint64_t now, next;
    CHECK(fd >= 0 && !is_readable(fd, 0));
    OK(tickless_next_deadline_ns(engine, 0, &next));
    CHECK(next == 0);
    CHECK(turn(engine, 0).sleep_ns == TICKLESS_NEVER);
    OK(tickless_next_deadline_ns(engine, 0, &next));
    CHECK(next == TICKLESS_NEVER);
    OK(tickless_schedule(engine, 20 * MS, nothing, NULL, NULL, NULL));
    CHECK(is_readable(fd, 0));
    OK(tickless_next_deadline_ns(engine, 0, &next));
    CHECK(next == 0);
    CHECK(turn(engine, 0).sleep_ns == 20 * MS && !is_readable(fd, 0));
    OK(tickless_now_ns(engine, &now));
    OK(tickless_next_deadline_ns(engine, 0, &next));
    CHECK(next == now + 20 * MS);
    /* A later one makes no difference, an earlier one does. */
    OK(tickless_schedule(engine, HOUR, nothing, NULL, NULL, NULL));
    CHECK(!is_readable(fd, 0));
    OK(tickless_schedule(engine, 10 * MS, nothing, NULL, NULL, NULL));
    CHECK(is_readable(fd, 0) && turn(engine, 0).sleep_ns == 10 * MS && !is_readable(fd, 0));
    OK(tickless_clock_advance(engine, 10 * MS));
    CHECK(turn(engine, 0).fired == 1);
    OK(tickless_engine_stop(engine, TICKLESS_NEVER, NULL, NULL));
    CHECK(is_readable(fd, 0));
    RETURNS(TICKLESS_E_STOPPED, tickless_turn(engine, 0, 0, NULL));
    CHECK(is_readable(fd, 0));
    OK(tickless_engine_free(engine));
}

struct asking {
    tickless_engine *engine;
    uint64_t before, after;
};

static void schedule_and_ask(void *user_data) {
    struct asking *asking = user_data;
    OK(tickless_next_deadline_ns(asking->engine, 0, &asking->before));
    OK(tickless_schedule(asking->engine, 5 * MS, nothing, NULL, NULL, NULL));
    OK(tickless_next_deadline_ns(asking->engine, 0, &asking->after));
}

/* Nobody rings during a turn, and the time of the turn before says nothing any more. */
static void the_next_deadline_is_now_while_a_turn_is_under_way(void) {
    struct asking asking = {driven_engine(1, TICKLESS_CLOCK_MANUAL), 7, 7};
    uint64_t now, next;
    CHECK(turn(asking.engine, 0).sleep_ns == TICKLESS_NEVER);
    OK(tickless_schedule(asking.engine, 0, schedule_and_ask, &asking, NULL, NULL));
    CHECK(turn(asking.engine, 0).fired == 1);
    CHECK(asking.before == 0 && asking.after == 0);
    turn(asking.engine, 0);
    OK(tickless_now_ns(asking.engine, &now));
    OK(tickless_next_deadline_ns(asking.engine, 0, &next));
    CHECK(next == now + 5 * MS);
    OK(tickless_engine_free(asking.engine));
}

struct turning {
    tickless_engine *engine;
    struct count ended;
};

static void *turn_until_told(void *user_data) {
    struct turning *turning = user_data;
    while (count_now(&turning->ended) == 0) {
        turn(turning->engine, 0);
    }
    return NULL;
}

static void the_next_deadline_is_never_too_late_while_several_threads_turn(void) {
    struct turning turning = {driven_engine(1, TICKLESS_CLOCK_MANUAL), COUNT_INIT};
    pthread_t threads[2];
    uint64_t now, next;
    int i, j;
    OK(tickless_now_ns(turning.engine, &now));
    for (i = 0; i < 2; i++) {
        CHECK(pthread_create(&threads[i], NULL, turn_until_told, &turning) == 0);
    }
    for (i = 0; i < 2000; i++) {
        tickless_timer timer;
        OK(tickless_schedule(turning.engine, HOUR, nothing, NULL, NULL, &timer));
        for (j = 0; j < 20; j++) {
            OK(tickless_next_deadline_ns(turning.engine, 0, &next));
            CHECK(next <= now + HOUR);
        }
        CHECK(tickless_timer_cancel(&timer) == 1);
    }
    count_add(&turning.ended, 1);
    for (i = 0; i < 2; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    OK(tickless_engine_free(turning.engine));
}

static void a_turn_fires_no_more_than_it_is_told(void) {
    tickless_engine *engine = driven_engine(1, TICKLESS_CLOCK_MANUAL);
    tickless_turn_info turned = {.size = sizeof turned};
    int i;
    for (i = 0; i < 5; i++) {
        OK(tickless_schedule(engine, MS, nothing, NULL, NULL, NULL));
    }
    OK(tickless_clock_advance(engine, MS));
    OK(tickless_turn(engine, 0, 3, &turned));
    CHECK(turned.fired == 3 && turned.sleep_ns == 0);
    OK(tickless_turn(engine, 0, 3, &turned));
    CHECK(turned.fired == 2);
    turned.size = 0;
    RETURNS(TICKLESS_E_ARGUMENT, tickless_turn(engine, 0, 0, &turned));
    OK(tickless_engine_free(engine));
}

static void each_shard_has_an_eventfd_of_its_own(void) {
    tickless_engine *engine = driven_engine(2, TICKLESS_CLOCK_MANUAL);
    uint64_t next;
    int fds[2];
    uint32_t i;
    for (i = 0; i < 2; i++) {
        fds[i] = tickless_eventfd(engine, i);
        turn(engine, i);
    }
    CHECK(fds[0] != fds[1]);
    for (i = 0; i < 2; i++) {
        OK(tickless_bind_thread(engine, i));
        OK(tickless_schedule(engine, MS, nothing, NULL, NULL, NULL));
        CHECK(is_readable(fds[i], 0) && !is_readable(fds[!i], 0));
        turn(engine, i);
    }
    RETURNS(TICKLESS_E_NO_SHARD, tickless_eventfd(engine, 2));
    RETURNS(TICKLESS_E_NO_SHARD, tickless_bind_thread(engine, 2));
    RETURNS(TICKLESS_E_NO_SHARD, tickless_turn(engine, 2, 0, NULL));
    RETURNS(TICKLESS_E_NO_SHARD, tickless_next_deadline_ns(engine, 2, &next));
    OK(tickless_engine_free(engine));
}

struct inside {
    tickless_engine *engine;
    int ran;
};

static void drive_it(void *user_data) {
    struct inside *inside = user_data;
    RETURNS(TICKLESS_E_INSIDE_TASK, tickless_turn(inside->engine, 0, 0, NULL));
    RETURNS(TICKLESS_E_INSIDE_TASK, tickless_engine_stop(inside->engine, 0, NULL, NULL));
    RETURNS(TICKLESS_E_INSIDE_TASK, tickless_engine_free(inside->engine));
    CHECK(tickless_eventfd(inside->engine, 0) >= 0);
    inside->ran++;
}

static void a_callback_cannot_drive_its_engine(void) {
    struct inside inside = {driven_engine(1, TICKLESS_CLOCK_SYSTEM), 0};
    RETURNS(TICKLESS_E_NOT_MANUAL, tickless_advance(inside.engine, 0, NULL));
    OK(tickless_schedule(inside.engine, 0, drive_it, &inside, NULL, NULL));
    while (inside.ran == 0) {
        turn(inside.engine, 0);
    }
    OK(tickless_engine_free(inside.engine));
    inside.engine = manual_engine();
    OK(tickless_schedule(inside.engine, 0, drive_it, &inside, NULL, NULL));
    CHECK(advance(inside.engine, 0) == 1 && inside.ran == 2);
    OK(tickless_engine_free(inside.engine));
}

static void an_engine_with_threads_has_no_eventfd(void) {
    tickless_engine *engine;
    uint64_t next;
    OK(tickless_engine_new(NULL, &engine));
    RETURNS(TICKLESS_E_DRIVEN, tickless_eventfd(engine, 0));
    RETURNS(TICKLESS_E_DRIVEN, tickless_pollable_fd(engine, 0));
    RETURNS(TICKLESS_E_DRIVEN, tickless_next_deadline_ns(engine, 0, &next));
    RETURNS(TICKLESS_E_DRIVEN, tickless_turn(engine, 0, 0, NULL));
    OK(tickless_engine_free(engine));
}

/* Also while threads remember the engine, as those do that have used it. */
static void the_eventfds_are_closed_when_the_engine_is_freed(void) {
    tickless_engine *engine = driven_engine(2, TICKLESS_CLOCK_SYSTEM);
    int i, fds[2];
    for (i = 0; i < 2; i++) {
        OK(tickless_schedule(engine, 0, nothing, NULL, NULL, NULL));
        turn(engine, (uint32_t)i);
        fds[i] = tickless_eventfd(engine, (uint32_t)i);
        CHECK(fcntl(fds[i], F_GETFD) >= 0);
    }
    OK(tickless_engine_free(engine));
    for (i = 0; i < 2; i++) {
        CHECK(fcntl(fds[i], F_GETFD) < 0);
    }
}

/* Before the first turn, when a turn has left something, and when the bell rings; time by hand wakes
 * nobody. */
static void the_pollable_descriptor_is_readable_when_a_turn_is_needed_and_until_then(void) {
    tickless_engine *engine = driven_engine(2, TICKLESS_CLOCK_MANUAL);
    tickless_turn_info turned = {.size = sizeof turned};
    int fd = tickless_pollable_fd(engine, 0), other = tickless_pollable_fd(engine, 1);
    CHECK(fd >= 0 && other >= 0 && fd != other && fd != tickless_eventfd(engine, 0));
    CHECK(tickless_pollable_fd(engine, 0) == fd);
    OK(tickless_bind_thread(engine, 0));
    CHECK(is_readable(fd, 0));
    turn(engine, 0);
    CHECK(!is_readable(fd, 0) && is_readable(other, 0));
    OK(tickless_schedule(engine, MS, nothing, NULL, NULL, NULL));
    CHECK(is_readable(fd, 0));
    turn(engine, 0);
    CHECK(!is_readable(fd, 0));
    OK(tickless_schedule(engine, MS, nothing, NULL, NULL, NULL));
    OK(tickless_clock_advance(engine, MS));
    OK(tickless_turn(engine, 0, 1, &turned));
    CHECK(turned.fired == 1 && is_readable(fd, 0));
    OK(tickless_turn(engine, 0, 1, &turned));
    turn(engine, 0);
    CHECK(turned.fired == 1 && !is_readable(fd, 0));
    OK(tickless_engine_stop(engine, TICKLESS_NEVER, NULL, NULL));
    CHECK(is_readable(fd, 0));
    RETURNS(TICKLESS_E_NO_SHARD, tickless_pollable_fd(engine, 2));
    OK(tickless_engine_free(engine));
    CHECK(fcntl(fd, F_GETFD) < 0 && fcntl(other, F_GETFD) < 0);
}

/* By the system's clocks: without a timeout, and without a turn that finds nothing. */
static void the_pollable_descriptor_becomes_readable_when_a_timer_is_due(void) {
    const uint32_t clocks[] = {TICKLESS_CLOCK_SYSTEM, TICKLESS_CLOCK_EXACT, TICKLESS_CLOCK_BOOTTIME};
    size_t i;
    for (i = 0; i < 3; i++) {
        tickless_engine *engine = driven_engine(1, clocks[i]);
        struct count fired = COUNT_INIT;
        tickless_timer far;
        int fd = tickless_pollable_fd(engine, 0);
        turn(engine, 0);
        CHECK(!is_readable(fd, 0));
        OK(tickless_schedule(engine, HOUR, nothing, NULL, NULL, &far));
        turn(engine, 0);
        CHECK(!is_readable(fd, 0));
        OK(tickless_schedule(engine, 20 * MS, count_one, &fired, NULL, NULL));
        turn(engine, 0);
        while (count_now(&fired) == 0) {
            CHECK(is_readable(fd, -1) == 1);
            turn(engine, 0);
        }
        /* The hour is left. */
        turn(engine, 0);
        CHECK(!is_readable(fd, 0));
        CHECK(tickless_timer_cancel(&far) == 1);
        OK(tickless_engine_free(engine));
    }
}

/* A pause would begin when it is set: after whatever has interrupted the turn. */
static void the_pollable_descriptor_is_set_to_a_time_and_not_to_a_pause(void) {
    const uint32_t clocks[] = {TICKLESS_CLOCK_SYSTEM, TICKLESS_CLOCK_EXACT};
    size_t i;
    for (i = 0; i < 2; i++) {
        tickless_engine *engine = driven_engine(1, clocks[i]);
        CHECK(tickless_pollable_fd(engine, 0) >= 0);
        OK(tickless_schedule(engine, HOUR, nothing, NULL, NULL, NULL));
        CHECK(turn(engine, 0).next_ns == set_ns && set_flags == TFD_TIMER_ABSTIME);
        OK(tickless_engine_free(engine));
    }
}

static void a_time_to_sleep_is_rounded_up_for_poll(void) {
    struct timespec room;
    CHECK(tickless_timeout_ms(0) == 0);
    CHECK(tickless_timeout_ms(1) == 1);
    CHECK(tickless_timeout_ms(MS) == 1);
    CHECK(tickless_timeout_ms(MS + 1) == 2);
    CHECK(tickless_timeout_ms(TICKLESS_NEVER - 1) == 2147483647);
    CHECK(tickless_timeout_ms(TICKLESS_NEVER) == -1);
    CHECK(tickless_timespec(TICKLESS_NEVER, &room) == NULL);
    CHECK(tickless_timespec(0, &room) == &room && room.tv_sec == 0 && room.tv_nsec == 0);
    CHECK(tickless_timespec(3 * SECOND + 7, &room) == &room);
    CHECK(room.tv_sec == 3 && room.tv_nsec == 7);
    CHECK(tickless_timespec(TICKLESS_NEVER - 1, &room)->tv_sec == 18446744073 && room.tv_nsec > 0);
}

struct loop {
    tickless_engine *engine;
    struct count fired;
    long wanted;
};

/* Sleeps in poll for as long as it is told, and by the eventfd alone. */
static void *run_loop(void *user_data) {
    struct loop *loop = user_data;
    int fd = tickless_eventfd(loop->engine, 0);
    for (;;) {
        uint64_t sleep_ns = turn(loop->engine, 0).sleep_ns;
        if (count_now(&loop->fired) == loop->wanted) {
            return NULL;
        }
        is_readable(fd, tickless_timeout_ms(sleep_ns));
    }
}

/* The same without a timeout. */
static void *run_pollable_loop(void *user_data) {
    struct loop *loop = user_data;
    int fd = tickless_pollable_fd(loop->engine, 0);
    while (count_now(&loop->fired) < loop->wanted) {
        int code;
        CHECK(is_readable(fd, -1) == 1);
        code = tickless_turn(loop->engine, 0, 0, NULL);
        CHECK(code == TICKLESS_OK || code == TICKLESS_E_STOPPED);
    }
    return NULL;
}

static void wake(void *(*run)(void *)) {
    struct loop loop = {driven_engine(1, TICKLESS_CLOCK_SYSTEM), COUNT_INIT, 2000};
    pthread_t thread;
    int i;
    CHECK(pthread_create(&thread, NULL, run, &loop) == 0);
    for (i = 0; i < 2000; i++) {
        uint64_t delay_ns = i % 4 < 2 ? 0 : 100000;
        OK(tickless_schedule(loop.engine, delay_ns, count_one, &loop.fired, NULL, NULL));
        if (i % 2 == 0) {
            /* The loop is asleep or about to sleep: only the descriptor wakes it. */
            count_wait(&loop.fired, i + 1);
        }
    }
    CHECK(pthread_join(thread, NULL) == 0);
    OK(tickless_engine_free(loop.engine));
}

static void no_wake_up_is_lost_between_threads_that_schedule_and_a_loop_that_sleeps(void) {
    wake(run_loop);
    wake(run_pollable_loop);
}

/* Whichever of two turns that overlap sets the descriptor's timer last. */
static void no_wake_up_is_lost_between_loops_that_share_a_shard(void) {
    struct loop loop = {driven_engine(1, TICKLESS_CLOCK_SYSTEM), COUNT_INIT, 1000};
    pthread_t threads[2];
    int i;
    for (i = 0; i < 2; i++) {
        CHECK(pthread_create(&threads[i], NULL, run_pollable_loop, &loop) == 0);
    }
    for (i = 0; i < 1000; i++) {
        OK(tickless_schedule(loop.engine, 0, count_one, &loop.fired, NULL, NULL));
        count_wait(&loop.fired, i + 1);
    }
    /* The last wakes the one that did not run it. */
    OK(tickless_engine_stop(loop.engine, TICKLESS_NEVER, NULL, NULL));
    for (i = 0; i < 2; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    OK(tickless_engine_free(loop.engine));
}

/* As nginx waits: a descriptor that stays readable is reported once. */
static void the_pollable_descriptor_serves_a_loop_that_is_edge_triggered(void) {
    tickless_engine *engine = driven_engine(1, TICKLESS_CLOCK_SYSTEM);
    struct count fired = COUNT_INIT;
    struct epoll_event event;
    int epoll = epoll_create1(0), i;
    uint64_t clock_ns;
    memset(&event, 0, sizeof event);
    event.events = EPOLLIN | EPOLLET;
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, tickless_pollable_fd(engine, 0), &event) == 0);
    for (i = 0; i < 100; i++) {
        OK(tickless_schedule(engine, (uint64_t)(i % 2) * MS, count_one, &fired, NULL, NULL));
    }
    OK(tickless_now_ns(engine, &clock_ns));
    while (count_now(&fired) < 100) {
        CHECK(epoll_wait(epoll, &event, 1, 60000) == 1);
        OK(tickless_turn(engine, 0, 20, NULL));
    }
    close(epoll);
    OK(tickless_engine_free(engine));
}

int main(void) {
    RUN(the_eventfd_is_readable_when_an_earlier_timer_came_and_until_the_next_turn);
    RUN(the_next_deadline_is_now_while_a_turn_is_under_way);
    RUN(the_next_deadline_is_never_too_late_while_several_threads_turn);
    RUN(a_turn_fires_no_more_than_it_is_told);
    RUN(each_shard_has_an_eventfd_of_its_own);
    RUN(a_callback_cannot_drive_its_engine);
    RUN(an_engine_with_threads_has_no_eventfd);
    RUN(the_eventfds_are_closed_when_the_engine_is_freed);
    RUN(the_pollable_descriptor_is_readable_when_a_turn_is_needed_and_until_then);
    RUN(the_pollable_descriptor_becomes_readable_when_a_timer_is_due);
    RUN(the_pollable_descriptor_is_set_to_a_time_and_not_to_a_pause);
    RUN(the_pollable_descriptor_serves_a_loop_that_is_edge_triggered);
    RUN(a_time_to_sleep_is_rounded_up_for_poll);
    RUN(no_wake_up_is_lost_between_threads_that_schedule_and_a_loop_that_sleeps);
    RUN(no_wake_up_is_lost_between_loops_that_share_a_shard);
    return 0;
}
