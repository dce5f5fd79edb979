/* One thread and a clock that is moved by hand: what programs do with timers. The scenarios are those
 * of the tests of timers in libuv and libevent, of which ../README.md has a list. */
#include "check.h"

static tickless_engine *engine;
static char order[64];

/* Appends its letter. */
static void note(void *letter) {
    strncat(order, letter, sizeof order - strlen(order) - 1);
}

static void add_one(void *n) {
    ++*(int *)n;
}

static void many_timers_fire_in_the_order_of_their_deadlines(void) {
    int i;
    char letters[26][2];
    order[0] = 0;
    for (i = 25; i >= 0; i--) {
        letters[i][0] = (char)('a' + i);
        letters[i][1] = 0;
        OK(tickless_schedule(engine, (uint64_t)(i + 1) * 7 * MS, note, letters[i], NULL, NULL));
    }
    CHECK(advance(engine, 26 * 7 * MS) == 26);
    CHECK(strcmp(order, "abcdefghijklmnopqrstuvwxyz") == 0);
}

static void a_timer_without_a_delay_fires_in_the_next_turn_but_not_in_the_call(void) {
    int fired = 0;
    OK(tickless_schedule(engine, 0, add_one, &fired, NULL, NULL));
    CHECK(fired == 0);
    CHECK(advance(engine, 0) == 1 && fired == 1);
}

static void a_huge_delay_never_fires_and_can_be_cancelled(void) {
    const uint64_t delays[] = {TICKLESS_NEVER, TICKLESS_NEVER - 1, UINT64_C(1) << 63};
    int fired = 0;
    size_t i;
    for (i = 0; i < sizeof delays / sizeof delays[0]; i++) {
        tickless_timer timer;
        uint64_t deadline;
        OK(tickless_schedule(engine, delays[i], add_one, &fired, NULL, &timer));
        CHECK(advance(engine, 1000 * HOUR) == 0);
        OK(tickless_timer_deadline_ns(&timer, &deadline));
        CHECK(delays[i] != TICKLESS_NEVER || deadline == TICKLESS_NEVER);
        RETURNS(1, tickless_timer_cancel(&timer));
    }
    CHECK(fired == 0);
}

static void a_timer_that_is_started_again_fires_once_at_the_later_time(void) {
    tickless_timer timer;
    int fired = 0;
    OK(tickless_schedule(engine, 10 * MS, add_one, &fired, NULL, &timer));
    CHECK(advance(engine, 9 * MS) == 0);
    OK(tickless_timer_reset(&timer, 10 * MS));
    CHECK(advance(engine, 9 * MS) == 0);
    RETURNS(TICKLESS_STATE_PENDING, tickless_timer_state(&timer));
    CHECK(advance(engine, 1 * MS) == 1 && fired == 1);
    RETURNS(TICKLESS_STATE_FIRED, tickless_timer_state(&timer));
    RETURNS(TICKLESS_E_TOO_LATE, tickless_timer_reset(&timer, 10 * MS));
    RETURNS(0, tickless_timer_cancel(&timer));
    CHECK(advance(engine, HOUR) == 0);
}

static void a_timer_can_be_moved_to_an_earlier_time(void) {
    tickless_timer timer;
    int fired = 0;
    OK(tickless_schedule(engine, 100 * HOUR, add_one, &fired, NULL, &timer));
    OK(tickless_timer_reset(&timer, 1 * MS));
    CHECK(advance(engine, 1 * MS) == 1 && fired == 1);
    OK(tickless_timer_detach(&timer));
    CHECK(advance(engine, 200 * HOUR) == 0);
}

struct repeating {
    int left;
    int fired;
    tickless_timer timer;
};

static void repeat(void *user_data) {
    struct repeating *repeating = user_data;
    repeating->fired++;
    OK(tickless_timer_detach(&repeating->timer));
    if (--repeating->left > 0) {
        OK(tickless_schedule(engine, 5 * MS, repeat, repeating, NULL, &repeating->timer));
    }
}

