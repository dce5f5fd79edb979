/* Scopes: the timers of a connection end together, whichever thread or callback ends them, and what
 * they carry is released once. The argument is ten times the number of rounds of the races. */
#include "check.h"

static long rounds = 1000;

/* A fast engine with threads of its own, several shards, and takeovers that do not disturb. */
static tickless_engine *threaded_engine(void) {
    tickless_options options;
    tickless_engine *engine;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.tick_ns = MS / 50;
    options.shards = 2;
    OK(tickless_engine_new(&options, &engine));
    return engine;
}

static void the_timers_of_a_scope_fire_move_and_end_by_their_keys(void) {
    tickless_engine *engine = manual_engine();
    struct count fired = COUNT_INIT, released = COUNT_INIT;
    const tickless_scope_key none = {{0, 0}};
    const tickless_when at_last = {3 * SECOND, 0, TICKLESS_WAITABLE};
    tickless_scope scope;
    tickless_scope_key keys[3];
    int i;
    OK(tickless_scope_init(engine, &scope));
    for (i = 0; i < 3; i++) {
        OK(tickless_scope_schedule(&scope, SECOND, count_one, &fired, NULL, &keys[i]));
    }
    RETURNS(1, tickless_scope_cancel(&scope, keys[0]));
    RETURNS(0, tickless_scope_cancel(&scope, keys[0]));
    RETURNS(TICKLESS_E_TOO_LATE, tickless_scope_reset(&scope, keys[0], SECOND));
    OK(tickless_scope_reset(&scope, keys[1], 2 * SECOND));
    OK(tickless_scope_reset_when(&scope, keys[1], &at_last));
    CHECK(advance(engine, SECOND) == 1);
    RETURNS(0, tickless_scope_cancel(&scope, keys[2]));
    CHECK(advance(engine, SECOND) == 0 && advance(engine, SECOND) == 1);
    CHECK(count_now(&fired) == 2);
    /* A place that is free again has another key. */
    OK(tickless_scope_schedule_when(&scope, &at_last, count_one, &fired, NULL, NULL));
    for (i = 0; i < 3; i++) {
        RETURNS(0, tickless_scope_cancel(&scope, keys[i]));
    }
    RETURNS(0, tickless_scope_cancel(&scope, none));
    RETURNS(TICKLESS_E_TOO_LATE, tickless_scope_reset(&scope, none, 0));
    for (i = 0; i < 100; i++) {
        OK(tickless_scope_schedule(&scope, SECOND, count_one, &fired, NULL, NULL));
    }
    RETURNS(101, tickless_scope_cancel_all(&scope));
    RETURNS(0, tickless_scope_cancel_all(&scope));
    CHECK(stats_of(engine).pending == 0);
    OK(tickless_scope_schedule(&scope, HOUR, count_one, &fired, NULL, NULL));
    OK(tickless_scope_end(&scope, TICKLESS_NEVER));
    CHECK(stats_of(engine).pending == 0 && advance(engine, HOUR) == 0);
    CHECK(count_now(&fired) == 2 && count_now(&released) == 0);
    OK(tickless_engine_free(engine));
}

