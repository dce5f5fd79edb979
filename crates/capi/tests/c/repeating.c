/* Timers that repeat by themselves: their rates and pauses, every way to end them, and the count of fired
 * timers that nobody has ended. */
#include "check.h"

static const tickless_when *first_at(tickless_when *when, uint64_t time_ns, uint64_t flags) {
    when->time_ns = time_ns;
    when->slack_ns = 0;
    when->flags = flags;
    return when;
}

struct runs {
    tickless_engine *engine;
    tickless_timer *timer;
    uint64_t times[16];
    uint64_t begun, takes_ns, n, last;
    int released;
};

static void released(void *user_data) {
    ((struct runs *)user_data)->released++;
}

static void run(void *user_data) {
    struct runs *runs = user_data;
    uint64_t now;
    OK(tickless_now_ns(runs->engine, &now));
    runs->times[runs->n++ % 16] = now - runs->begun;
    if (runs->takes_ns > 0) {
        OK(tickless_clock_advance(runs->engine, runs->takes_ns));
    }
    if (runs->n == runs->last) {
        /* The only end that it has. */
        RETURNS(1, tickless_timer_cancel(runs->timer));
        CHECK(runs->released == 0);
    }
}

static struct runs runs_of(tickless_engine *engine, tickless_timer *timer) {
    struct runs runs;
    memset(&runs, 0, sizeof runs);
    runs.engine = engine;
    runs.timer = timer;
    OK(tickless_now_ns(engine, &runs.begun));
    return runs;
}

static void a_rate_does_not_drift_and_leaves_out_what_it_has_missed(void) {
    tickless_engine *engine = manual_engine();
    tickless_timer timer;
    struct runs runs = runs_of(engine, &timer);
    tickless_when first;
    OK(tickless_schedule_repeating(engine, NULL, 10 * MS, run, &runs, released, &timer));
    RETURNS(TICKLESS_STATE_PENDING, tickless_timer_state(&timer));
    CHECK(advance(engine, 1000 * MS) == 100 && runs.n == 100);
    RETURNS(1, tickless_timer_cancel(&timer));
    CHECK(runs.released == 1);
    RETURNS(TICKLESS_E_HANDLE, tickless_timer_cancel(&timer));
    CHECK(advance(engine, SECOND) == 0);

    /* From a time on, and with runs that take two periods and a half. */
    runs = runs_of(engine, &timer);
    runs.takes_ns = 25 * MS;
    OK(tickless_schedule_repeating(engine, first_at(&first, runs.begun + 5 * MS, TICKLESS_AT), 10 * MS, run,
                                   &runs, released, &timer));
    while (runs.n < 3) {
        advance(engine, MS);
    }
    CHECK(runs.times[0] == 5 * MS && runs.times[1] == 35 * MS && runs.times[2] == 65 * MS);
    RETURNS(1, tickless_timer_cancel(&timer));
    CHECK(runs.released == 1);
    OK(tickless_engine_free(engine));
}

static void a_fixed_delay_is_a_pause_between_runs(void) {
    tickless_engine *engine = manual_engine();
    tickless_timer timer;
    struct runs runs = runs_of(engine, &timer);
    tickless_when first;
    uint64_t deadline, now;
    runs.takes_ns = 25 * MS;
    OK(tickless_schedule_repeating(engine, first_at(&first, 0, TICKLESS_FIXED_DELAY), 10 * MS, run, &runs,
                                   released, &timer));
    while (runs.n < 3) {
        advance(engine, MS);
    }
    CHECK(runs.times[0] == 0 && runs.times[1] == 35 * MS && runs.times[2] == 70 * MS);
    OK(tickless_now_ns(engine, &now));
    OK(tickless_timer_deadline_ns(&timer, &deadline));
    CHECK(deadline > now && deadline <= now + 10 * MS);
    RETURNS(1, tickless_timer_cancel_wait(&timer, TICKLESS_NEVER));
    CHECK(runs.released == 1);
    OK(tickless_engine_free(engine));
}

static void a_timer_is_ended_by_its_own_callback_which_may_free_it(void) {
    tickless_engine *engine = manual_engine();
    tickless_timer timer;
    struct runs runs = runs_of(engine, &timer);
    runs.last = 3;
    OK(tickless_schedule_repeating(engine, NULL, MS, run, &runs, released, &timer));
    CHECK(advance(engine, SECOND) == 3 && runs.n == 3 && runs.released == 1);
    RETURNS(TICKLESS_E_HANDLE, tickless_timer_cancel(&timer));
    CHECK(stats_of(engine).pending == 0 && stats_of(engine).unended == 0);
    OK(tickless_engine_free(engine));
}

