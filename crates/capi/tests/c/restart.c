/* Timers that are started again, as libuv's and libevent's are: whatever they are in the middle of, and by
 * their own callbacks. */
#include "check.h"

struct ticker {
    tickless_engine *engine;
    tickless_timer timer;
    uint64_t runs, wanted, period, next;
};

static void tick_after(void *user_data) {
    struct ticker *ticker = user_data;
    if (++ticker->runs < ticker->wanted) {
        OK(tickless_timer_restart(ticker->engine, &ticker->timer, ticker->period, tick_after, ticker,
                                  NULL));
    }
}

static void tick_at(void *user_data) {
    struct ticker *ticker = user_data;
    if (++ticker->runs < ticker->wanted) {
        tickless_when when = {0, 0, TICKLESS_AT};
        when.time_ns = ticker->next += ticker->period;
        OK(tickless_timer_restart_when(ticker->engine, &ticker->timer, &when, tick_at, ticker, NULL));
    }
}

static void a_callback_starts_its_timer_again(void) {
    struct ticker ticker;
    memset(&ticker, 0, sizeof ticker);
    ticker.engine = manual_engine();
    ticker.wanted = 1000;
    ticker.period = 10 * MS;
    OK(tickless_timer_restart(ticker.engine, &ticker.timer, 0, tick_after, &ticker, NULL));
    CHECK(advance(ticker.engine, 999 * ticker.period) == 1000);
    RETURNS(TICKLESS_STATE_FIRED, tickless_timer_state(&ticker.timer));
    ticker.runs = 0;
    OK(tickless_now_ns(ticker.engine, &ticker.next));
    OK(tickless_timer_restart(ticker.engine, &ticker.timer, 0, tick_at, &ticker, NULL));
    CHECK(advance(ticker.engine, 999 * ticker.period) == 1000);
    RETURNS(0, tickless_timer_cancel(&ticker.timer));
    OK(tickless_engine_free(ticker.engine));
}

static void a_timer_is_started_whatever_it_is_in_the_middle_of(void) {
    tickless_engine *engine = manual_engine();
    struct count runs = COUNT_INIT, released = COUNT_INIT;
    tickless_when waitable = {SECOND, 0, TICKLESS_WAITABLE};
    tickless_timer timer;
    memset(&timer, 0, sizeof timer);
    /* Never scheduled. */
    OK(tickless_timer_restart(engine, &timer, SECOND, count_one, &runs, NULL));
    /* Pending: due at the later time, and at no other. */
    CHECK(advance(engine, SECOND / 2) == 0);
    OK(tickless_timer_restart(engine, &timer, SECOND, count_one, &runs, NULL));
    CHECK(advance(engine, SECOND - MS) == 0 && advance(engine, MS) == 1 && count_now(&runs) == 1);
    /* Fired. */
    OK(tickless_timer_restart(engine, &timer, SECOND, count_nothing, &released, count_one));
    /* Pending, with user data: that is released once. */
    OK(tickless_timer_restart(engine, &timer, SECOND, count_nothing, &released, count_one));
    CHECK(count_now(&released) == 1);
    RETURNS(1, tickless_timer_cancel(&timer));
    CHECK(count_now(&released) == 2);
    /* Ended. */
    OK(tickless_timer_restart_when(engine, &timer, &waitable, count_one, &runs, NULL));
    OK(tickless_timer_restart(engine, &timer, SECOND, count_one, &runs, NULL));
    RETURNS(TICKLESS_E_NOT_WAITABLE, tickless_timer_cancel_wait(&timer, TICKLESS_NEVER));
    OK(tickless_timer_restart_when(engine, &timer, &waitable, count_one, &runs, NULL));
    CHECK(advance(engine, SECOND) == 1 && count_now(&runs) == 2);
    RETURNS(0, tickless_timer_cancel_wait(&timer, TICKLESS_NEVER));
    OK(tickless_engine_free(engine));
}

/* A release whose own calls fail. */
static void release_badly(void *user_data) {
    tickless_timer none;
    memset(&none, 0, sizeof none);
    RETURNS(TICKLESS_E_HANDLE, tickless_timer_cancel(&none));
    count_one(user_data);
}