static void a_scope_that_is_none_is_refused_and_user_data_is_released(void) {
    tickless_engine *engine = manual_engine();
    struct count released = COUNT_INIT;
    const tickless_when wrong = {SECOND, 0, UINT64_C(1) << 60}, right = {SECOND, 0, TICKLESS_AT};
    const tickless_scope_key none = {{0, 0}};
    tickless_scope scopes[3];
    tickless_scope_key key;
    int i;
    memset(scopes, 0, sizeof scopes);
    memset(&scopes[1], 0x5a, sizeof scopes[1]);
    OK(tickless_scope_init(engine, &scopes[2]));
    OK(tickless_scope_end(&scopes[2], 0));
    for (i = 0; i < 3; i++) {
        memset(&key, 1, sizeof key);
        RETURNS(TICKLESS_E_HANDLE, tickless_scope_schedule(&scopes[i], SECOND, count_nothing,
                                                           &released, count_one, &key));
        CHECK(memcmp(&key, &none, sizeof key) == 0);
        RETURNS(TICKLESS_E_HANDLE, tickless_scope_schedule_when(&scopes[i], &right, count_nothing,
                                                                &released, count_one, NULL));
        RETURNS(TICKLESS_E_HANDLE, tickless_scope_cancel(&scopes[i], none));
        RETURNS(TICKLESS_E_HANDLE, tickless_scope_reset(&scopes[i], none, 0));
        RETURNS(TICKLESS_E_HANDLE, tickless_scope_reset_when(&scopes[i], none, &right));
        RETURNS(TICKLESS_E_HANDLE, tickless_scope_cancel_all(&scopes[i]));
        RETURNS(TICKLESS_E_HANDLE, tickless_scope_end(&scopes[i], TICKLESS_NEVER));
    }
    CHECK(count_now(&released) == 6);
    RETURNS(TICKLESS_E_NULL, tickless_scope_init(engine, NULL));
    RETURNS(TICKLESS_E_NULL, tickless_scope_init(NULL, &scopes[2]));
    RETURNS(TICKLESS_E_NULL,
            tickless_scope_schedule(NULL, 0, count_nothing, &released, count_one, &key));
    RETURNS(TICKLESS_E_NULL, tickless_scope_cancel(NULL, none));
    RETURNS(TICKLESS_E_NULL, tickless_scope_reset(NULL, none, 0));
    RETURNS(TICKLESS_E_NULL, tickless_scope_cancel_all(NULL));
    RETURNS(TICKLESS_E_NULL, tickless_scope_end(NULL, 0));
    OK(tickless_scope_init(engine, &scopes[2]));
    RETURNS(TICKLESS_E_NULL,
            tickless_scope_schedule(&scopes[2], 0, NULL, &released, count_one, &key));
    RETURNS(TICKLESS_E_NULL, tickless_scope_schedule_when(&scopes[2], NULL, count_nothing, &released,
                                                          count_one, &key));
    RETURNS(TICKLESS_E_ARGUMENT, tickless_scope_schedule_when(&scopes[2], &wrong, count_nothing,
                                                              &released, count_one, &key));
    RETURNS(TICKLESS_E_ARGUMENT, tickless_scope_reset_when(&scopes[2], none, &wrong));
    CHECK(count_now(&released) == 10);
    OK(tickless_scope_end(&scopes[2], TICKLESS_NEVER));
    OK(tickless_engine_free(engine));
}

static void note_returned(void *context, tickless_fn run, void *user_data) {
    (void)run;
    (void)user_data;
    count_one(context);
}

static void an_engine_that_is_full_or_stops_or_is_freed_leaves_a_scope_that_can_be_ended(void) {
    tickless_options options;
    tickless_engine *engine;
    struct count returned = COUNT_INIT, released = COUNT_INIT;
    tickless_scope scope;
    tickless_scope_key kept, key;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.clock = TICKLESS_CLOCK_MANUAL;
    options.max_pending = 2;
    OK(tickless_engine_new(&options, &engine));
    OK(tickless_scope_init(engine, &scope));
    OK(tickless_scope_schedule(&scope, HOUR, count_nothing, &released, count_one, &kept));
    OK(tickless_scope_schedule(&scope, HOUR, count_nothing, &released, count_one, NULL));
    RETURNS(TICKLESS_E_FULL,
            tickless_scope_schedule(&scope, HOUR, count_nothing, &released, count_one, &key));
    CHECK(count_now(&released) == 1);
    /* The key of a failure is not that of the timer which comes next. */
    RETURNS(1, tickless_scope_cancel(&scope, kept));
    OK(tickless_scope_schedule(&scope, HOUR, count_nothing, &released, count_one, NULL));
    RETURNS(0, tickless_scope_cancel(&scope, key));
    OK(tickless_engine_stop(engine, TICKLESS_NEVER, note_returned, &returned));
    CHECK(count_now(&returned) == 2 && count_now(&released) == 4);
    RETURNS(TICKLESS_E_STOPPED,
            tickless_scope_schedule(&scope, HOUR, count_nothing, &released, count_one, &key));
    CHECK(count_now(&released) == 5);
    OK(tickless_engine_free(engine));
    RETURNS(TICKLESS_E_STOPPED,
            tickless_scope_schedule(&scope, HOUR, count_nothing, &released, count_one, &key));
    RETURNS(0, tickless_scope_cancel_all(&scope));
    OK(tickless_scope_end(&scope, TICKLESS_NEVER));
    CHECK(count_now(&released) == 6);
}

