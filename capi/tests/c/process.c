/* Forks: what a child can do with the engine of its parent. */
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

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

static void use_copies(tickless_engine *engine, tickless_timer *timers) {
    struct count fired = COUNT_INIT;
    tickless_engine *own;
    int released = 0;
    alarm(60);
    RETURNS(TICKLESS_E_STOPPED, tickless_schedule(engine, 0, nothing, &released, release, NULL));
    CHECK(released == 1);
    RETURNS(TICKLESS_E_STOPPED, tickless_timer_reset(&timers[0], MS));
    RETURNS(1, tickless_timer_cancel(&timers[0]));
    RETURNS(1, tickless_timer_cancel_wait(&timers[1], TICKLESS_NEVER));
    RETURNS(TICKLESS_E_FORKED, tickless_engine_stop(engine, TICKLESS_NEVER, NULL, NULL));
    RETURNS(TICKLESS_E_FORKED, tickless_bind_thread(engine, 0));
    OK(tickless_engine_free(engine));
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
    in_a_child(use_copies, engine, timers);
    CHECK(released == 0);
    RETURNS(1, tickless_timer_cancel(&timers[0]));
    RETURNS(1, tickless_timer_cancel_wait(&timers[1], TICKLESS_NEVER));
    CHECK(released == 2);
    OK(tickless_engine_free(engine));
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

int main(void) {
    RUN(a_child_lets_go_of_its_copies_and_has_engines_of_its_own);
    RUN(a_child_cannot_drive_the_engine_of_its_parent);
    return 0;
}
