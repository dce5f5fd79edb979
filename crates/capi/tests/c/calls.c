/* Every call with what it must refuse; and user data is released once, however its timer ends. */
#include <sys/resource.h>

#include "check.h"

static int ran, released;

static void run(void *user_data) {
    (void)user_data;
    ran++;
}

static void release(void *user_data) {
    (void)user_data;
    released++;
}

/* How many were released by `call`, which returns `code`. */
#define RELEASES(n, code, call)                                                                \
    do {                                                                                       \
        int before_ = released;                                                                \
        RETURNS(code, call);                                                                   \
        CHECK(released - before_ == (n));                                                      \
    } while (0)

static void the_version_is_that_of_the_header(void) {
    CHECK(tickless_abi_version() == TICKLESS_ABI_VERSION);
    CHECK(strchr(tickless_version(), '.') != NULL);
}

static void every_code_has_a_text(void) {
    int code;
    for (code = TICKLESS_OK; code >= TICKLESS_E_PANIC; code--) {
        CHECK(strlen(tickless_strerror(code)) > 5);
        CHECK(strcmp(tickless_strerror(code), tickless_strerror(-1000)) != 0);
    }
    CHECK(strcmp(tickless_strerror(1), tickless_strerror(TICKLESS_OK)) == 0);
}

static void null_is_refused_where_it_must_not_be(void) {
    const tickless_when when = {0, 0, 0};
    tickless_engine *engine = manual_engine();
    tickless_timer timer;
    uint64_t n;
    void *user_data;
    tickless_stats_info stats = {.size = sizeof stats};
    tickless_overdue_info overdue = {.size = sizeof overdue};
    OK(tickless_schedule(engine, HOUR, run, NULL, NULL, &timer));
    RETURNS(TICKLESS_E_NULL, tickless_engine_new(NULL, NULL));
    RETURNS(TICKLESS_E_NULL, tickless_engine_stop(NULL, TICKLESS_NEVER, NULL, NULL));
    OK(tickless_engine_free(NULL));
    RETURNS(TICKLESS_E_NULL, tickless_now_ns(NULL, &n));
    RETURNS(TICKLESS_E_NULL, tickless_now_ns(engine, NULL));
    RELEASES(1, TICKLESS_E_NULL, tickless_schedule(NULL, 0, run, NULL, release, NULL));
    RELEASES(1, TICKLESS_E_NULL, tickless_schedule(engine, 0, NULL, NULL, release, NULL));
    RELEASES(1, TICKLESS_E_NULL, tickless_schedule_when(engine, NULL, run, NULL, release, NULL));
    RELEASES(1, TICKLESS_E_NULL, tickless_schedule_when(NULL, &when, run, NULL, release, NULL));
    RELEASES(1, TICKLESS_E_NULL, tickless_schedule_when(engine, &when, NULL, NULL, release, NULL));
    RETURNS(TICKLESS_E_NULL, tickless_timer_cancel(NULL));
    RETURNS(TICKLESS_E_NULL, tickless_timer_take(NULL, &user_data));
    RETURNS(TICKLESS_E_NULL, tickless_timer_take(&timer, NULL));
    RETURNS(TICKLESS_E_NULL, tickless_timer_cancel_wait(NULL, 0));
    OK(tickless_timer_detach(NULL));
    RETURNS(TICKLESS_E_NULL, tickless_timer_reset(NULL, 0));
    RETURNS(TICKLESS_E_NULL, tickless_timer_reset_when(NULL, &when));
    RETURNS(TICKLESS_E_NULL, tickless_timer_reset_when(&timer, NULL));
    RETURNS(TICKLESS_E_NULL, tickless_timer_state(NULL));
    RETURNS(TICKLESS_E_NULL, tickless_timer_deadline_ns(NULL, &n));
    RETURNS(TICKLESS_E_NULL, tickless_timer_deadline_ns(&timer, NULL));
    RETURNS(TICKLESS_E_NULL, tickless_turn(NULL, 0, 0, NULL));
    RETURNS(TICKLESS_E_NULL, tickless_eventfd(NULL, 0));
    RETURNS(TICKLESS_E_NULL, tickless_next_deadline_ns(NULL, 0, &n));
    RETURNS(TICKLESS_E_NULL, tickless_next_deadline_ns(engine, 0, NULL));
    RETURNS(TICKLESS_E_NULL, tickless_bind_thread(NULL, 0));
    RETURNS(TICKLESS_E_NULL, tickless_advance(NULL, 0, &n));
    RETURNS(TICKLESS_E_NULL, tickless_clock_advance(NULL, 0));
    RETURNS(TICKLESS_E_NULL, tickless_stats(NULL, &stats));
    RETURNS(TICKLESS_E_NULL, tickless_stats(engine, NULL));
    RETURNS(TICKLESS_E_NULL, tickless_overdue(NULL, &overdue));
    RETURNS(TICKLESS_E_NULL, tickless_overdue(engine, NULL));
    CHECK(strcmp(tickless_last_error(), "overdue is NULL") == 0);
    RETURNS(1, tickless_timer_cancel(&timer));
    OK(tickless_engine_free(engine));
}