/* A key that lies in the user data of its timer. */
struct keyed {
    tickless_scope_key key;
    struct count *released;
};

static void release_keyed(void *user_data) {
    const tickless_scope_key none = {{0, 0}};
    struct keyed *keyed = user_data;
    CHECK(memcmp(&keyed->key, &none, sizeof none) == 0);
    count_one(keyed->released);
    free(keyed);
}

static void a_schedule_that_fails_zeroes_the_key_before_it_releases_the_user_data(void) {
    const tickless_when right = {SECOND, 0, 0}, wrong = {SECOND, 0, UINT64_C(1) << 60};
    tickless_options options;
    tickless_engine *engine;
    struct count released = COUNT_INIT;
    tickless_scope scopes[2];
    int i;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.clock = TICKLESS_CLOCK_MANUAL;
    options.max_pending = 1;
    OK(tickless_engine_new(&options, &engine));
    for (i = 0; i < 2; i++) {
        OK(tickless_scope_init(engine, &scopes[i]));
    }
    OK(tickless_scope_schedule(&scopes[0], HOUR, count_nothing, NULL, NULL, NULL));
    OK(tickless_scope_end(&scopes[1], TICKLESS_NEVER));
    for (i = 0; i < 5; i++) {
        const int expected[] = {TICKLESS_E_NULL, TICKLESS_E_ARGUMENT, TICKLESS_E_HANDLE,
                                TICKLESS_E_FULL, TICKLESS_E_STOPPED};
        struct keyed *keyed = malloc(sizeof *keyed);
        CHECK(keyed != NULL);
        memset(&keyed->key, 1, sizeof keyed->key);
        keyed->released = &released;
        if (i == 4) {
            OK(tickless_engine_stop(engine, TICKLESS_NEVER, NULL, NULL));
        }
        RETURNS(expected[i],
                tickless_scope_schedule_when(&scopes[i == 2], i == 1 ? &wrong : &right,
                                             i == 0 ? NULL : count_nothing, keyed, release_keyed,
                                             &keyed->key));
        CHECK(count_now(&released) == i + 1);
    }
    OK(tickless_scope_end(&scopes[0], TICKLESS_NEVER));
    OK(tickless_engine_free(engine));
}

/* A connection whose timers are in a scope, and which lies in what they carry. */
struct connection {
    tickless_scope timers;
    tickless_scope_key idle;
    tickless_engine *engine;
    struct count *ended;
    int ended_inside;
};

static void close_connection(void *user_data) {
    struct connection *connection = user_data;
    /* Nothing else of the scope runs after this, or will: only this callback. */
    OK(tickless_scope_end(&connection->timers, TICKLESS_NEVER));
    count_one(connection->ended);
    free(connection);
}

static struct connection *connect_to(tickless_engine *engine, struct count *ended) {
    struct connection *connection = calloc(1, sizeof *connection);
    CHECK(connection != NULL);
    connection->engine = engine;
    connection->ended = ended;
    OK(tickless_scope_init(engine, &connection->timers));
    return connection;
}