static void a_callback_schedules_itself_again_in_the_same_memory(void) {
    struct repeating repeating = {100, 0, {{0}}};
    OK(tickless_schedule(engine, 5 * MS, repeat, &repeating, NULL, &repeating.timer));
    CHECK(advance(engine, 50 * MS) == 10 && repeating.fired == 10);
    CHECK(advance(engine, HOUR) == 90 && repeating.fired == 100);
    RETURNS(TICKLESS_E_HANDLE, tickless_timer_cancel(&repeating.timer));
}

static void cancel_it(void *timer) {
    RETURNS(1, tickless_timer_cancel(timer));
}

static void a_callback_cancels_one_that_is_due_later(void) {
    tickless_timer other;
    int fired = 0;
    OK(tickless_schedule(engine, 2 * MS, add_one, &fired, NULL, &other));
    OK(tickless_schedule(engine, 1 * MS, cancel_it, &other, NULL, NULL));
    CHECK(advance(engine, 10 * MS) == 1 && fired == 0);
}

static void a_callback_cancels_one_of_its_own_batch_that_can_be_waited_for(void) {
    const tickless_when when = {1 * MS, 0, TICKLESS_WAITABLE};
    tickless_timer timers[2];
    int i, fired = 0;
    /* Which one of the two begins is not said: the first cancels the second. */
    for (i = 0; i < 2; i++) {
        OK(tickless_schedule_when(engine, &when, cancel_it, &timers[!i], NULL, &timers[i]));
    }
    CHECK(advance(engine, 1 * MS) == 2);
    for (i = 0; i < 2; i++) {
        int state = tickless_timer_state(&timers[i]);
        if (state == TICKLESS_STATE_FINISHED) {
            fired++;
            RETURNS(0, tickless_timer_cancel_wait(&timers[i], TICKLESS_NEVER));
        } else {
            CHECK(state == TICKLESS_E_HANDLE);
        }
    }
    CHECK(fired == 1);
}

struct request {
    tickless_timer timer;
    int *freed;
};

static void nothing(void *user_data) {
    (void)user_data;
}

/* The memory of the timer is a part of what the timer's end releases. */
static void free_request(void *user_data) {
    struct request *request = user_data;
    ++*request->freed;
    free(request);
}

static void the_memory_of_a_timer_may_lie_in_what_its_end_releases(void) {
    const tickless_when waitable = {10 * MS, 0, TICKLESS_WAITABLE};
    int i, freed = 0;
    for (i = 0; i < 4; i++) {
        struct request *request = malloc(sizeof *request);
        request->freed = &freed;
        if (i < 2) {
            OK(tickless_schedule(engine, 10 * MS, nothing, request, free_request,
                                 &request->timer));
        } else {
            OK(tickless_schedule_when(engine, &waitable, nothing, request, free_request,
                                      &request->timer));
        }
        if (i % 2 == 0) {
            RETURNS(1, tickless_timer_cancel(&request->timer));
        } else if (i == 3) {
            RETURNS(1, tickless_timer_cancel_wait(&request->timer, TICKLESS_NEVER));
        } else {
            OK(tickless_timer_detach(&request->timer));
            CHECK(advance(engine, 10 * MS) == 1);
        }
        CHECK(freed == i + 1);
    }
}

static void a_detached_timer_fires(void) {
    tickless_timer timer;
    int fired = 0;
    OK(tickless_schedule(engine, 3 * MS, add_one, &fired, NULL, &timer));
    OK(tickless_timer_detach(&timer));
    CHECK(advance(engine, 3 * MS) == 1 && fired == 1);
}

