/* One function of the caller's runs all timers that are due together. */
#include "check.h"

struct batches {
    struct count begun, ended, run, released;
    /* How many it runs itself; -1: all. */
    long limit;
    tickless_engine *engine;
    tickless_batch *batch;
    long inside;
};

static void run_batch(void *context, tickless_batch *batch) {
    struct batches *batches = context;
    long n;
    count_one(&batches->begun);
    batches->batch = batch;
    for (n = 0; n != batches->limit && tickless_batch_run(batch) == 1; n++) {
    }
    batches->batch = NULL;
    count_one(&batches->ended);
}

static tickless_engine *engine_with(struct batches *batches, uint32_t clock) {
    tickless_options options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.shards = 1;
    options.clock = clock;
    options.takeover_ns = TICKLESS_NEVER;
    options.on_batch = run_batch;
    options.on_batch_data = batches;
    OK(tickless_engine_new(&options, &batches->engine));
    return batches->engine;
}

static const struct batches none = {
    COUNT_INIT, COUNT_INIT, COUNT_INIT, COUNT_INIT, -1, NULL, NULL, 0};

static void timers_that_are_due_together_are_run_by_one_call(void) {
    struct batches batches = none;
    tickless_engine *engine = engine_with(&batches, TICKLESS_CLOCK_MANUAL);
    const tickless_when waitable = {SECOND, 0, TICKLESS_WAITABLE}, now = {SECOND, 0, 0};
    tickless_timer timers[2], repeating;
    tickless_scope scope;
    int i;
    for (i = 0; i < 100; i++) {
        OK(tickless_schedule(engine, SECOND, count_one, &batches.run, NULL, NULL));
    }
    OK(tickless_schedule_when(engine, &waitable, count_one, &batches.run, NULL, &timers[0]));
    OK(tickless_schedule(engine, SECOND, count_one, &batches.run, NULL, &timers[1]));
    OK(tickless_schedule_repeating(engine, &now, SECOND, count_one, &batches.run, NULL, &repeating));
    OK(tickless_scope_init(engine, &scope));
    OK(tickless_scope_schedule(&scope, SECOND, count_one, &batches.run, NULL, NULL));
    CHECK(advance(engine, SECOND) == 104);
    CHECK(count_now(&batches.run) == 104 && count_now(&batches.begun) == 1);
    CHECK(advance(engine, SECOND) == 1);
    CHECK(count_now(&batches.run) == 105 && count_now(&batches.begun) == 2);
    OK(tickless_timer_cancel(&timers[1]));
    RETURNS(0, tickless_timer_cancel_wait(&timers[0], TICKLESS_NEVER));
    RETURNS(1, tickless_timer_cancel(&repeating));
    OK(tickless_scope_end(&scope, TICKLESS_NEVER));
    OK(tickless_engine_free(engine));
    RETURNS(TICKLESS_E_NULL, tickless_batch_run(NULL));
}

static void what_the_function_leaves_is_run_after_it(void) {
    long limit;
    for (limit = 0; limit < 7; limit += 3) {
        struct batches batches = none;
        tickless_engine *engine = engine_with(&batches, TICKLESS_CLOCK_MANUAL);
        int i;
        batches.limit = limit;
        for (i = 0; i < 5; i++) {
            OK(tickless_schedule(engine, SECOND, count_one, &batches.run, NULL, NULL));
            OK(tickless_schedule(engine, SECOND, count_nothing, &batches.released, count_one, NULL));
        }
        CHECK(advance(engine, SECOND) == 10);
        CHECK(count_now(&batches.run) == 5 && count_now(&batches.released) == 5);
        OK(tickless_engine_free(engine));
    }
}

/* Runs the rest of its batch, and schedules and cancels. */
static void use_batch(void *user_data) {
    struct batches *batches = user_data;
    tickless_timer timer;
    count_one(&batches->run);
    OK(tickless_schedule(batches->engine, HOUR, count_nothing, &batches->released, count_one, &timer));
    RETURNS(1, tickless_timer_cancel(&timer));
    RETURNS(TICKLESS_E_INSIDE_TASK, tickless_engine_free(batches->engine));
    while (tickless_batch_run(batches->batch) == 1) {
        batches->inside++;
    }
}

static void a_callback_may_run_the_rest_of_its_batch(void) {
    struct batches batches = none;
    tickless_engine *engine = engine_with(&batches, TICKLESS_CLOCK_MANUAL);
    int i;
    for (i = 0; i < 5; i++) {
        OK(tickless_schedule(engine, SECOND, use_batch, &batches, NULL, NULL));
    }
    CHECK(advance(engine, SECOND) == 5);
    CHECK(count_now(&batches.run) == 5 && batches.inside == 4);
    CHECK(count_now(&batches.released) == 5);
    OK(tickless_engine_free(engine));
}

static struct count may_end = COUNT_INIT, waits = COUNT_INIT;

static void wait_inside(void *user_data) {
    struct batches *batches = user_data;
    count_one(&batches->run);
    count_one(&waits);
    count_wait(&may_end, 1);
}

static void *stop_it(void *user_data) {
    tickless_engine *engine = user_data;
    OK(tickless_engine_stop(engine, TICKLESS_NEVER, NULL, NULL));
    return NULL;
}

static void a_stop_ends_the_batch_and_releases_the_rest_once(void) {
    struct batches batches = none;
    tickless_engine *engine = engine_with(&batches, TICKLESS_CLOCK_SYSTEM);
    uint64_t now;
    pthread_t thread;
    int i;
    OK(tickless_now_ns(engine, &now));
    for (i = 0; i < 50; i++) {
        const tickless_when when = {now + 20 * MS, 0, TICKLESS_AT};
        OK(tickless_schedule_when(engine, &when, wait_inside, &batches, NULL, NULL));
        OK(tickless_schedule_when(engine, &when, count_nothing, &batches.released, count_one, NULL));
    }
    count_wait(&waits, 1);
    CHECK(pthread_create(&thread, NULL, stop_it, engine) == 0);
    /* From then on, nothing is scheduled, and no callback begins. */
    while (tickless_schedule(engine, HOUR, count_nothing, NULL, NULL, NULL) == TICKLESS_OK) {
    }
    count_one(&may_end);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(count_now(&batches.run) == 1 && count_now(&batches.released) == 50);
    CHECK(count_now(&batches.ended) == count_now(&batches.begun));
    OK(tickless_engine_free(engine));
}

int main(void) {
    RUN(timers_that_are_due_together_are_run_by_one_call);
    RUN(what_the_function_leaves_is_run_after_it);
    RUN(a_callback_may_run_the_rest_of_its_batch);
    RUN(a_stop_ends_the_batch_and_releases_the_rest_once);
    return 0;
}