static void a_callback_ends_its_scope_and_frees_the_memory_in_which_it_lies(void) {
    tickless_engine *engine = manual_engine();
    struct count ended = COUNT_INIT, released = COUNT_INIT;
    struct connection *connection = connect_to(engine, &ended);
    int i;
    OK(tickless_scope_schedule(&connection->timers, SECOND, close_connection, connection, NULL,
                               &connection->idle));
    for (i = 0; i < 5; i++) {
        OK(tickless_scope_schedule(&connection->timers, SECOND + (uint64_t)i * MS, count_nothing,
                                   &released, count_one, NULL));
    }
    OK(tickless_scope_reset(&connection->timers, connection->idle, SECOND / 2));
    CHECK(advance(engine, SECOND / 2) == 1);
    CHECK(count_now(&ended) == 1 && count_now(&released) == 5);
    CHECK(stats_of(engine).pending == 0);
    OK(tickless_engine_free(engine));
    /* The same while it is scheduled: its first timer is due at once. */
    engine = threaded_engine();
    for (i = 0; i < rounds; i++) {
        connection = connect_to(engine, &ended);
        OK(tickless_scope_schedule(&connection->timers, 0, close_connection, connection, NULL,
                                   &connection->idle));
    }
    count_wait(&ended, 1 + rounds);
    OK(tickless_engine_free(engine));
}

struct slow {
    struct count begun, may_end, released;
};

static void run_slowly(void *user_data) {
    struct slow *slow = user_data;
    count_one(&slow->begun);
    count_wait(&slow->may_end, 1);
}

static void release_slow(void *user_data) {
    struct slow *slow = user_data;
    count_one(&slow->released);
}

static void *let_end(void *user_data) {
    struct slow *slow = user_data;
    count_one(&slow->may_end);
    return NULL;
}

static void the_end_of_a_scope_waits_for_a_callback_that_runs_and_its_release(void) {
    static struct slow slow = {COUNT_INIT, COUNT_INIT, COUNT_INIT};
    struct count released = COUNT_INIT;
    tickless_engine *engine = threaded_engine();
    tickless_scope scope;
    tickless_scope_key key;
    pthread_t thread;
    OK(tickless_scope_init(engine, &scope));
    OK(tickless_scope_schedule(&scope, 0, run_slowly, &slow, release_slow, &key));
    OK(tickless_scope_schedule(&scope, HOUR, count_nothing, &released, count_one, NULL));
    count_wait(&slow.begun, 1);
    RETURNS(0, tickless_scope_cancel(&scope, key));
    RETURNS(1, tickless_scope_cancel_all(&scope));
    OK(tickless_scope_schedule(&scope, HOUR, count_nothing, &released, count_one, NULL));
    RETURNS(TICKLESS_E_TIMED_OUT, tickless_scope_end(&scope, MS));
    CHECK(count_now(&released) == 2 && count_now(&slow.released) == 0);
    /* It is still there. */
    OK(tickless_scope_schedule(&scope, HOUR, count_nothing, &released, count_one, NULL));
    CHECK(pthread_create(&thread, NULL, let_end, &slow) == 0);
    OK(tickless_scope_end(&scope, TICKLESS_NEVER));
    CHECK(count_now(&released) == 3 && count_now(&slow.released) == 1);
    RETURNS(TICKLESS_E_HANDLE, tickless_scope_end(&scope, TICKLESS_NEVER));
    CHECK(pthread_join(thread, NULL) == 0);
    OK(tickless_engine_free(engine));
}

/* Two callbacks of a scope that end it while both run: the second is refused at once. */
struct pair {
    tickless_scope scope;
    struct count begun, ended, refused;
};

static void end_together(void *user_data) {
    struct pair *pair = user_data;
    int code;
    count_one(&pair->begun);
    count_wait(&pair->begun, 2);
    code = tickless_scope_end(&pair->scope, TICKLESS_NEVER);
    CHECK(code == TICKLESS_OK || code == TICKLESS_E_HANDLE);
    count_one(code == TICKLESS_OK ? &pair->ended : &pair->refused);
}

static void of_two_callbacks_that_end_their_scope_one_does(void) {
    tickless_engine *engine = threaded_engine();
    struct pair pair = {{{0}}, COUNT_INIT, COUNT_INIT, COUNT_INIT};
    OK(tickless_scope_init(engine, &pair.scope));
    OK(tickless_scope_schedule(&pair.scope, 0, end_together, &pair, NULL, NULL));
    OK(tickless_scope_schedule(&pair.scope, 0, end_together, &pair, NULL, NULL));
    count_wait(&pair.ended, 1);
    count_wait(&pair.refused, 1);
    RETURNS(TICKLESS_E_HANDLE, tickless_scope_end(&pair.scope, TICKLESS_NEVER));
    OK(tickless_engine_free(engine));
}