static void a_deadline_is_a_time_of_the_engines_clock_and_one_that_has_passed_is_due(void) {
    tickless_when when = {0, 0, TICKLESS_AT};
    uint64_t now, deadline;
    tickless_timer timer;
    int fired = 0;
    OK(tickless_now_ns(engine, &now));
    when.time_ns = now + 25 * MS;
    OK(tickless_schedule_when(engine, &when, add_one, &fired, NULL, &timer));
    OK(tickless_timer_deadline_ns(&timer, &deadline));
    CHECK(deadline >= now + 25 * MS && deadline < now + 27 * MS);
    CHECK(advance(engine, 24 * MS) == 0);
    CHECK(advance(engine, 2 * MS) == 1);
    OK(tickless_timer_detach(&timer));
    when.time_ns = 0;
    OK(tickless_schedule_when(engine, &when, add_one, &fired, NULL, NULL));
    CHECK(advance(engine, 0) == 1);
    OK(tickless_schedule(engine, HOUR, add_one, &fired, NULL, &timer));
    OK(tickless_now_ns(engine, &now));
    when.time_ns = now + 5 * MS;
    OK(tickless_timer_reset_when(&timer, &when));
    CHECK(advance(engine, 6 * MS) == 1 && fired == 3);
    OK(tickless_timer_detach(&timer));
}

static void timers_with_a_slack_share_their_wake_ups(void) {
    int i, fired = 0;
    uint64_t before = stats_of(engine).cascaded;
    for (i = 0; i < 100; i++) {
        tickless_when when = {30 * SECOND, 3 * SECOND, 0};
        when.time_ns += (uint64_t)i * 10 * MS;
        OK(tickless_schedule_when(engine, &when, add_one, &fired, NULL, NULL));
    }
    CHECK(advance(engine, 29 * SECOND) == 0);
    CHECK(advance(engine, 4 * SECOND + 1 * SECOND) == 100 && fired == 100);
    CHECK(stats_of(engine).cascaded == before);
}

static void thousands_with_one_timeout_fire_together(void) {
    enum { N = 10000 };
    static tickless_timer timers[N];
    int i, fired = 0;
    for (i = 0; i < N; i++) {
        OK(tickless_schedule(engine, SECOND, add_one, &fired, NULL, &timers[i]));
    }
    for (i = 0; i < N; i += 2) {
        RETURNS(1, tickless_timer_cancel(&timers[i]));
    }
    CHECK(advance(engine, SECOND - 1 * MS) == 0);
    CHECK(advance(engine, 1 * MS) == N / 2 && fired == N / 2);
    for (i = 1; i < N; i += 2) {
        OK(tickless_timer_detach(&timers[i]));
    }
}

/* Ten that fire once, one that repeats, and one that is stopped before its time. */
static void once_often_and_never(void) {
    struct repeating repeating = {5, 0, {{0}}};
    tickless_timer once[10], stopped;
    int i, fired = 0, never = 0;
    for (i = 0; i < 10; i++) {
        OK(tickless_schedule(engine, (uint64_t)i * 50 * MS, add_one, &fired, NULL, &once[i]));
    }
    OK(tickless_schedule(engine, 100 * MS, repeat, &repeating, NULL, &repeating.timer));
    OK(tickless_schedule(engine, 100 * MS, add_one, &never, NULL, &stopped));
    RETURNS(1, tickless_timer_cancel(&stopped));
    CHECK(advance(engine, 500 * MS) == 15);
    CHECK(fired == 10 && repeating.fired == 5 && never == 0);
    for (i = 0; i < 10; i++) {
        OK(tickless_timer_detach(&once[i]));
    }
}

static void postpone(void *timer) {
    OK(tickless_timer_reset(timer, 10 * MS));
}

static void a_callback_moves_another_timer(void) {
    tickless_timer other;
    int i, fired = 0;
    OK(tickless_schedule(engine, 6 * MS, add_one, &fired, NULL, &other));
    for (i = 1; i <= 10; i++) {
        OK(tickless_schedule(engine, (uint64_t)i * 5 * MS, postpone, &other, NULL, NULL));
    }
    CHECK(advance(engine, 59 * MS) == 10 && fired == 0);
    CHECK(advance(engine, 1 * MS) == 1 && fired == 1);
    OK(tickless_timer_detach(&other));
}

