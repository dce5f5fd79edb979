/* The wheel for one loop: what programs do with it. That it agrees with Rust's is tested by
 * ../wheel.rs. */
#include <stdio.h>
#include <stdlib.h>

#include "tickless_wheel.h"

#define CHECK(condition)                                                                       \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);      \
            abort();                                                                           \
        }                                                                                      \
    } while (0)

#define RUN(test)                                                                              \
    do {                                                                                       \
        test();                                                                                \
        printf("ok %s\n", #test);                                                              \
    } while (0)

#define ALL UINT64_MAX

/* A user's struct, with the timer in its midst. */
struct object {
    int fired;
    struct tickless_wheel_timer timer;
    struct tickless_wheel *wheel;
    struct object *other;
    uint64_t period;
};

static struct object *owner(struct tickless_wheel_timer *timer) {
    return TICKLESS_WHEEL_OWNER(timer, struct object, timer);
}

static void count(struct tickless_wheel_timer *timer, void *context) {
    struct object *object = owner(timer);
    CHECK(!tickless_wheel_is_pending(timer));
    CHECK(tickless_wheel_deadline(timer) <= tickless_wheel_now(object->wheel));
    object->fired++;
    if (context != NULL) {
        ++*(int *)context;
    }
}

static struct tickless_wheel wheel;

static struct object object_of(struct tickless_wheel *its) {
    struct object object = {0};
    object.wheel = its;
    return object;
}

static void a_timer_fires_at_its_deadline_and_not_before(void) {
    const uint64_t starts[] = {0, 1, 255, 256, 65535, UINT64_C(1) << 40};
    unsigned i, bit;
    for (i = 0; i < sizeof starts / sizeof *starts; i++) {
        for (bit = 0; bit < 63; bit++) {
            struct object object = object_of(&wheel);
            uint64_t deadline = starts[i] + (UINT64_C(1) << bit), next;
            int steps = 0;
            tickless_wheel_init(&wheel, starts[i]);
            tickless_wheel_add(&wheel, &object.timer, deadline);
            CHECK(tickless_wheel_is_pending(&object.timer) && tickless_wheel_count(&wheel) == 1);
            while ((next = tickless_wheel_next(&wheel)) < deadline) {
                CHECK(next > tickless_wheel_now(&wheel) && ++steps <= 8);
                CHECK(tickless_wheel_advance(&wheel, next, ALL, count, NULL) == 0);
            }
            CHECK(next == deadline);
            CHECK(tickless_wheel_advance(&wheel, deadline - 1, ALL, count, NULL) == 0);
            CHECK(tickless_wheel_advance(&wheel, deadline, ALL, count, NULL) == 1);
            CHECK(object.fired == 1 && tickless_wheel_next(&wheel) == TICKLESS_WHEEL_NEVER);
            CHECK(tickless_wheel_count(&wheel) == 0);
        }
    }
}

static void a_loop_sleeps_until_the_next_timer_and_no_longer(void) {
    struct object object = object_of(&wheel);
    tickless_wheel_init(&wheel, 100);
    CHECK(tickless_wheel_timeout(&wheel, 100) == -1);
    tickless_wheel_add(&wheel, &object.timer, 130);
    CHECK(tickless_wheel_timeout(&wheel, 100) == 30 && tickless_wheel_timeout(&wheel, 129) == 1);
    CHECK(tickless_wheel_timeout(&wheel, 130) == 0 && tickless_wheel_timeout(&wheel, 200) == 0);
    tickless_wheel_reset(&wheel, &object.timer, UINT64_C(1) << 60);
    CHECK(tickless_wheel_timeout(&wheel, 100) == INT32_MAX);
    tickless_wheel_reset(&wheel, &object.timer, 7);
    CHECK(tickless_wheel_timeout(&wheel, 100) == 0);
    tickless_wheel_cancel(&wheel, &object.timer);
}

static void a_timer_is_cancelled_once_and_moved_as_often_as_one_likes(void) {
    struct object object = object_of(&wheel);
    uint64_t i;
    tickless_wheel_init(&wheel, 7);
    CHECK(!tickless_wheel_cancel(&wheel, &object.timer));
    tickless_wheel_add(&wheel, &object.timer, 1000);
    CHECK(tickless_wheel_cancel(&wheel, &object.timer));
    CHECK(!tickless_wheel_cancel(&wheel, &object.timer));
    CHECK(tickless_wheel_next(&wheel) == TICKLESS_WHEEL_NEVER);
    for (i = 0; i < 1000; i++) {
        tickless_wheel_reset(&wheel, &object.timer, 100 + i * i * 31);
    }
    CHECK(tickless_wheel_count(&wheel) == 1);
    CHECK(tickless_wheel_advance(&wheel, UINT64_C(1) << 50, ALL, count, NULL) == 1);
    CHECK(object.timer.deadline == 100 + 999 * 999 * 31);
}

static void what_is_due_already_fires_at_the_next_advance_also_to_the_same_time(void) {
    struct object past = object_of(&wheel), present = object_of(&wheel);
    tickless_wheel_init(&wheel, 100);
    tickless_wheel_add(&wheel, &past.timer, 3);
    tickless_wheel_add(&wheel, &present.timer, 100);
    CHECK(tickless_wheel_next(&wheel) == 100);
    CHECK(tickless_wheel_advance(&wheel, 100, ALL, count, NULL) == 2);
    tickless_wheel_add(&wheel, &past.timer, 3);
    /* Time does not go back. */
    CHECK(tickless_wheel_advance(&wheel, 50, ALL, count, NULL) == 1);
    CHECK(tickless_wheel_now(&wheel) == 100);
}

/* Adds the other, for a time that has come. */
static void adds_other(struct tickless_wheel_timer *timer, void *context) {
    struct object *object = owner(timer);
    count(timer, context);
    if (object->other != NULL) {
        tickless_wheel_add(&wheel, &object->other->timer, 4);
    }
}

/* Where the limit of the advance before has left others that were due, and whatever leaves meanwhile:
 * before all that comes later. */
static void what_is_due_fires_at_the_next_advance_also_behind_what_a_limit_has_left(void) {
    struct object objects[6];
    int i, ends;
    for (ends = 0; ends < 3; ends++) {
        tickless_wheel_init(&wheel, 100);
        for (i = 0; i < 6; i++) {
            objects[i] = object_of(&wheel);
        }
        objects[2].other = &objects[3];
        for (i = 0; i < 3; i++) {
            tickless_wheel_add(&wheel, &objects[i].timer, 3);
        }
        tickless_wheel_add(&wheel, &objects[5].timer, 200);
        /* Objects 0 and 1 are left, and 3 is added. */
        CHECK(tickless_wheel_advance(&wheel, 100, 8, adds_other, NULL) == 1 && objects[2].fired == 1);
        tickless_wheel_add(&wheel, &objects[4].timer, 5);
        for (i = 0; i < ends; i++) {
            CHECK(tickless_wheel_cancel(&wheel, &objects[i * 3].timer) == 1);
        }
        CHECK(tickless_wheel_advance(&wheel, 1000, UINT64_C(8) * (4 - (unsigned)ends), count, NULL) ==
              4 - (uint64_t)ends);
        CHECK(objects[4].fired == 1 && objects[5].fired == 0 && tickless_wheel_count(&wheel) == 1);
        CHECK(tickless_wheel_advance(&wheel, 1000, ALL, count, NULL) == 1 && objects[5].fired == 1);
    }
}

static void a_timer_for_never_stays(void) {
    struct object object = object_of(&wheel), last = object_of(&wheel);
    tickless_wheel_init(&wheel, 0);
    tickless_wheel_add(&wheel, &object.timer, TICKLESS_WHEEL_NEVER);
    CHECK(tickless_wheel_next(&wheel) == TICKLESS_WHEEL_NEVER);
    tickless_wheel_add(&wheel, &last.timer, TICKLESS_WHEEL_NEVER - 1);
    CHECK(tickless_wheel_advance(&wheel, UINT64_MAX, ALL, count, NULL) == 1);
    CHECK(last.fired == 1 && tickless_wheel_count(&wheel) == 1);
    /* Not at the end of time either. */
    tickless_wheel_reset(&wheel, &object.timer, TICKLESS_WHEEL_NEVER);
    CHECK(tickless_wheel_advance(&wheel, UINT64_MAX, ALL, count, NULL) == 0);
    tickless_wheel_reset(&wheel, &object.timer, 5);
    tickless_wheel_reset(&wheel, &last.timer, 6);
    CHECK(tickless_wheel_advance(&wheel, UINT64_MAX, 8, count, NULL) == 1);
    /* What a limit has left there is no never. */
    CHECK(tickless_wheel_next(&wheel) < TICKLESS_WHEEL_NEVER);
    CHECK(tickless_wheel_timeout(&wheel, UINT64_MAX) == 0);
    CHECK(tickless_wheel_advance(&wheel, UINT64_MAX, 8, count, NULL) == 1);
}

static void again(struct tickless_wheel_timer *timer, void *context) {
    struct object *object = owner(timer);
    count(timer, context);
    tickless_wheel_add(object->wheel, timer, tickless_wheel_now(object->wheel) + object->period);
}

static void a_callback_adds_its_timer_again(void) {
    struct object object = object_of(&wheel);
    tickless_wheel_init(&wheel, 0);
    object.period = 10;
    tickless_wheel_add(&wheel, &object.timer, 10);
    CHECK(tickless_wheel_advance(&wheel, 1005, ALL, again, NULL) == 100);
    /* Without a delay, an advance ends all the same. */
    object.period = 0;
    CHECK(tickless_wheel_advance(&wheel, 1010, ALL, again, NULL) == 1);
    CHECK(tickless_wheel_next(&wheel) == 1010);
    CHECK(tickless_wheel_advance(&wheel, 1010, ALL, again, NULL) == 1);
}

/* A loop inside a callback, as of a dialogue or a wait: time goes on there. */
static void reads_the_time(struct tickless_wheel_timer *timer, void *latest) {
    struct object *object = owner(timer);
    CHECK(tickless_wheel_now(object->wheel) == tickless_wheel_deadline(timer));
    *(uint64_t *)latest = tickless_wheel_latest(object->wheel);
}

static void a_callback_knows_the_time_of_the_advance_beside_that_of_its_timer(void) {
    struct object object = object_of(&wheel);
    uint64_t latest = 0;
    tickless_wheel_init(&wheel, 100);
    CHECK(tickless_wheel_latest(&wheel) == 100);
    tickless_wheel_add(&wheel, &object.timer, 110);
    CHECK(tickless_wheel_advance(&wheel, 1000, ALL, reads_the_time, &latest) == 1);
    CHECK(latest == 1000 && tickless_wheel_now(&wheel) == 1000);
    /* Also if there is nothing to do, and time does not go back. */
    tickless_wheel_advance(&wheel, 2000, ALL, count, NULL);
    tickless_wheel_advance(&wheel, 1500, ALL, count, NULL);
    CHECK(tickless_wheel_latest(&wheel) == 2000);
}

static void turn_inside(struct tickless_wheel_timer *timer, void *context) {
    struct object *object = owner(timer);
    count(timer, context);
    CHECK(tickless_wheel_advance(object->wheel, 130, ALL, count, NULL) == 1);
    CHECK(tickless_wheel_now(object->wheel) == 130);
    tickless_wheel_add(object->wheel, &object->other->timer, 130 + 250);
}

static void a_loop_in_a_callback_moves_time_which_does_not_go_back(void) {
    struct object outer = object_of(&wheel), inner = outer, later = outer;
    outer.other = &later;
    tickless_wheel_init(&wheel, 100);
    tickless_wheel_add(&wheel, &outer.timer, 110);
    tickless_wheel_add(&wheel, &inner.timer, 125);
    CHECK(tickless_wheel_advance(&wheel, 110, ALL, turn_inside, NULL) == 1);
    CHECK(outer.fired == 1 && inner.fired == 1);
    CHECK(tickless_wheel_now(&wheel) == 130);
    /* A loop that has not read the time again sleeps no longer for it. */
    CHECK(tickless_wheel_timeout(&wheel, 110) == 250);
    tickless_wheel_add(&wheel, &outer.timer, 120);
    CHECK(tickless_wheel_timeout(&wheel, 110) == 0);
    CHECK(tickless_wheel_cancel(&wheel, &outer.timer) == 1);
    /* `count` checks that it is not early. */
    CHECK(tickless_wheel_advance(&wheel, 379, ALL, count, NULL) == 0);
    CHECK(tickless_wheel_advance(&wheel, 380, ALL, count, NULL) == 1 && later.fired == 1);
}

static void end_other(struct tickless_wheel_timer *timer, void *context) {
    struct object *object = owner(timer), *other = object->other;
    count(timer, context);
    if (other != NULL && tickless_wheel_cancel(object->wheel, &other->timer)) {
        free(other);
    }
    free(object);
}

static void a_callback_frees_its_timer_and_another_that_is_due_with_it(void) {
    const int pairs = 1000;
    int i, fired = 0;
    tickless_wheel_init(&wheel, 0);
    for (i = 0; i < pairs; i++) {
        struct object *one = calloc(1, sizeof *one), *two = calloc(1, sizeof *two);
        one->wheel = two->wheel = &wheel;
        one->other = two;
        two->other = one;
        /* Far away, so that they come down together. */
        tickless_wheel_add(&wheel, &one->timer, 100000);
        tickless_wheel_add(&wheel, &two->timer, 100000);
    }
    CHECK(tickless_wheel_advance(&wheel, 200000, ALL, end_other, &fired) == (uint64_t)pairs);
    CHECK(fired == pairs && tickless_wheel_count(&wheel) == 0);
}

static void an_advance_with_a_limit_goes_on_where_it_was(void) {
    static struct object objects[1000];
    uint64_t all = 0, n;
    int i, calls = 0;
    tickless_wheel_init(&wheel, 0);
    for (i = 0; i < 1000; i++) {
        objects[i] = object_of(&wheel);
        tickless_wheel_add(&wheel, &objects[i].timer, 500 + (uint64_t)i / 100 * 100);
    }
    do {
        /* Each counts eight. A limit of less is enough for one. */
        n = tickless_wheel_advance(&wheel, 5000, calls < 10 ? 7 : 56, count, NULL);
        CHECK(n <= (calls < 10 ? 1 : 7));
        all += n;
        calls++;
    } while (tickless_wheel_next(&wheel) <= 5000);
    CHECK(all == 1000 && calls >= 10 + 142);
    CHECK(tickless_wheel_now(&wheel) == 5000);
}

/* Two buckets open at 65536, one of them on the third level, and then one at 66560. */
static void an_advance_looks_at_no_more_timers_than_its_limit_while_they_come_down(void) {
    static struct object objects[3000];
    struct object *const last = &objects[2999];
    int i, calls = 0, fired = 0, in_order = 1;
    tickless_wheel_init(&wheel, 0);
    for (i = 0; i < 3000; i++) {
        objects[i] = object_of(&wheel);
        tickless_wheel_add(&wheel, &objects[i].timer, 66000 + (uint64_t)i % 1000);
    }
    while (tickless_wheel_next(&wheel) < 65536) {
        tickless_wheel_advance(&wheel, tickless_wheel_next(&wheel), 10, count, &fired);
    }
    do {
        CHECK(tickless_wheel_advance(&wheel, 65536, 10, count, &fired) == 0);
        calls++;
        CHECK(tickless_wheel_now(&wheel) == 65536 && tickless_wheel_count(&wheel) == 3000);
    } while (tickless_wheel_next(&wheel) == 65536);
    CHECK(calls >= 300 && fired == 0);
    /* While a bucket comes down, its timers can be moved and stopped, also to before and after it. */
    CHECK(tickless_wheel_next(&wheel) <= 66000);
    while (tickless_wheel_next(&wheel) <= 66000 && fired == 0) {
        const uint64_t now = tickless_wheel_next(&wheel);
        CHECK(tickless_wheel_advance(&wheel, now, 1, count, &fired) <= 1);
        if (tickless_wheel_next(&wheel) == now && in_order) {
            CHECK(tickless_wheel_timeout(&wheel, now) == 0);
            CHECK(tickless_wheel_cancel(&wheel, &last->timer));
            tickless_wheel_reset(&wheel, &objects[2998].timer, now);
            tickless_wheel_reset(&wheel, &objects[2997].timer, now + 100000);
            in_order = 0;
        }
    }
    CHECK(!in_order && objects[2998].fired == 1 && last->fired == 0);
    calls = 0;
    while (tickless_wheel_advance(&wheel, 70000, 100, count, &fired), ++calls,
           tickless_wheel_next(&wheel) <= 70000) {
    }
    CHECK(fired == 2998 && calls >= 230 && tickless_wheel_count(&wheel) == 1);
    CHECK(tickless_wheel_cancel(&wheel, &objects[2997].timer));
}

static void timers_leave_one_by_one_in_the_order_of_their_deadlines(void) {
    static struct object objects[5000];
    struct tickless_wheel_timer *timer;
    uint64_t last = 0, random = 1, popped = 0;
    int i;
    tickless_wheel_init(&wheel, 0);
    for (i = 0; i < 5000; i++) {
        random = random * UINT64_C(6364136223846793005) + 1;
        objects[i] = object_of(&wheel);
        tickless_wheel_add(&wheel, &objects[i].timer, (random >> 33) % (UINT64_C(1) << (i % 40)));
    }
    while ((timer = tickless_wheel_pop(&wheel, UINT64_C(1) << 41, NULL)) != NULL) {
        CHECK(timer->deadline >= last);
        last = timer->deadline;
        popped++;
    }
    CHECK(popped == 5000 && tickless_wheel_now(&wheel) == UINT64_C(1) << 41);
}

/* As an advance does. */
static void a_loop_of_pops_looks_at_no_more_timers_than_its_limit_while_they_come_down(void) {
    static struct object objects[3000];
    int i, loops = 0, popped = 0;
    tickless_wheel_init(&wheel, 0);
    for (i = 0; i < 3000; i++) {
        objects[i] = object_of(&wheel);
        tickless_wheel_add(&wheel, &objects[i].timer, 66000 + (uint64_t)i % 10);
    }
    do {
        uint64_t limit = 80, before = (uint64_t)popped;
        while (tickless_wheel_pop(&wheel, 70000, &limit) != NULL) {
            popped++;
        }
        loops++;
        CHECK((uint64_t)popped - before <= 10);
        CHECK(limit == 0 || tickless_wheel_next(&wheel) > 70000);
    } while (tickless_wheel_next(&wheel) <= 70000);
    /* They come down once or twice, by five in a loop, and leave by ten. */
    CHECK(popped == 3000 && loops >= 600 + 300);
    CHECK(tickless_wheel_pop(&wheel, 70000, NULL) == NULL);
    CHECK(tickless_wheel_now(&wheel) == 70000);
}

static void all_are_removed_wherever_they_are(void) {
    static struct object objects[300];
    struct tickless_wheel_timer *timer;
    int i, removed = 0;
    tickless_wheel_init(&wheel, 1000);
    for (i = 0; i < 300; i++) {
        objects[i] = object_of(&wheel);
        tickless_wheel_add(&wheel, &objects[i].timer,
                           i % 10 == 0 ? TICKLESS_WHEEL_NEVER : UINT64_C(1) << (i % 60));
    }
    while ((timer = tickless_wheel_remove_any(&wheel)) != NULL) {
        CHECK(!tickless_wheel_is_pending(timer));
        removed++;
    }
    CHECK(tickless_wheel_timeout(&wheel, 5) == -1);
    CHECK(removed == 300 && tickless_wheel_count(&wheel) == 0);
    CHECK(tickless_wheel_next(&wheel) == TICKLESS_WHEEL_NEVER);
}

/* What a storm knows of its timers, by itself. */
enum { STORM = 64 };
static struct object storm[STORM];
static struct {
    int is_pending, is_late;
    uint64_t due;
} known[STORM];
static uint64_t storm_random, storm_fired, storm_last;

static uint64_t below(uint64_t limit) {
    storm_random ^= storm_random << 13;
    storm_random ^= storm_random >> 7;
    storm_random ^= storm_random << 17;
    return storm_random % limit;
}

/* Starts, moves or stops a timer. One that is due already fires at the next advance. */
static void do_something(uint64_t reach) {
    int i = (int)below(STORM);
    if (below(4) == 0) {
        CHECK(tickless_wheel_cancel(&wheel, &storm[i].timer) == known[i].is_pending);
        known[i].is_pending = 0;
    } else {
        uint64_t now = tickless_wheel_now(&wheel), deadline = now + below(reach);
        deadline = below(8) == 0 ? now / 2 : deadline;
        tickless_wheel_reset(&wheel, &storm[i].timer, deadline);
        known[i].is_pending = 1;
        known[i].due = deadline > now ? deadline : now;
        known[i].is_late = deadline <= now;
    }
}

static void storm_fires(struct tickless_wheel_timer *timer, void *reach) {
    struct object *object = owner(timer);
    long i = object - storm, times = (long)below(4);
    CHECK(known[i].is_pending && known[i].due <= tickless_wheel_now(&wheel));
    /* What was due when it was added comes first, and the others in their order. */
    CHECK(known[i].is_late ? storm_last == 0 : known[i].due >= storm_last);
    storm_last = known[i].is_late ? 0 : known[i].due;
    known[i].is_pending = 0;
    storm_fired++;
    while (times-- > 0) {
        do_something(*(uint64_t *)reach);
    }
}

static void callbacks_that_start_and_move_and_stop_any_timer_lose_none(void) {
    uint64_t round, reach;
    storm_random = 1;
    for (round = 0; round < 200; round++) {
        const uint64_t start = below(UINT64_C(1) << (round % 50));
        int step, i;
        tickless_wheel_init(&wheel, start);
        memset(known, 0, sizeof known);
        for (i = 0; i < STORM; i++) {
            storm[i] = object_of(&wheel);
        }
        reach = UINT64_C(4) << (round % 20);
        for (step = 0; step < 200; step++) {
            const uint64_t now = tickless_wheel_now(&wheel) + below(reach / 2);
            const uint64_t limit = below(3) == 0 ? 1 + below(5) : ALL;
            uint64_t n, pending = 0;
            do_something(reach);
            storm_last = 0;
            n = tickless_wheel_advance(&wheel, now, limit, storm_fires, &reach);
            for (i = 0; i < STORM; i++) {
                const int is_pending = tickless_wheel_is_pending(&storm[i].timer);
                const uint64_t at = tickless_wheel_now(&wheel);
                CHECK(is_pending == known[i].is_pending);
                pending += (uint64_t)is_pending;
                /* The next wake-up is not after the deadline, or it is now. */
                CHECK(!is_pending || tickless_wheel_next(&wheel) <= known[i].due ||
                      tickless_wheel_next(&wheel) <= at);
            }
            CHECK(pending == tickless_wheel_count(&wheel));
            CHECK(n <= limit);
            CHECK(tickless_wheel_now(&wheel) == now ||
                  (limit != ALL && tickless_wheel_now(&wheel) < now));
        }
    }
    CHECK(storm_fired > 10000);
}

int main(void) {
    RUN(a_timer_fires_at_its_deadline_and_not_before);
    RUN(a_loop_sleeps_until_the_next_timer_and_no_longer);
    RUN(a_timer_is_cancelled_once_and_moved_as_often_as_one_likes);
    RUN(what_is_due_already_fires_at_the_next_advance_also_to_the_same_time);
    RUN(what_is_due_fires_at_the_next_advance_also_behind_what_a_limit_has_left);
    RUN(a_timer_for_never_stays);
    RUN(a_callback_adds_its_timer_again);
    RUN(a_callback_knows_the_time_of_the_advance_beside_that_of_its_timer);
    RUN(a_loop_in_a_callback_moves_time_which_does_not_go_back);
    RUN(a_callback_frees_its_timer_and_another_that_is_due_with_it);
    RUN(an_advance_with_a_limit_goes_on_where_it_was);
    RUN(an_advance_looks_at_no_more_timers_than_its_limit_while_they_come_down);
    RUN(a_loop_of_pops_looks_at_no_more_timers_than_its_limit_while_they_come_down);
    RUN(timers_leave_one_by_one_in_the_order_of_their_deadlines);
    RUN(all_are_removed_wherever_they_are);
    RUN(callbacks_that_start_and_move_and_stop_any_timer_lose_none);
    return 0;
}
