/* An engine with threads of its own: callbacks that use it, stops, waits, and threads that end. */
#include "check.h"

static tickless_engine *threaded_engine(void) {
    tickless_options options = {.size = sizeof options, .shards = 1};
    tickless_engine *engine;
    OK(tickless_engine_new(&options, &engine));
    return engine;
}

/* A callback that says that it has begun, and waits until it may end. */
struct gate {
    struct count begun, may_end, released;
};

#define GATE_INIT {COUNT_INIT, COUNT_INIT, COUNT_INIT}

static void pass_gate(void *user_data) {
    struct gate *gate = user_data;
    count_add(&gate->begun, 1);
    count_wait(&gate->may_end, 1);
}

static void release_gate(void *user_data) {
    struct gate *gate = user_data;
    count_add(&gate->released, 1);
}

static uint64_t monotonic_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * SECOND + (uint64_t)time.tv_nsec;
}

struct punctual {
    uint64_t deadline;
    struct count early, fired;
};

static void look_at_the_clock(void *user_data) {
    struct punctual *punctual = user_data;
    if (monotonic_ns() < punctual->deadline) {
        count_one(&punctual->early);
    }
    count_one(&punctual->fired);
}

static void no_timer_is_early_by_the_clock_of_the_system(void) {
    tickless_engine *engine = threaded_engine();
    struct punctual punctual[100];
    int i;
    for (i = 0; i < 100; i++) {
        const struct punctual none = {0, COUNT_INIT, COUNT_INIT};
        uint64_t delay = (uint64_t)i * MS / 10;
        punctual[i] = none;
        punctual[i].deadline = monotonic_ns() + delay;
        if (i % 2 == 0) {
            OK(tickless_schedule(engine, delay, look_at_the_clock, &punctual[i], NULL, NULL));
        } else {
            const tickless_when when = {punctual[i].deadline, 0, TICKLESS_AT};
            OK(tickless_schedule_when(engine, &when, look_at_the_clock, &punctual[i], NULL, NULL));
        }
    }
    for (i = 0; i < 100; i++) {
        count_wait(&punctual[i].fired, 1);
        CHECK(count_now(&punctual[i].early) == 0);
    }
    OK(tickless_engine_free(engine));
}

static void the_engines_time_is_that_of_the_system(void) {
    tickless_engine *engine = threaded_engine();
    uint64_t before = monotonic_ns(), now, after;
    OK(tickless_now_ns(engine, &now));
    after = monotonic_ns();
    /* Less than a microsecond may lie between the first readings of the two. */
    CHECK(now + MS >= before && now <= after);
    OK(tickless_engine_free(engine));
}

struct inside {
    tickless_engine *engine;
    tickless_timer timer, other;
    struct count may_begin, done;
};

static void use_everything(void *user_data) {
    struct inside *inside = user_data;
    tickless_engine *another;
    count_wait(&inside->may_begin, 1);
    RETURNS(TICKLESS_E_INSIDE_TASK, tickless_engine_stop(inside->engine, 0, NULL, NULL));
    RETURNS(TICKLESS_E_INSIDE_TASK, tickless_engine_free(inside->engine));
    RETURNS(TICKLESS_E_INSIDE_TASK, tickless_timer_cancel_wait(&inside->timer, TICKLESS_NEVER));
    RETURNS(TICKLESS_STATE_RUNNING, tickless_timer_state(&inside->timer));
    RETURNS(TICKLESS_E_TOO_LATE, tickless_timer_reset(&inside->timer, MS));
    OK(tickless_timer_reset(&inside->other, MS));
    OK(tickless_schedule(inside->engine, 0, count_one, &inside->done, NULL, NULL));
    RETURNS(TICKLESS_E_DRIVEN, tickless_turn(inside->engine, 0, 0, NULL));
    RETURNS(TICKLESS_E_NOT_MANUAL, tickless_advance(inside->engine, 0, NULL));
    RETURNS(TICKLESS_E_NOT_MANUAL, tickless_clock_advance(inside->engine, 0));
    another = threaded_engine();
    OK(tickless_engine_free(another));
    OK(tickless_timer_detach(&inside->timer));
    count_add(&inside->done, 1);
}

static void a_callback_may_do_anything_but_wait_for_itself(void) {
    const tickless_when when = {0, 0, TICKLESS_WAITABLE};
    struct inside inside = {0};
    const struct count none = COUNT_INIT;
    inside.engine = threaded_engine();
    inside.may_begin = none;
    inside.done = none;
    OK(tickless_schedule(inside.engine, HOUR, count_one, &inside.done, NULL, &inside.other));
    OK(tickless_schedule_when(inside.engine, &when, use_everything, &inside, NULL,
                              &inside.timer));
    count_add(&inside.may_begin, 1);
    count_wait(&inside.done, 3);
    OK(tickless_timer_detach(&inside.other));
    OK(tickless_engine_free(inside.engine));
}

static void a_wait_ends_when_the_callback_has_returned_and_its_data_was_released(void) {
    const tickless_when when = {0, 0, TICKLESS_WAITABLE};
    struct gate gate = GATE_INIT;
    tickless_engine *engine = threaded_engine();
    tickless_timer timer;
    OK(tickless_schedule_when(engine, &when, pass_gate, &gate, release_gate, &timer));
    count_wait(&gate.begun, 1);
    RETURNS(TICKLESS_E_TIMED_OUT, tickless_timer_cancel_wait(&timer, 0));
    RETURNS(TICKLESS_E_TIMED_OUT, tickless_timer_cancel_wait(&timer, MS));
    RETURNS(TICKLESS_STATE_RUNNING, tickless_timer_state(&timer));
    CHECK(count_now(&gate.released) == 0);
    count_add(&gate.may_end, 1);
    RETURNS(0, tickless_timer_cancel_wait(&timer, TICKLESS_NEVER));
    CHECK(count_now(&gate.released) == 1);
    RETURNS(TICKLESS_E_HANDLE, tickless_timer_cancel_wait(&timer, TICKLESS_NEVER));
    OK(tickless_engine_free(engine));
}