/* A release that uses the scope: it is called while nobody is in it. */
struct again {
    tickless_scope *scope;
    struct count released;
};

static void schedule_again(void *user_data) {
    struct again *again = user_data;
    count_one(&again->released);
    if (count_now(&again->released) < 4) {
        int code = tickless_scope_schedule(again->scope, HOUR, count_nothing, again, schedule_again,
                                           NULL);
        CHECK(code == TICKLESS_OK || code == TICKLESS_E_HANDLE);
        CHECK(tickless_scope_cancel_all(again->scope) >= 0 || code == TICKLESS_E_HANDLE);
    }
}

static void a_release_may_use_the_scope_that_it_comes_from(void) {
    tickless_engine *engine = manual_engine();
    tickless_scope scope;
    tickless_scope_key key;
    struct again by_key = {&scope, COUNT_INIT}, by_all = {&scope, COUNT_INIT};
    struct again by_end = {&scope, COUNT_INIT};
    OK(tickless_scope_init(engine, &scope));
    OK(tickless_scope_schedule(&scope, HOUR, count_nothing, &by_key, schedule_again, &key));
    RETURNS(1, tickless_scope_cancel(&scope, key));
    CHECK(count_now(&by_key.released) == 4);
    OK(tickless_scope_schedule(&scope, HOUR, count_nothing, &by_all, schedule_again, NULL));
    RETURNS(1, tickless_scope_cancel_all(&scope));
    CHECK(count_now(&by_all.released) == 4);
    OK(tickless_scope_schedule(&scope, HOUR, count_nothing, &by_end, schedule_again, NULL));
    OK(tickless_scope_end(&scope, TICKLESS_NEVER));
    CHECK(count_now(&by_end.released) == 4);
    OK(tickless_engine_free(engine));
}

/* Threads that schedule, move and cancel in a scope while others do so and timers fire. */
struct crowd {
    tickless_scope scope;
    struct count scheduled, released;
    int seed;
};

static void *use_scope(void *user_data) {
    struct crowd *crowd = user_data;
    unsigned seed = (unsigned)__atomic_add_fetch(&crowd->seed, 1, __ATOMIC_RELAXED);
    tickless_scope_key keys[8];
    long round;
    memset(keys, 0, sizeof keys);
    for (round = 0; round < rounds; round++) {
        tickless_scope_key *key = &keys[round % 8];
        uint64_t delay = (uint64_t)(rand_r(&seed) % 4) * MS / 8;
        int code = tickless_scope_schedule(&crowd->scope, delay, count_nothing, &crowd->released,
                                           count_one, key);
        CHECK(code == TICKLESS_OK || code == TICKLESS_E_HANDLE);
        count_one(&crowd->scheduled);
        if (code == TICKLESS_E_HANDLE) {
            break;
        }
        switch (rand_r(&seed) % 4) {
        case 0:
            CHECK(tickless_scope_cancel(&crowd->scope, *key) <= 1);
            break;
        case 1:
            tickless_scope_reset(&crowd->scope, keys[rand_r(&seed) % 8], MS);
            break;
        case 2:
            if (round % 64 == 0) {
                tickless_scope_cancel_all(&crowd->scope);
            }
            break;
        }
    }
    return NULL;
}

static void what_threads_schedule_in_one_scope_is_released_once(void) {
    int is_ended_meanwhile;
    for (is_ended_meanwhile = 0; is_ended_meanwhile < 2; is_ended_meanwhile++) {
        tickless_engine *engine = threaded_engine();
        struct crowd crowd = {{{0}}, COUNT_INIT, COUNT_INIT, 0};
        pthread_t threads[3];
        int i;
        OK(tickless_scope_init(engine, &crowd.scope));
        for (i = 0; i < 3; i++) {
            CHECK(pthread_create(&threads[i], NULL, use_scope, &crowd) == 0);
        }
        if (is_ended_meanwhile) {
            count_wait(&crowd.scheduled, rounds / 2);
            OK(tickless_scope_end(&crowd.scope, TICKLESS_NEVER));
        }
        for (i = 0; i < 3; i++) {
            CHECK(pthread_join(threads[i], NULL) == 0);
        }
        RETURNS(is_ended_meanwhile ? TICKLESS_E_HANDLE : TICKLESS_OK,
                tickless_scope_end(&crowd.scope, TICKLESS_NEVER));
        CHECK(count_now(&crowd.released) == count_now(&crowd.scheduled));
        OK(tickless_engine_free(engine));
    }
}