static void a_timer_that_is_none_is_refused(void) {
    tickless_engine *engine = manual_engine();
    tickless_timer zero, garbage, timer;
    uint64_t n;
    memset(&zero, 0, sizeof zero);
    memset(&garbage, 0xa5, sizeof garbage);
    RETURNS(TICKLESS_E_HANDLE, tickless_timer_cancel(&zero));
    CHECK(strcmp(tickless_last_error(), "the timer was not scheduled") == 0);
    RETURNS(TICKLESS_E_HANDLE, tickless_timer_cancel(&garbage));
    CHECK(strcmp(tickless_last_error(), "this is not a timer") == 0);
    OK(tickless_schedule(engine, HOUR, run, NULL, release, &timer));
    RELEASES(1, 1, tickless_timer_cancel(&timer));
    RELEASES(0, TICKLESS_E_HANDLE, tickless_timer_cancel(&timer));
    CHECK(strcmp(tickless_last_error(), "the timer was ended before") == 0);
    RETURNS(TICKLESS_E_HANDLE, tickless_timer_detach(&timer));
    RETURNS(TICKLESS_E_HANDLE, tickless_timer_reset(&timer, 0));
    RETURNS(TICKLESS_E_HANDLE, tickless_timer_state(&timer));
    RETURNS(TICKLESS_E_HANDLE, tickless_timer_deadline_ns(&timer, &n));
    RETURNS(TICKLESS_E_HANDLE, tickless_timer_cancel_wait(&timer, 0));
    OK(tickless_engine_free(engine));
}

static void an_engine_that_was_freed_is_refused_also_when_another_is_in_its_place(void) {
    tickless_engine *engine = manual_engine(), *next;
    OK(tickless_engine_free(engine));
    RETURNS(TICKLESS_E_HANDLE, tickless_engine_free(engine));
    RELEASES(1, TICKLESS_E_HANDLE, tickless_schedule(engine, 0, run, NULL, release, NULL));
    next = manual_engine();
    RETURNS(TICKLESS_E_HANDLE, tickless_engine_free(engine));
    RETURNS(TICKLESS_E_HANDLE, tickless_bind_thread(engine, 0));
    OK(tickless_bind_thread(next, 0));
    OK(tickless_engine_free(next));
}