static void a_timer_that_is_moved_to_never_waits_until_it_is_moved_again(void) {
    tickless_timer timer;
    uint64_t deadline;
    int fired = 0;
    OK(tickless_schedule(engine, 10 * MS, add_one, &fired, NULL, &timer));
    OK(tickless_timer_reset(&timer, TICKLESS_NEVER));
    OK(tickless_timer_deadline_ns(&timer, &deadline));
    CHECK(deadline == TICKLESS_NEVER && advance(engine, 100 * HOUR) == 0);
    RETURNS(TICKLESS_STATE_PENDING, tickless_timer_state(&timer));
    OK(tickless_timer_reset(&timer, 10 * MS));
    CHECK(advance(engine, 9 * MS) == 0 && advance(engine, 1 * MS) == 1 && fired == 1);
    OK(tickless_timer_detach(&timer));
}

static void again_at_once(void *n) {
    if (++*(int *)n < 1000) {
        OK(tickless_schedule(engine, 0, again_at_once, n, NULL, NULL));
    }
}

static void a_callback_that_schedules_itself_without_a_delay_lets_a_turn_end(void) {
    tickless_turn_info turn = {.size = sizeof turn};
    int n = 0, turns = 0;
    OK(tickless_schedule(engine, 0, again_at_once, &n, NULL, NULL));
    while (n < 1000) {
        int before = n;
        /* As many as are due: what becomes due meanwhile is for the next turn. */
        OK(tickless_turn(engine, 0, 0, &turn));
        CHECK(turn.fired <= 1 && n - before == (int)turn.fired && ++turns < 10000);
        CHECK(turn.sleep_ns == 0 || n == 1000);
    }
    CHECK(advance(engine, HOUR) == 0);
}

struct seeing {
    uint64_t asked, seen;
};

static void look(void *user_data) {
    struct seeing *seeing = user_data;
    OK(tickless_now_ns(engine, &seeing->seen));
}

static void a_callback_sees_the_time_at_which_it_is_due_however_far_time_moves(void) {
    struct seeing seeing[50];
    uint64_t now;
    int i;
    OK(tickless_now_ns(engine, &now));
    for (i = 0; i < 50; i++) {
        seeing[i].asked = now + (uint64_t)i * 37 * MS;
        OK(tickless_schedule(engine, seeing[i].asked - now, look, &seeing[i], NULL, NULL));
    }
    CHECK(advance(engine, HOUR) == 50);
    for (i = 0; i < 50; i++) {
        CHECK(seeing[i].seen >= seeing[i].asked && seeing[i].seen < seeing[i].asked + MS);
    }
}

/* Timers that end, move and start each other at random, and what should become of each. */
enum { STORM = 200 };

struct storm {
    tickless_timer timer;
    /* 0: it does not run. */
    uint64_t due;
    long fired;
};

static struct storm storm[STORM];
static long storm_left;
static uint32_t storm_state = 12345;

static uint32_t storm_random(uint32_t below) {
    storm_state ^= storm_state << 13;
    storm_state ^= storm_state >> 17;
    storm_state ^= storm_state << 5;
    return storm_state % below;
}

static void storm_fire(void *user_data);

static void storm_move_one(uint64_t now) {
    struct storm *one = &storm[storm_random(STORM)];
    /* From none to some minutes: all levels of the wheel. */
    uint64_t delay = (uint64_t)storm_random(1000) << storm_random(9);
    delay *= MS;
    if (one->due == 0) {
        OK(tickless_schedule(engine, delay, storm_fire, one, NULL, &one->timer));
        one->due = now + delay;
    } else if (storm_random(2) == 0) {
        int code = tickless_timer_reset(&one->timer, delay);
        /* One that was handed over in the same turn can no longer be moved. */
        CHECK(code == TICKLESS_OK || (code == TICKLESS_E_TOO_LATE && one->due <= now));
        one->due = code == TICKLESS_OK ? now + delay : one->due;
    } else if (tickless_timer_cancel(&one->timer) == 1) {
        one->due = 0;
    } else {
        /* It is about to fire, and is ended then, too. */
        CHECK(one->due <= now);
    }
}