/* Whatever it is in the middle of. */
static void each_way_to_end_it_releases_its_user_data_once(void) {
    tickless_engine *engine = manual_engine();
    tickless_timer timer;
    struct runs runs = runs_of(engine, &timer);
    void *user_data = &runs;
    memset(&timer, 0, sizeof timer);
#define START() OK(tickless_schedule_repeating(engine, NULL, SECOND, run, &runs, released, &timer))
    START();
    RETURNS(0, tickless_timer_take(&timer, &user_data));
    CHECK(user_data == NULL && runs.released == 1);
    START();
    OK(tickless_timer_restart(engine, &timer, SECOND, count_nothing, NULL, NULL));
    CHECK(runs.released == 2);
    RETURNS(1, tickless_timer_cancel(&timer));
    START();
    RETURNS(TICKLESS_E_ARGUMENT, tickless_timer_reset(&timer, SECOND));
    OK(tickless_timer_detach(&timer));
    CHECK(runs.released == 2 && advance(engine, 2 * SECOND) == 2 && runs.n == 2);
    START();
    OK(tickless_schedule_repeating(engine, NULL, SECOND, run, &runs, released, NULL));
    OK(tickless_engine_stop(engine, TICKLESS_NEVER, NULL, NULL));
    CHECK(runs.released == 5);
    RETURNS(TICKLESS_STATE_STOPPED, tickless_timer_state(&timer));
    RETURNS(0, tickless_timer_cancel(&timer));
    CHECK(runs.released == 5);
    OK(tickless_engine_free(engine));
}

/* A place for the user data, in the user data. */
struct placed {
    void *taken;
    struct count *released;
};

static void release_placed(void *user_data) {
    struct placed *placed = user_data;
    CHECK(placed->taken == NULL);
    count_one(placed->released);
    free(placed);
}

static void a_take_that_is_too_late_stores_null_before_it_releases_the_user_data(void) {
    tickless_engine *engine = manual_engine();
    struct count released = COUNT_INIT;
    struct placed *placed = malloc(sizeof *placed);
    tickless_timer timer;
    CHECK(placed != NULL);
    placed->taken = placed;
    placed->released = &released;
    OK(tickless_schedule_repeating(engine, NULL, SECOND, count_nothing, placed, release_placed,
                                   &timer));
    RETURNS(0, tickless_timer_take(&timer, &placed->taken));
    CHECK(count_now(&released) == 1);
    OK(tickless_engine_free(engine));
}

static void what_is_refused_is_released(void) {
    tickless_options options;
    tickless_engine *engine;
    tickless_timer timer;
    tickless_when first;
    struct runs runs;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.clock = TICKLESS_CLOCK_MANUAL;
    options.max_pending = 1;
    OK(tickless_engine_new(&options, &engine));
    runs = runs_of(engine, &timer);
#define REFUSED(code, engine, first, period, run)                                              \
    do {                                                                                       \
        int before = runs.released;                                                            \
        RETURNS(code, tickless_schedule_repeating(engine, first, period, run, &runs, released, &timer)); \
        CHECK(runs.released == before + 1);                                                    \
    } while (0)
    REFUSED(TICKLESS_E_NULL, NULL, NULL, SECOND, run);
    REFUSED(TICKLESS_E_NULL, engine, NULL, SECOND, NULL);
    REFUSED(TICKLESS_E_ARGUMENT, engine, NULL, 0, run);
    REFUSED(TICKLESS_E_ARGUMENT, engine, first_at(&first, 0, 64), SECOND, run);
    /* Only for what repeats. */
    RETURNS(TICKLESS_E_ARGUMENT, tickless_schedule_when(engine, first_at(&first, 0, TICKLESS_FIXED_DELAY), run,
                                                        &runs, NULL, &timer));
    OK(tickless_schedule(engine, HOUR, count_nothing, NULL, NULL, NULL));
    REFUSED(TICKLESS_E_FULL, engine, NULL, SECOND, run);
    RETURNS(TICKLESS_E_HANDLE, tickless_timer_state(&timer));
    OK(tickless_engine_stop(engine, TICKLESS_NEVER, NULL, NULL));
    REFUSED(TICKLESS_E_STOPPED, engine, NULL, SECOND, run);
    OK(tickless_engine_free(engine));
}

struct object {
    tickless_timer timer;
    struct count *ended;
    struct count runs;
    int *owned;
};

static void use_object(void *user_data) {
    struct object *object = user_data;
    ++*object->owned;
    count_add(&object->runs, 1);
}

static void end_object(void *user_data) {
    count_add(((struct object *)user_data)->ended, 1);
}