static void options_are_checked(void) {
    const tickless_options none = {.size = sizeof none};
    tickless_options options = none;
    struct {
        tickless_options known;
        uint64_t more;
    } newer = {.known = {.size = sizeof newer}};
    tickless_engine *engine;
    struct rlimit few;
    rlim_t all;
#define REFUSED(set)                                                                           \
    do {                                                                                       \
        options = none;                                                                        \
        options.set;                                                                           \
        engine = (tickless_engine *)&options;                                                  \
        RETURNS(TICKLESS_E_ARGUMENT, tickless_engine_new(&options, &engine));                  \
        CHECK(engine == NULL);                                                                 \
    } while (0)
    REFUSED(size = 0);
    REFUSED(size = 7);
    /* The size of a pointer to them, and a size in the midst of a field. */
    REFUSED(size = sizeof(&options));
    REFUSED(size = sizeof options - 1);
    REFUSED(size = (size_t)-1);
    REFUSED(shards = 1025);
    REFUSED(slots = 1);
    REFUSED(reach = 65);
    REFUSED(clock = 4);
    REFUSED(driver = 2);
    REFUSED(precise_percent = 101);
    /* Before it opens descriptors, for which there would be too few. */
    CHECK(getrlimit(RLIMIT_NOFILE, &few) == 0);
    all = few.rlim_cur;
    few.rlim_cur = 256;
    CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
    options = none;
    options.driver = TICKLESS_DRIVER_CALLER;
    options.shards = 65536;
    RETURNS(TICKLESS_E_ARGUMENT, tickless_engine_new(&options, &engine));
    few.rlim_cur = all;
    CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
    options = none;
    options.reapers_min = 3;
    options.reapers_max = 2;
    RETURNS(TICKLESS_E_ARGUMENT, tickless_engine_new(&options, &engine));
    /* A program that was built with a newer header. */
    OK(tickless_engine_new(&newer.known, &engine));
    OK(tickless_engine_free(engine));
    newer.more = 1;
    RETURNS(TICKLESS_E_ARGUMENT, tickless_engine_new(&newer.known, &engine));
    options = none;
    options.shards = 2;
    options.reapers_min = 2;
    options.takeover_ns = TICKLESS_NEVER;
    options.thread_name = "a name";
    options.clock = TICKLESS_CLOCK_EXACT;
    OK(tickless_engine_new(&options, &engine));
    OK(tickless_engine_free(engine));
}

static void structs_of_other_versions_are_filled_as_far_as_they_go(void) {
    struct {
        tickless_overdue_info known;
        uint64_t more[2];
    } newer = {{.size = sizeof newer, .oldest_ns = 7}, {7, 7}};
    tickless_stats_info stats = {.size = sizeof(&stats), .scheduled = 7};
    tickless_engine *engine = manual_engine();
    OK(tickless_schedule(engine, HOUR, run, NULL, release, NULL));
    OK(tickless_overdue(engine, &newer.known));
    CHECK(newer.known.size == sizeof newer && newer.known.oldest_ns == 0);
    CHECK(newer.more[0] == 0 && newer.more[1] == 0);
    /* The size of a pointer to it: it would stay as it is, without a word. */
    RETURNS(TICKLESS_E_ARGUMENT, tickless_stats(engine, &stats));
    CHECK(stats.size == sizeof(&stats) && stats.scheduled == 7);
    stats.size = 0;
    RETURNS(TICKLESS_E_ARGUMENT, tickless_stats(engine, &stats));
    RELEASES(1, TICKLESS_OK, tickless_engine_free(engine));
}

/* The structs of the oldest header of this ABI (6e924710), in memory that has no byte more. */
struct first_options {
    size_t size;
    uint64_t tick_ns, max_pending, takeover_ns;
    const char *thread_name;
    uint32_t shards, slots, reach, reapers_min, reapers_max, clock, driver, reserved;
};
struct first_stats {
    size_t size;
    uint64_t scheduled, seated, cancelled, reset, fired, returned, pending, cascaded, dead, panicked;
    uint64_t takeovers, stuck, overdue_ns, wake_ups;
    uint64_t lateness_p50_ns, lateness_p99_ns, lateness_p999_ns, lateness_max_ns;
};
struct first_turn {
    size_t size;
    uint64_t fired, next_ns, sleep_ns;
};
struct first_overdue {
    size_t size;
    uint64_t oldest_ns, shards, stuck;
};

