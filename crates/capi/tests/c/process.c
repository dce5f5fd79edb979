/* Forks: what a child can do with the engine of its parent. */
#define _DEFAULT_SOURCE /* For syscall. */
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

/* Its allocator's locks stay locked in a child of several threads, unlike the system's. */
#if defined(__SANITIZE_ADDRESS__)
#define IS_SANITIZED
#elif defined(__has_feature) /* clang's word for it. */
#if __has_feature(address_sanitizer)
#define IS_SANITIZED
#endif
#endif

static void nothing(void *user_data) {
    (void)user_data;
}

static void release(void *n) {
    ++*(int *)n;
}

/* Runs `f` in a child, which ends with 0 if every check held. */
static void in_a_child(void (*f)(tickless_engine *, tickless_timer *), tickless_engine *engine,
                       tickless_timer *timer) {
    pid_t child = fork();
    int status;
    CHECK(child >= 0);
    if (child == 0) {
        f(engine, timer);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* By the end of an engine. */
static int released_unrun;

static void use_copies(tickless_engine *engine, tickless_timer *timers) {
    struct count fired = COUNT_INIT;
    tickless_engine *own;
    uint64_t now;
    int released = 0;
    alarm(60);
    RETURNS(TICKLESS_E_STOPPED, tickless_schedule(engine, 0, nothing, &released, release, NULL));
    CHECK(released == 1);
    RETURNS(TICKLESS_E_STOPPED, tickless_timer_reset(&timers[0], MS));
    RETURNS(1, tickless_timer_cancel(&timers[0]));
    RETURNS(1, tickless_timer_cancel_wait(&timers[1], TICKLESS_NEVER));
    RETURNS(TICKLESS_E_FORKED, tickless_engine_stop(engine, TICKLESS_NEVER, NULL, NULL));
    RETURNS(TICKLESS_E_FORKED, tickless_bind_thread(engine, 0));
    OK(tickless_now_ns(engine, &now));
    CHECK(stats_of(engine).scheduled >= 3);
    OK(tickless_engine_free(engine));
    CHECK(released_unrun == 0);
    OK(tickless_engine_new(NULL, &own));
    OK(tickless_schedule(own, MS, count_one, &fired, NULL, NULL));
    count_wait(&fired, 1);
    OK(tickless_engine_free(own));
}

static void a_child_lets_go_of_its_copies_and_has_engines_of_its_own(void) {
    const tickless_when when = {HOUR, 0, TICKLESS_WAITABLE};
    tickless_engine *engine;
    tickless_timer timers[2];
    int released = 0;
    OK(tickless_engine_new(NULL, &engine));
    OK(tickless_schedule(engine, HOUR, nothing, &released, release, &timers[0]));
    OK(tickless_schedule_when(engine, &when, nothing, &released, release, &timers[1]));
    OK(tickless_schedule(engine, HOUR, nothing, &released_unrun, release, NULL));
    in_a_child(use_copies, engine, timers);
    CHECK(released == 0);
    RETURNS(1, tickless_timer_cancel(&timers[0]));
    RETURNS(1, tickless_timer_cancel_wait(&timers[1], TICKLESS_NEVER));
    CHECK(released == 2);
    OK(tickless_engine_free(engine));
    CHECK(released_unrun == 1);
}

static int is_readable(int fd) {
    struct pollfd waited = {fd, POLLIN, 0};
    return poll(&waited, 1, 0);
}

static void drive_copy(tickless_engine *engine, tickless_timer *timer) {
    (void)timer;
    CHECK(is_readable(tickless_eventfd(engine, 0)) == 1);
    RETURNS(TICKLESS_E_FORKED, tickless_turn(engine, 0, 0, NULL));
    RETURNS(TICKLESS_E_FORKED, tickless_advance(engine, 0, NULL));
    OK(tickless_engine_free(engine));
}

static void a_child_cannot_drive_the_engine_of_its_parent(void) {
    tickless_engine *engine = manual_engine();
    int fd = tickless_eventfd(engine, 0);
    OK(tickless_turn(engine, 0, 0, NULL));
    OK(tickless_schedule(engine, 0, nothing, NULL, NULL, NULL));
    in_a_child(drive_copy, engine, NULL);
    /* The child has not taken the wake-up from its parent. */
    CHECK(is_readable(fd) == 1);
    OK(tickless_turn(engine, 0, 0, NULL));
    CHECK(is_readable(fd) == 0 && stats_of(engine).fired == 1);
    OK(tickless_engine_free(engine));
}

struct restless {
    tickless_engine *shared;
    struct count ended;
};

/* Makes all calls that take locks of the library's or the system's. */
static void *never_rest(void *user_data) {
    struct restless *restless = user_data;
    while (count_now(&restless->ended) == 0) {
        tickless_options options = {.size = sizeof options, .shards = 1};
        tickless_engine *own;
        tickless_timer timer;
        uint64_t deadline;
        options.clock = TICKLESS_CLOCK_MANUAL;
        OK(tickless_engine_new(&options, &own));
        OK(tickless_schedule(own, 0, nothing, NULL, NULL, NULL));
        CHECK(advance(own, 0) == 1);
        OK(tickless_schedule(restless->shared, HOUR, nothing, NULL, NULL, &timer));
        OK(tickless_timer_deadline_ns(&timer, &deadline));
        RETURNS(1, tickless_timer_cancel(&timer));
        OK(tickless_schedule(restless->shared, 0, nothing, NULL, NULL, NULL));
        (void)stats_of(restless->shared);
        OK(tickless_engine_free(own));
    }
    return NULL;
}

static void use_own(tickless_engine *engine, tickless_timer *timer) {
    struct count fired = COUNT_INIT;
    tickless_engine *own;
    uint64_t now;
    (void)timer;
    alarm(60);
    RETURNS(TICKLESS_E_STOPPED, tickless_schedule(engine, 0, nothing, NULL, NULL, NULL));
    OK(tickless_now_ns(engine, &now));
    OK(tickless_engine_free(engine));
    OK(tickless_engine_new(NULL, &own));
    OK(tickless_schedule(own, 0, count_one, &fired, NULL, NULL));
    count_wait(&fired, 1);
    OK(tickless_engine_free(own));
}

/* What other threads have locked at that moment stays locked in the child. */
static void children_of_a_busy_process_have_engines_of_their_own(void) {
    struct restless restless = {NULL, COUNT_INIT};
    pthread_t threads[3];
    int i;
    OK(tickless_engine_new(NULL, &restless.shared));
    for (i = 0; i < 3; i++) {
        CHECK(pthread_create(&threads[i], NULL, never_rest, &restless) == 0);
    }
    for (i = 0; i < 100; i++) {
        in_a_child(use_own, restless.shared, NULL);
    }
    count_add(&restless.ended, 1);
    for (i = 0; i < 3; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    OK(tickless_engine_free(restless.shared));
}

struct mover {
    tickless_timer timer;
    struct count ended;
};

static void *move_on_and_on(void *user_data) {
    struct mover *mover = user_data;
    uint64_t later = HOUR;
    while (count_now(&mover->ended) == 0) {
        int i;
        for (i = 0; i < 1000; i++) {
            OK(tickless_timer_reset(&mover->timer, later++));
        }
    }
    return NULL;
}

static void end_what_another_moves(tickless_engine *engine, tickless_timer *timer) {
    int ended;
    alarm(60);
    ended = tickless_timer_cancel(timer);
    CHECK(ended == 1 || ended == TICKLESS_E_FORKED);
    OK(tickless_engine_free(engine));
}

/* A thread that is in the middle of a call does not go on in the child, which does not wait for it. */
static void a_child_ends_its_copy_of_a_timer_that_a_thread_of_its_parent_moves(void) {
    struct mover mover = {{{0}}, COUNT_INIT};
    tickless_engine *engine;
    pthread_t thread;
    int i;
    OK(tickless_engine_new(NULL, &engine));
    OK(tickless_schedule(engine, HOUR, nothing, NULL, NULL, &mover.timer));
    CHECK(pthread_create(&thread, NULL, move_on_and_on, &mover) == 0);
    for (i = 0; i < 100; i++) {
        in_a_child(end_what_another_moves, engine, &mover.timer);
    }
    count_add(&mover.ended, 1);
    CHECK(pthread_join(thread, NULL) == 0);
    RETURNS(1, tickless_timer_cancel(&mover.timer));
    OK(tickless_engine_free(engine));
}

static void a_child_process_can_end_its_copy_of_a_scope(void) {
    tickless_engine *engine;
    struct count released = COUNT_INIT;
    tickless_scope scope;
    pid_t child;
    int status;
    OK(tickless_engine_new(NULL, &engine));
    OK(tickless_scope_init(engine, &scope));
    OK(tickless_scope_schedule(&scope, HOUR, count_nothing, &released, count_one, NULL));
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        RETURNS(TICKLESS_E_STOPPED,
                tickless_scope_schedule(&scope, HOUR, count_nothing, &released, count_one, NULL));
        OK(tickless_scope_end(&scope, TICKLESS_NEVER));
        CHECK(count_now(&released) == 2);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(count_now(&released) == 0);
    OK(tickless_scope_end(&scope, TICKLESS_NEVER));
    OK(tickless_engine_free(engine));
}

static tickless_scope untold_scope;

/* A child of which the C library tells nobody. */
static void use_copies_untold(tickless_engine *engine, tickless_timer *timers) {
    const tickless_when when = {HOUR, 0, TICKLESS_WAITABLE};
    tickless_engine *own;
    tickless_timer timer;
    uint64_t now;
    int released = 0;
    alarm(60);
    RETURNS(TICKLESS_E_FORKED, tickless_engine_stop(engine, TICKLESS_NEVER, NULL, NULL));
    RETURNS(TICKLESS_E_FORKED, tickless_schedule(engine, HOUR, nothing, &released, release, &timer));
    RETURNS(TICKLESS_E_FORKED, tickless_schedule(engine, HOUR, nothing, &released, release, NULL));
    RETURNS(TICKLESS_E_FORKED,
            tickless_schedule_when(engine, &when, nothing, &released, release, &timer));
    RETURNS(TICKLESS_E_FORKED,
            tickless_schedule_repeating(engine, NULL, HOUR, nothing, &released, release, &timer));
    RETURNS(TICKLESS_E_FORKED,
            tickless_timer_restart(engine, &timers[0], HOUR, nothing, &released, release));
    RETURNS(TICKLESS_E_FORKED,
            tickless_scope_schedule(&untold_scope, HOUR, nothing, &released, release, NULL));
    CHECK(released == 6);
    RETURNS(TICKLESS_E_FORKED, tickless_timer_reset(&timers[0], MS));
    RETURNS(TICKLESS_E_FORKED, tickless_now_ns(engine, &now));
    RETURNS(1, tickless_timer_cancel_wait(&timers[1], TICKLESS_NEVER));
    RETURNS(1, tickless_timer_cancel(&timers[0]));
    OK(tickless_engine_free(engine));
    RETURNS(TICKLESS_E_FORKED, tickless_engine_new(NULL, &own));
    CHECK(own == NULL);
}

static void free_untold(tickless_engine *engine, tickless_timer *timers) {
    (void)timers;
    alarm(60);
    OK(tickless_engine_free(engine));
}

static void wait_untold(tickless_engine *engine, tickless_timer *timers) {
    (void)engine;
    alarm(60);
    RETURNS(TICKLESS_E_FORKED, tickless_timer_cancel_wait(&timers[2], TICKLESS_NEVER));
}

static struct count waits = COUNT_INIT, may_end = COUNT_INIT;

static void wait_to_end(void *user_data) {
    (void)user_data;
    count_add(&waits, 1);
    count_wait(&may_end, 1);
}

static void a_child_of_which_nobody_is_told_does_not_wait_for_its_parents_threads(void) {
    void (*const uses[])(tickless_engine *, tickless_timer *) = {use_copies_untold, free_untold,
                                                                 wait_untold};
    const tickless_when when = {HOUR, 0, TICKLESS_WAITABLE}, now = {0, 0, TICKLESS_WAITABLE};
    tickless_engine *engine;
    tickless_timer timers[3];
    int i, status;
    OK(tickless_engine_new(NULL, &engine));
    OK(tickless_schedule(engine, HOUR, nothing, NULL, NULL, &timers[0]));
    OK(tickless_schedule_when(engine, &when, nothing, NULL, NULL, &timers[1]));
    OK(tickless_schedule_when(engine, &now, wait_to_end, NULL, NULL, &timers[2]));
    OK(tickless_scope_init(engine, &untold_scope));
    count_wait(&waits, 1);
    for (i = 0; i < 3; i++) {
        pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        CHECK(child >= 0);
        if (child == 0) {
            uses[i](engine, timers);
            _exit(0);
        }
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    count_add(&may_end, 1);
    RETURNS(1, tickless_timer_cancel(&timers[0]));
    RETURNS(1, tickless_timer_cancel(&timers[1]));
    RETURNS(0, tickless_timer_cancel_wait(&timers[2], TICKLESS_NEVER));
    OK(tickless_scope_end(&untold_scope, TICKLESS_NEVER));
    OK(tickless_engine_free(engine));
}

int main(void) {
    RUN(a_child_lets_go_of_its_copies_and_has_engines_of_its_own);
    RUN(a_child_cannot_drive_the_engine_of_its_parent);
    RUN(a_child_process_can_end_its_copy_of_a_scope);
    RUN(a_child_of_which_nobody_is_told_does_not_wait_for_its_parents_threads);
#ifdef IS_SANITIZED
    (void)children_of_a_busy_process_have_engines_of_their_own;
    (void)a_child_ends_its_copy_of_a_timer_that_a_thread_of_its_parent_moves;
#else
    RUN(a_child_ends_its_copy_of_a_timer_that_a_thread_of_its_parent_moves);
    RUN(children_of_a_busy_process_have_engines_of_their_own);
#endif
    return 0;
}