static void storm_fire(void *user_data) {
    struct storm *one = user_data;
    uint64_t now;
    int i, code;
    OK(tickless_now_ns(engine, &now));
    CHECK(one->due != 0 && now >= one->due && now < one->due + MS);
    one->due = 0;
    one->fired++;
    code = tickless_timer_detach(&one->timer);
    CHECK(code == TICKLESS_OK || code == TICKLESS_E_HANDLE);
    for (i = 0; i < 3 && storm_left > 0; i++, storm_left--) {
        storm_move_one(now);
    }
}

static void a_storm_of_timers_that_start_and_move_and_end_each_other_fires_each_in_time(void) {
    uint64_t now, before = stats_of(engine).fired;
    long fired = 0;
    int i;
    OK(tickless_now_ns(engine, &now));
    storm_left = 20000;
    while (storm_left > 0) {
        storm_move_one(now);
        storm_left--;
        OK(tickless_advance(engine, (uint64_t)storm_random(20) * MS, NULL));
        OK(tickless_now_ns(engine, &now));
    }
    OK(tickless_advance(engine, 1000 * HOUR, NULL));
    for (i = 0; i < STORM; i++) {
        CHECK(storm[i].due == 0);
        fired += storm[i].fired;
    }
    CHECK(fired > 1000 && stats_of(engine).fired - before == (uint64_t)fired);
}

static void the_numbers_add_up(void) {
    tickless_stats_info stats = stats_of(engine);
    tickless_overdue_info overdue = {sizeof overdue, 1, 1, 1};
    CHECK(stats.scheduled > 10000 && stats.pending == 0);
    CHECK(stats.scheduled == stats.cancelled + stats.fired + stats.returned);
    OK(tickless_overdue(engine, &overdue));
    CHECK(overdue.oldest_ns == 0 && overdue.shards == 0 && overdue.stuck == 0);
    OK(tickless_schedule(engine, 10 * MS, nothing, NULL, NULL, NULL));
    OK(tickless_clock_advance(engine, 35 * MS));
    OK(tickless_overdue(engine, &overdue));
    CHECK(overdue.oldest_ns == 25 * MS && overdue.shards == 1);
    CHECK(advance(engine, 0) == 1);
}

int main(void) {
    engine = manual_engine();
    RUN(many_timers_fire_in_the_order_of_their_deadlines);
    RUN(a_timer_without_a_delay_fires_in_the_next_turn_but_not_in_the_call);
    RUN(a_huge_delay_never_fires_and_can_be_cancelled);
    RUN(a_timer_that_is_started_again_fires_once_at_the_later_time);
    RUN(a_timer_can_be_moved_to_an_earlier_time);
    RUN(a_callback_schedules_itself_again_in_the_same_memory);
    RUN(a_callback_cancels_one_that_is_due_later);
    RUN(a_callback_cancels_one_of_its_own_batch_that_can_be_waited_for);
    RUN(the_memory_of_a_timer_may_lie_in_what_its_end_releases);
    RUN(a_detached_timer_fires);
    RUN(a_deadline_is_a_time_of_the_engines_clock_and_one_that_has_passed_is_due);
    RUN(timers_with_a_slack_share_their_wake_ups);
    RUN(thousands_with_one_timeout_fire_together);
    RUN(once_often_and_never);
    RUN(a_callback_moves_another_timer);
    RUN(a_timer_that_is_moved_to_never_waits_until_it_is_moved_again);
    RUN(a_callback_that_schedules_itself_without_a_delay_lets_a_turn_end);
    RUN(a_callback_sees_the_time_at_which_it_is_due_however_far_time_moves);
    RUN(a_storm_of_timers_that_start_and_move_and_end_each_other_fires_each_in_time);
    RUN(the_numbers_add_up);
    OK(tickless_engine_free(engine));
    return 0;
}