static void *sized(size_t size) {
    size_t *made = calloc(1, size);
    CHECK(made != NULL);
    *made = size;
    return made;
}

static void a_program_that_was_built_with_the_oldest_header_works(void) {
    struct first_options *options = sized(sizeof *options);
    struct first_stats *stats = sized(sizeof *stats);
    struct first_turn *turn = sized(sizeof *turn);
    struct first_overdue *overdue = sized(sizeof *overdue);
    tickless_engine *engine;
    options->clock = TICKLESS_CLOCK_MANUAL;
    options->shards = 1;
    OK(tickless_engine_new((const tickless_options *)(const void *)options, &engine));
    OK(tickless_schedule(engine, HOUR, run, NULL, NULL, NULL));
    OK(tickless_turn(engine, 0, 0, (tickless_turn_info *)(void *)turn));
    CHECK(turn->fired == 0 && turn->sleep_ns > 0 && turn->sleep_ns <= HOUR + MS);
    OK(tickless_stats(engine, (tickless_stats_info *)(void *)stats));
    CHECK(stats->size == sizeof *stats && stats->scheduled == 1 && stats->pending == 1);
    OK(tickless_overdue(engine, (tickless_overdue_info *)(void *)overdue));
    CHECK(overdue->oldest_ns == 0 && overdue->shards == 0);
    OK(tickless_engine_free(engine));
    free(options);
    free(stats);
    free(turn);
    free(overdue);
}