/* A thread that ends a connection, whose callbacks use it, and frees it right after. */
static void use_connection(void *user_data) {
    struct connection *connection = user_data;
    int code;
    count_one(connection->ended);
    code = tickless_scope_schedule(&connection->timers, 0, count_nothing, NULL, NULL, NULL);
    CHECK(code == TICKLESS_OK || code == TICKLESS_E_HANDLE);
}

static void a_connection_is_freed_when_its_scope_has_ended(void) {
    tickless_engine *engine = threaded_engine();
    struct count used = COUNT_INIT;
    long round;
    for (round = 0; round < rounds; round++) {
        struct connection *connection = connect_to(engine, &used);
        int i;
        for (i = 0; i < 3; i++) {
            OK(tickless_scope_schedule(&connection->timers, (uint64_t)i * MS / 100, use_connection,
                                       connection, NULL, NULL));
        }
        OK(tickless_scope_end(&connection->timers, TICKLESS_NEVER));
        memset(connection, 0x5a, sizeof *connection);
        free(connection);
    }
    OK(tickless_engine_free(engine));
}

static void a_key_of_a_scope_that_was_ended_finds_nothing_in_the_next_in_that_memory(void) {
    tickless_engine *engine = manual_engine();
    tickless_scope scope, other;
    tickless_scope_key stale, key, of_other;
    OK(tickless_scope_init(engine, &scope));
    OK(tickless_scope_schedule(&scope, HOUR, count_nothing, NULL, NULL, &stale));
    OK(tickless_scope_end(&scope, 0));
    OK(tickless_scope_init(engine, &scope));
    OK(tickless_scope_init(engine, &other));
    OK(tickless_scope_schedule(&scope, HOUR, count_nothing, NULL, NULL, &key));
    OK(tickless_scope_schedule(&other, HOUR, count_nothing, NULL, NULL, &of_other));
    RETURNS(0, tickless_scope_cancel(&scope, stale));
    RETURNS(TICKLESS_E_TOO_LATE, tickless_scope_reset(&scope, stale, MS));
    RETURNS(0, tickless_scope_cancel(&scope, of_other));
    RETURNS(0, tickless_scope_cancel(&other, key));
    RETURNS(1, tickless_scope_cancel(&scope, key));
    RETURNS(1, tickless_scope_cancel(&other, of_other));
    OK(tickless_scope_end(&scope, 0));
    OK(tickless_scope_end(&other, 0));
    OK(tickless_engine_free(engine));
}

int main(int argc, char **argv) {
    if (argc > 1) {
        rounds = atol(argv[1]) / 10;
    }
    RUN(the_timers_of_a_scope_fire_move_and_end_by_their_keys);
    RUN(a_key_of_a_scope_that_was_ended_finds_nothing_in_the_next_in_that_memory);
    RUN(a_scope_that_is_none_is_refused_and_user_data_is_released);
    RUN(an_engine_that_is_full_or_stops_or_is_freed_leaves_a_scope_that_can_be_ended);
    RUN(a_schedule_that_fails_zeroes_the_key_before_it_releases_the_user_data);
    RUN(a_callback_ends_its_scope_and_frees_the_memory_in_which_it_lies);
    RUN(the_end_of_a_scope_waits_for_a_callback_that_runs_and_its_release);
    RUN(of_two_callbacks_that_end_their_scope_one_does);
    RUN(a_release_may_use_the_scope_that_it_comes_from);
    RUN(what_threads_schedule_in_one_scope_is_released_once);
    RUN(a_connection_is_freed_when_its_scope_has_ended);
    return 0;
}