static void a_stop_with_a_limit_tells_that_a_callback_runs(void) {
    struct gate gate = GATE_INIT;
    tickless_engine *engine = threaded_engine();
    OK(tickless_schedule(engine, 0, pass_gate, &gate, release_gate, NULL));
    count_wait(&gate.begun, 1);
    RETURNS(TICKLESS_E_TIMED_OUT, tickless_engine_stop(engine, MS, NULL, NULL));
    RETURNS(TICKLESS_E_STOPPED, tickless_schedule(engine, 0, pass_gate, &gate, NULL, NULL));
    count_add(&gate.may_end, 1);
    OK(tickless_engine_stop(engine, TICKLESS_NEVER, NULL, NULL));
    CHECK(count_now(&gate.released) == 1);
    OK(tickless_engine_free(engine));
}

static void after_a_stop_that_gave_up_the_free_does_not_wait(void) {
    struct gate gate = GATE_INIT;
    tickless_engine *engine = threaded_engine();
    OK(tickless_schedule(engine, 0, pass_gate, &gate, release_gate, NULL));
    count_wait(&gate.begun, 1);
    RETURNS(TICKLESS_E_TIMED_OUT, tickless_engine_stop(engine, 0, NULL, NULL));
    OK(tickless_engine_free(engine));
    CHECK(count_now(&gate.released) == 0);
    count_add(&gate.may_end, 1);
    count_wait(&gate.released, 1);
}

struct worker {
    tickless_engine *engine;
    struct count *fired;
    uint64_t cancelled;
};

static void *work(void *user_data) {
    struct worker *worker = user_data;
    tickless_timer timers[64];
    int round, i;
    for (round = 0; round < 20; round++) {
        for (i = 0; i < 64; i++) {
            uint64_t delay = i % 3 == 0 ? 0 : HOUR;
            OK(tickless_schedule(worker->engine, delay, count_one, worker->fired, NULL,
                                 &timers[i]));
        }
        for (i = 0; i < 64; i++) {
            if (i % 5 == 0) {
                OK(tickless_timer_detach(&timers[i]));
            } else {
                int cancelled = tickless_timer_cancel(&timers[i]);
                CHECK(cancelled == 0 || cancelled == 1);
                worker->cancelled += (uint64_t)cancelled;
            }
        }
    }
    return NULL;
}

static void threads_that_end_leave_nothing(void) {
    struct count fired = COUNT_INIT;
    tickless_engine *engine = threaded_engine();
    uint64_t cancelled = 0;
    tickless_stats_info stats;
    int generation, i;
    for (generation = 0; generation < 4; generation++) {
        pthread_t threads[4];
        struct worker workers[4];
        for (i = 0; i < 4; i++) {
            const struct worker worker = {engine, &fired, 0};
            workers[i] = worker;
            CHECK(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
        }
        for (i = 0; i < 4; i++) {
            CHECK(pthread_join(threads[i], NULL) == 0);
            cancelled += workers[i].cancelled;
        }
    }
    OK(tickless_engine_stop(engine, TICKLESS_NEVER, NULL, NULL));
    stats = stats_of(engine);
    CHECK(stats.scheduled == 4 * 4 * 20 * 64 && stats.cancelled == cancelled);
    CHECK(stats.fired == (uint64_t)count_now(&fired) && stats.pending == 0);
    CHECK(stats.scheduled == stats.cancelled + stats.fired + stats.returned);
    OK(tickless_engine_free(engine));
}

static pthread_key_t key;

/* The end of a thread: its other thread-locals may be gone. */
static void use_at_the_end(void *engine) {
    tickless_timer timer;
    OK(tickless_schedule(engine, HOUR, count_one, NULL, NULL, &timer));
    RETURNS(1, tickless_timer_cancel(&timer));
    RETURNS(TICKLESS_E_HANDLE, tickless_timer_cancel(&timer));
    CHECK(strlen(tickless_last_error()) > 0);
}

static void *end_with_a_value(void *engine) {
    tickless_timer timer;
    OK(tickless_schedule(engine, HOUR, count_one, NULL, NULL, &timer));
    RETURNS(1, tickless_timer_cancel(&timer));
    CHECK(pthread_setspecific(key, engine) == 0);
    return NULL;
}

static void a_thread_may_use_an_engine_while_it_ends(void) {
    tickless_engine *engine = threaded_engine();
    pthread_t thread;
    int i;
    CHECK(pthread_key_create(&key, use_at_the_end) == 0);
    for (i = 0; i < 10; i++) {
        CHECK(pthread_create(&thread, NULL, end_with_a_value, engine) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    CHECK(pthread_key_delete(key) == 0);
    CHECK(stats_of(engine).cancelled == 20);
    OK(tickless_engine_free(engine));
}

int main(void) {
    RUN(no_timer_is_early_by_the_clock_of_the_system);
    RUN(the_engines_time_is_that_of_the_system);
    RUN(a_callback_may_do_anything_but_wait_for_itself);
    RUN(a_wait_ends_when_the_callback_has_returned_and_its_data_was_released);
    RUN(a_stop_with_a_limit_tells_that_a_callback_runs);
    RUN(after_a_stop_that_gave_up_the_free_does_not_wait);
    RUN(threads_that_end_leave_nothing);
    RUN(a_thread_may_use_an_engine_while_it_ends);
    return 0;
}