/* By ticks of 1 ns, the engine's time ends after 208 days. */
static void a_time_that_ticks_do_not_reach_is_refused(void) {
    const uint64_t far = UINT64_C(1) << 54;
    const tickless_when delay = {far, 0, 0};
    tickless_when when = {far, 0, TICKLESS_AT}, most = {0, 0, TICKLESS_AT};
    tickless_options options = {.size = sizeof options, .clock = TICKLESS_CLOCK_MANUAL, .tick_ns = 1};
    tickless_scope scope;
    tickless_scope_key key;
    tickless_engine *engine;
    tickless_timer timer;
    uint64_t now, before, deadline;
    OK(tickless_engine_new(&options, &engine));
    OK(tickless_now_ns(engine, &now));
    RELEASES(1, TICKLESS_E_ARGUMENT, tickless_schedule(engine, far, run, NULL, release, NULL));
    RELEASES(1, TICKLESS_E_ARGUMENT, tickless_schedule(engine, far, run, NULL, release, &timer));
    RELEASES(1, TICKLESS_E_ARGUMENT,
             tickless_schedule_when(engine, &delay, run, NULL, release, NULL));
    when.time_ns = now + far;
    RELEASES(1, TICKLESS_E_ARGUMENT, tickless_schedule_when(engine, &when, run, NULL, release, NULL));
    memset(&timer, 0, sizeof timer);
    RELEASES(1, TICKLESS_E_ARGUMENT,
             tickless_timer_restart(engine, &timer, far, run, NULL, release));
    RELEASES(1, TICKLESS_E_ARGUMENT,
             tickless_schedule_repeating(engine, NULL, far, run, NULL, release, NULL));
    OK(tickless_scope_init(engine, &scope));
    RELEASES(1, TICKLESS_E_ARGUMENT, tickless_scope_schedule(&scope, far, run, NULL, release, NULL));
    /* What a reset cannot reach stays where it is. */
    OK(tickless_schedule(engine, SECOND, run, NULL, NULL, &timer));
    OK(tickless_timer_deadline_ns(&timer, &before));
    RETURNS(TICKLESS_E_ARGUMENT, tickless_timer_reset(&timer, far));
    RETURNS(TICKLESS_E_ARGUMENT, tickless_timer_reset_when(&timer, &delay));
    RETURNS(TICKLESS_E_ARGUMENT, tickless_timer_reset_when(&timer, &when));
    RELEASES(1, TICKLESS_E_ARGUMENT, tickless_timer_rearm(engine, &timer, far, run, NULL, release));
    OK(tickless_timer_deadline_ns(&timer, &deadline));
    CHECK(deadline == before);
    RETURNS(1, tickless_timer_cancel(&timer));
    OK(tickless_scope_schedule(&scope, SECOND, run, NULL, NULL, &key));
    RETURNS(TICKLESS_E_ARGUMENT, tickless_scope_reset(&scope, key, far));
    RETURNS(TICKLESS_E_ARGUMENT, tickless_scope_reset_when(&scope, key, &when));
    OK(tickless_scope_reset(&scope, key, far - SECOND));
    RETURNS(1, tickless_scope_cancel(&scope, key));
    OK(tickless_scope_end(&scope, 0));
    /* What is in reach fires, and what never comes is asked for by name. */
    most.time_ns = now + far - SECOND;
    OK(tickless_schedule_when(engine, &most, run, NULL, NULL, &timer));
    OK(tickless_timer_deadline_ns(&timer, &deadline));
    CHECK(deadline >= most.time_ns && deadline != TICKLESS_NEVER);
    OK(tickless_timer_reset(&timer, TICKLESS_NEVER));
    RETURNS(1, tickless_timer_cancel(&timer));
    /* A delay counts from now. */
    OK(tickless_clock_advance(engine, far / 4));
    RELEASES(1, TICKLESS_E_ARGUMENT,
             tickless_schedule(engine, far - SECOND, run, NULL, release, &timer));
    RELEASES(1, TICKLESS_E_ARGUMENT,
             tickless_schedule_repeating(engine, NULL, far - SECOND, run, NULL, release, NULL));
    OK(tickless_schedule(engine, far / 4 * 3 - SECOND, run, NULL, NULL, &timer));
    OK(tickless_timer_deadline_ns(&timer, &deadline));
    CHECK(deadline != TICKLESS_NEVER && tickless_timer_cancel(&timer) == 1);
    OK(tickless_engine_free(engine));
    /* With ticks of a millisecond, everything is. */
    engine = manual_engine();
    OK(tickless_schedule(engine, TICKLESS_NEVER - 1, run, NULL, NULL, NULL));
    OK(tickless_engine_free(engine));
}

static void user_data_is_released_once_by_each_way_to_end_a_timer(void) {
    const uint64_t flags[] = {0, TICKLESS_WAITABLE};
    size_t i;
    for (i = 0; i < 2; i++) {
        const tickless_when when = {MS, 0, flags[i]};
        tickless_engine *engine = manual_engine();
        tickless_timer timers[6];
        void *user_data = NULL;
        int n, before = ran;
        for (n = 0; n < 6; n++) {
            OK(tickless_schedule_when(engine, &when, run, &timers[n], release, &timers[n]));
        }
        RELEASES(1, 1, tickless_timer_cancel(&timers[0]));
        RELEASES(0, 1, tickless_timer_take(&timers[1], &user_data));
        CHECK(user_data == &timers[1]);
        RELEASES(0, TICKLESS_OK, tickless_timer_detach(&timers[2]));
        RELEASES(4, TICKLESS_OK, tickless_advance(engine, MS, NULL));
        CHECK(ran - before == 4);
        RELEASES(0, 0, tickless_timer_cancel(&timers[3]));
        RELEASES(0, 0, tickless_timer_take(&timers[4], &user_data));
        CHECK(user_data == NULL);
        RELEASES(0, TICKLESS_OK, tickless_timer_detach(&timers[5]));
        /* By the end of the engine, before and after which the timer is let go of. */
        for (n = 0; n < 3; n++) {
            OK(tickless_schedule_when(engine, &when, run, NULL, release, &timers[n]));
        }
        OK(tickless_timer_detach(&timers[0]));
        RELEASES(3, TICKLESS_OK, tickless_engine_free(engine));
        RETURNS(TICKLESS_STATE_STOPPED, tickless_timer_state(&timers[1]));
        RETURNS(TICKLESS_E_STOPPED, tickless_timer_reset(&timers[1], MS));
        RELEASES(0, 0, tickless_timer_cancel(&timers[1]));
        RELEASES(0, TICKLESS_OK, tickless_timer_detach(&timers[2]));
        CHECK(ran - before == 4);
    }
}