static void after_a_wait_no_run_uses_the_object(void) {
    tickless_options options;
    tickless_engine *engine;
    struct count ended = COUNT_INIT;
    int i;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.tick_ns = 10000;
    OK(tickless_engine_new(&options, &engine));
    for (i = 0; i < 300; i++) {
        struct object *object = calloc(1, sizeof *object);
        const struct count none = COUNT_INIT;
        CHECK(object != NULL && (object->owned = calloc(1, sizeof(int))) != NULL);
        object->ended = &ended;
        object->runs = none;
        OK(tickless_schedule_repeating(engine, NULL, 20000, use_object, object, end_object, &object->timer));
        count_wait(&object->runs, i % 3);
        RETURNS(1, tickless_timer_cancel_wait(&object->timer, TICKLESS_NEVER));
        CHECK(count_now(&ended) == i + 1);
        free(object->owned);
        free(object);
    }
    OK(tickless_engine_free(engine));
}

/* In its own callback a wait is an error, and ends it all the same. */
static void wait_inside(void *user_data) {
    struct object *object = user_data;
    RETURNS(TICKLESS_E_INSIDE_TASK, tickless_timer_cancel_wait(&object->timer, TICKLESS_NEVER));
    count_add(&object->runs, 1);
}

static void a_wait_in_its_own_callback_ends_it_without_waiting(void) {
    tickless_engine *engine = manual_engine();
    struct count ended = COUNT_INIT;
    struct object object;
    const struct count none = COUNT_INIT;
    object.ended = &ended;
    object.runs = none;
    OK(tickless_schedule_repeating(engine, NULL, SECOND, wait_inside, &object, end_object, &object.timer));
    CHECK(advance(engine, 9 * SECOND) == 1 && count_now(&object.runs) == 1 && count_now(&ended) == 1);
    RETURNS(TICKLESS_STATE_STOPPED, tickless_timer_state(&object.timer));
    RETURNS(0, tickless_timer_cancel_wait(&object.timer, TICKLESS_NEVER));
    OK(tickless_engine_free(engine));
}

static void fired_timers_that_nobody_ended_are_counted(void) {
    tickless_engine *engine = manual_engine();
    tickless_timer timers[10];
    tickless_timer again;
    int i;
    memset(&again, 0, sizeof again);
    for (i = 0; i < 10; i++) {
        OK(tickless_schedule(engine, i < 8 ? SECOND : HOUR, count_nothing, NULL, NULL, &timers[i]));
    }
    OK(tickless_schedule(engine, SECOND, count_nothing, NULL, NULL, NULL));
    OK(tickless_timer_restart(engine, &again, SECOND, count_nothing, NULL, NULL));
    CHECK(stats_of(engine).unended == 0);
    CHECK(advance(engine, SECOND) == 10);
    CHECK(stats_of(engine).unended == 9);
    RETURNS(0, tickless_timer_cancel(&timers[0]));
    OK(tickless_timer_detach(&timers[1]));
    OK(tickless_timer_restart(engine, &again, SECOND, count_nothing, NULL, NULL));
    CHECK(stats_of(engine).unended == 6);
    RETURNS(1, tickless_timer_cancel(&timers[9]));
    OK(tickless_timer_detach(&timers[8]));
    CHECK(stats_of(engine).unended == 6);
    RETURNS(1, tickless_timer_cancel(&again));
    for (i = 2; i < 8; i++) {
        OK(tickless_timer_detach(&timers[i]));
    }
    CHECK(stats_of(engine).unended == 0);
    /* What a stop returns has not fired. */
    OK(tickless_schedule(engine, SECOND, count_nothing, NULL, NULL, &timers[0]));
    OK(tickless_engine_stop(engine, TICKLESS_NEVER, NULL, NULL));
    CHECK(stats_of(engine).unended == 0);
    RETURNS(0, tickless_timer_cancel(&timers[0]));
    CHECK(stats_of(engine).unended == 0);
    OK(tickless_engine_free(engine));
}

int main(void) {
    RUN(a_rate_does_not_drift_and_leaves_out_what_it_has_missed);
    RUN(a_fixed_delay_is_a_pause_between_runs);
    RUN(a_timer_is_ended_by_its_own_callback_which_may_free_it);
    RUN(each_way_to_end_it_releases_its_user_data_once);
    RUN(a_take_that_is_too_late_stores_null_before_it_releases_the_user_data);
    RUN(what_is_refused_is_released);
    RUN(after_a_wait_no_run_uses_the_object);
    RUN(a_wait_in_its_own_callback_ends_it_without_waiting);
    RUN(fired_timers_that_nobody_ended_are_counted);
    return 0;
}