static void a_call_that_fails_releases_its_user_data_and_has_the_message_that_counts(void) {
    tickless_engine *engine = manual_engine();
    struct count released = COUNT_INIT;
    const tickless_when wrong = {0, 0, 64}, waitable = {0, 0, TICKLESS_WAITABLE};
    tickless_timer timer;
    void *data = &released;
    memset(&timer, 0, sizeof timer);
#define FAILS(code, word, call)                                                                \
    do {                                                                                       \
        long before = count_now(&released);                                                    \
        RETURNS(code, call);                                                                   \
        CHECK(strstr(tickless_last_error(), word) != NULL);                                    \
        CHECK(count_now(&released) == before + 1);                                             \
    } while (0)
    FAILS(TICKLESS_E_NULL, "engine", tickless_schedule(NULL, 0, count_one, data, release_badly, &timer));
    FAILS(TICKLESS_E_NULL, "run", tickless_schedule(engine, 0, NULL, data, release_badly, &timer));
    FAILS(TICKLESS_E_NULL, "when",
          tickless_schedule_when(engine, NULL, count_one, data, release_badly, &timer));
    FAILS(TICKLESS_E_ARGUMENT, "flags",
          tickless_schedule_when(engine, &wrong, count_one, data, release_badly, &timer));
    FAILS(TICKLESS_E_ARGUMENT, "keeps",
          tickless_schedule_when(engine, &waitable, count_one, data, release_badly, NULL));
    FAILS(TICKLESS_E_NULL, "timer",
          tickless_timer_restart(engine, NULL, 0, count_one, data, release_badly));
    FAILS(TICKLESS_E_NULL, "engine",
          tickless_timer_restart(NULL, &timer, 0, count_one, data, release_badly));
    OK(tickless_engine_stop(engine, TICKLESS_NEVER, NULL, NULL));
    FAILS(TICKLESS_E_STOPPED, "stopped",
          tickless_schedule(engine, 0, count_one, data, release_badly, &timer));
    FAILS(TICKLESS_E_STOPPED, "stopped",
          tickless_timer_restart(engine, &timer, 0, count_one, data, release_badly));
    memset(&timer, 0x5a, sizeof timer);
    FAILS(TICKLESS_E_HANDLE, "not a timer",
          tickless_timer_restart(engine, &timer, 0, count_one, data, release_badly));
    OK(tickless_engine_free(engine));
}

struct again {
    tickless_engine *engine;
    tickless_timer timer;
    struct count begun, started, may_end;
};

/* Starts its timer again in the middle of a wait that ends it. */
static void start_again_in_a_wait(void *user_data) {
    const struct timespec moment = {0, 10000};
    struct again *again = user_data;
    count_one(&again->begun);
    while (tickless_timer_state(&again->timer) != TICKLESS_E_HANDLE) {
        nanosleep(&moment, NULL);
    }
    OK(tickless_timer_restart(again->engine, &again->timer, HOUR, count_nothing, NULL, NULL));
    count_one(&again->started);
    count_wait(&again->may_end, 1);
}

static void what_a_callback_starts_during_a_wait_for_it_is_another_timer(void) {
    const tickless_when now = {0, 0, TICKLESS_WAITABLE};
    struct again again = {NULL, {{0}}, COUNT_INIT, COUNT_INIT, COUNT_INIT};
    OK(tickless_engine_new(NULL, &again.engine));
    OK(tickless_schedule_when(again.engine, &now, start_again_in_a_wait, &again, NULL, &again.timer));
    count_wait(&again.begun, 1);
    /* A wait that fails does not put its timer back over the new one, and leaves nothing of it. */
    while (count_now(&again.started) == 0) {
        int code = tickless_timer_cancel_wait(&again.timer, 100 * MS);
        CHECK(code == TICKLESS_E_TIMED_OUT || code == TICKLESS_E_NOT_WAITABLE);
    }
    RETURNS(1, tickless_timer_cancel(&again.timer));
    count_one(&again.may_end);
    /* Nor does one that succeeds end the new one. */
    OK(tickless_schedule_when(again.engine, &now, start_again_in_a_wait, &again, NULL, &again.timer));
    count_wait(&again.begun, 2);
    RETURNS(0, tickless_timer_cancel_wait(&again.timer, TICKLESS_NEVER));
    RETURNS(1, tickless_timer_cancel(&again.timer));
    OK(tickless_engine_free(again.engine));
}

static void note_run(void *user_data) {
    ++*(int *)user_data;
}

static void note_release(void *user_data) {
    *(int *)user_data += 100;
}

static void a_timer_that_is_rearmed_is_moved_if_it_is_pending_and_else_started(void) {
    tickless_engine *engine = manual_engine();
    tickless_timer timer;
    int first = 0, second = 0, third = 0;
    memset(&timer, 0, sizeof timer);
    OK(tickless_timer_rearm(engine, &timer, 10 * MS, note_run, &first, note_release));
    CHECK(advance(engine, 5 * MS) == 0);
    /* It is moved, and what the call brings is released. */
    OK(tickless_timer_rearm(engine, &timer, 10 * MS, note_run, &second, note_release));
    CHECK(first == 0 && second == 100 && advance(engine, 9 * MS) == 0);
    CHECK(advance(engine, 2 * MS) == 1 && first == 101 && second == 100);
    /* It has fired, and is started. */
    OK(tickless_timer_rearm(engine, &timer, MS, note_run, &third, note_release));
    CHECK(advance(engine, 2 * MS) == 1 && third == 101);
    RETURNS(TICKLESS_E_NULL, tickless_timer_rearm(engine, &timer, MS, NULL, &third, note_release));
    RETURNS(TICKLESS_E_NULL, tickless_timer_rearm(engine, NULL, MS, note_run, &third, note_release));
    CHECK(third == 301);
    RETURNS(0, tickless_timer_cancel(&timer));
    OK(tickless_engine_free(engine));
    RETURNS(TICKLESS_E_HANDLE, tickless_timer_rearm(engine, &timer, MS, note_run, &third, note_release));
    CHECK(third == 401);
}

int main(void) {
    RUN(a_callback_starts_its_timer_again);
    RUN(a_timer_is_started_whatever_it_is_in_the_middle_of);
    RUN(a_timer_that_is_rearmed_is_moved_if_it_is_pending_and_else_started);
    RUN(a_call_that_fails_releases_its_user_data_and_has_the_message_that_counts);
    RUN(what_a_callback_starts_during_a_wait_for_it_is_another_timer);
    return 0;
}