static void a_full_engine_refuses_and_releases(void) {
    const tickless_when when = {HOUR, 0, TICKLESS_WAITABLE};
    tickless_options options = {.size = sizeof options};
    tickless_engine *engine;
    tickless_timer timer, other;
    options.clock = TICKLESS_CLOCK_MANUAL;
    options.max_pending = 1;
    OK(tickless_engine_new(&options, &engine));
    OK(tickless_schedule(engine, HOUR, run, NULL, release, &timer));
    RELEASES(1, TICKLESS_E_FULL, tickless_schedule(engine, 0, run, NULL, release, &other));
    RELEASES(1, TICKLESS_E_FULL, tickless_schedule(engine, 0, run, NULL, release, NULL));
    RELEASES(1, TICKLESS_E_FULL,
             tickless_schedule_when(engine, &when, run, NULL, release, &other));
    CHECK(strlen(tickless_last_error()) > 0);
    RELEASES(1, 1, tickless_timer_cancel(&timer));
    OK(tickless_schedule(engine, 0, run, NULL, release, NULL));
    RELEASES(1, TICKLESS_OK, tickless_engine_free(engine));
}

static void flags_that_are_not_known_are_refused(void) {
    const tickless_when unknown = {0, 0, 4}, waitable = {0, 0, TICKLESS_WAITABLE};
    tickless_engine *engine = manual_engine();
    tickless_timer timer;
    RELEASES(1, TICKLESS_E_ARGUMENT,
             tickless_schedule_when(engine, &unknown, run, NULL, release, &timer));
    RELEASES(1, TICKLESS_E_ARGUMENT,
             tickless_schedule_when(engine, &waitable, run, NULL, release, NULL));
    OK(tickless_schedule(engine, 0, run, NULL, NULL, &timer));
    RETURNS(TICKLESS_E_ARGUMENT, tickless_timer_reset_when(&timer, &unknown));
    RETURNS(TICKLESS_E_NOT_WAITABLE, tickless_timer_cancel_wait(&timer, TICKLESS_NEVER));
    RETURNS(1, tickless_timer_cancel(&timer));
    OK(tickless_engine_free(engine));
}

struct returned {
    int run_now, n;
};

static void take_back(void *context, tickless_fn callback, void *user_data) {
    struct returned *returned = context;
    returned->n++;
    CHECK(callback == run);
    if (returned->run_now) {
        callback(user_data);
    }
}

static void what_repeats_is_released_by_a_stop_and_not_passed(void) {
    struct returned returned = {0, 0};
    tickless_engine *engine = manual_engine();
    tickless_timer repeating;
    OK(tickless_schedule_repeating(engine, NULL, HOUR, run, NULL, release, &repeating));
    RELEASES(1, TICKLESS_OK, tickless_engine_stop(engine, TICKLESS_NEVER, take_back, &returned));
    CHECK(returned.n == 0);
    RETURNS(0, tickless_timer_cancel_wait(&repeating, TICKLESS_NEVER));
    OK(tickless_engine_free(engine));
}

static void what_a_stop_passes_to_nobody_counts_as_cancelled(void) {
    const tickless_when when = {HOUR, 0, TICKLESS_WAITABLE};
    tickless_engine *engine = manual_engine();
    tickless_timer waitable;
    OK(tickless_schedule_when(engine, &when, run, NULL, release, &waitable));
    RELEASES(1, TICKLESS_OK, tickless_engine_stop(engine, TICKLESS_NEVER, NULL, NULL));
    RETURNS(TICKLESS_STATE_STOPPED, tickless_timer_state(&waitable));
    RETURNS(1, tickless_timer_cancel_wait(&waitable, TICKLESS_NEVER));
    OK(tickless_engine_free(engine));
}

static void a_stop_passes_what_never_ran_and_releases_it(void) {
    const tickless_when when = {HOUR, 0, TICKLESS_WAITABLE};
    struct returned returned = {1, 0};
    tickless_engine *engine = manual_engine();
    tickless_timer plain, waitable, cancelled;
    int before = ran;
    OK(tickless_schedule(engine, HOUR, run, NULL, release, &plain));
    OK(tickless_schedule(engine, HOUR, run, NULL, NULL, &cancelled));
    OK(tickless_schedule_when(engine, &when, run, NULL, release, &waitable));
    RETURNS(1, tickless_timer_cancel(&cancelled));
    RELEASES(2, TICKLESS_OK, tickless_engine_stop(engine, TICKLESS_NEVER, take_back, &returned));
    CHECK(returned.n == 2 && ran - before == 2);
    RELEASES(0, TICKLESS_OK, tickless_engine_stop(engine, SECOND, take_back, &returned));
    CHECK(returned.n == 2);
    RETURNS(TICKLESS_STATE_FINISHED, tickless_timer_state(&waitable));
    RETURNS(0, tickless_timer_cancel_wait(&waitable, TICKLESS_NEVER));
    RETURNS(0, tickless_timer_cancel(&plain));
    RELEASES(1, TICKLESS_E_STOPPED, tickless_schedule(engine, 0, run, NULL, release, &plain));
    RETURNS(TICKLESS_E_STOPPED, tickless_advance(engine, 0, NULL));
    RETURNS(TICKLESS_E_STOPPED, tickless_turn(engine, 0, 0, NULL));
    OK(tickless_engine_free(engine));
}

/* Releases by a call that fails in turn. */
static void release_and_fail(void *timer) {
    released++;
    RETURNS(TICKLESS_E_HANDLE, tickless_timer_cancel(timer));
}

static void a_release_may_call_back_and_finds_its_timer_ended(void) {
    const tickless_when when = {HOUR, 0, TICKLESS_WAITABLE};
    tickless_engine *engine = manual_engine();
    tickless_timer timer;
    void *at = &timer;
    OK(tickless_schedule(engine, HOUR, run, at, release_and_fail, &timer));
    RELEASES(1, 1, tickless_timer_cancel(&timer));
    OK(tickless_schedule_when(engine, &when, run, at, release_and_fail, &timer));
    RELEASES(1, 1, tickless_timer_cancel_wait(&timer, 0));
    OK(tickless_engine_free(engine));
}

int main(void) {
    RUN(the_version_is_that_of_the_header);
    RUN(every_code_has_a_text);
    RUN(null_is_refused_where_it_must_not_be);
    RUN(a_timer_that_is_none_is_refused);
    RUN(an_engine_that_was_freed_is_refused_also_when_another_is_in_its_place);
    RUN(options_are_checked);
    RUN(structs_of_other_versions_are_filled_as_far_as_they_go);
    RUN(a_program_that_was_built_with_the_oldest_header_works);
    RUN(a_time_that_ticks_do_not_reach_is_refused);
    RUN(user_data_is_released_once_by_each_way_to_end_a_timer);
    RUN(a_full_engine_refuses_and_releases);
    RUN(flags_that_are_not_known_are_refused);
    RUN(a_stop_passes_what_never_ran_and_releases_it);
    RUN(what_repeats_is_released_by_a_stop_and_not_passed);
    RUN(what_a_stop_passes_to_nobody_counts_as_cancelled);
    RUN(a_release_may_call_back_and_finds_its_timer_ended);
    return 0;
}
