/* The wheel for one loop beside a list of what it should do: wheel_model [SIZE]. Random histories, in which
 * callbacks start, move, stop and free any timer and advance the wheel; with limits, at any time, for
 * deadlines near and far. (Without callbacks, ../wheel.rs has it beside Rust's.) */
#include <stdio.h>
#include <stdlib.h>

#include "tickless_wheel.h"

#define CHECK(condition)                                                                       \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            fprintf(stderr, "%s:%d: %s does not hold (seed %llu, step %d)\n", __FILE__,        \
                    __LINE__, #condition, (unsigned long long)seed, step);                     \
            abort();                                                                           \
        }                                                                                      \
    } while (0)

enum { MOST = 40, DEPTH = 3, STEPS = 150 };

struct object {
    char before[24];
    struct tickless_wheel_timer timer;
    int number;
};

/* What is known of a timer; `object` is NULL if its memory was freed. */
struct known {
    struct object *object;
    int is_pending;
    /* It was due when it was started, in this call of an advance. */
    int is_late;
    unsigned long call;
    uint64_t deadline, due;
};

static struct tickless_wheel wheel;
static struct known known[MOST];
static uint64_t seed, state, reach, order_from;
static unsigned long calls, fired_all, pending_all;
static int step, depth, is_in_order;

static uint64_t below(uint64_t limit) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % limit;
}

static uint64_t add(uint64_t time, uint64_t delay) {
    return time > UINT64_MAX - delay ? UINT64_MAX : time + delay;
}

/* Near, far, past or never. */
static uint64_t any_deadline(void) {
    const uint64_t now = tickless_wheel_now(&wheel);
    switch (below(16)) {
    case 0:
        return now - (below(2) == 0 ? below(reach) : 0) % add(now, 1);
    case 1:
        return add(now, UINT64_C(1) << below(64));
    case 2:
        return add(now, (UINT64_C(1) << below(64)) - 1 + below(2) * reach);
    case 3:
        return below(4) == 0 ? TICKLESS_WHEEL_NEVER : add(tickless_wheel_latest(&wheel), below(reach));
    case 4:
        /* The first and last of a bucket. */
        return add(now | ((UINT64_C(1) << 8 * below(4)) - 1), below(3));
    default:
        return add(now, below(reach));
    }
}

static void is_known(struct known *timer) {
    if (timer->object != NULL) {
        CHECK(tickless_wheel_is_pending(&timer->object->timer) == timer->is_pending);
        CHECK(!timer->is_pending || tickless_wheel_deadline(&timer->object->timer) == timer->deadline);
    }
}

static void was_filed(struct known *timer, uint64_t deadline) {
    const uint64_t now = tickless_wheel_now(&wheel);
    pending_all += !timer->is_pending;
    timer->is_pending = 1;
    timer->deadline = deadline;
    timer->is_late = deadline <= now && deadline != TICKLESS_WHEEL_NEVER;
    timer->due = timer->is_late ? now : deadline;
    timer->call = calls;
}

static void has_left(struct known *timer) {
    CHECK(timer->is_pending);
    timer->is_pending = 0;
    pending_all--;
    if (below(4) == 0) {
        free(timer->object);
        timer->object = NULL;
    }
}

static void start_or_move(struct known *timer) {
    const uint64_t deadline = any_deadline();
    if (timer->object == NULL) {
        timer->object = malloc(sizeof *timer->object);
        CHECK(timer->object != NULL);
        timer->object->number = (int)(timer - known);
        tickless_wheel_timer_init(&timer->object->timer);
    }
    if (timer->is_pending || below(2) == 0) {
        tickless_wheel_reset(&wheel, &timer->object->timer, deadline);
    } else {
        tickless_wheel_add(&wheel, &timer->object->timer, deadline);
    }
    was_filed(timer, deadline);
}

static void advance(void);

static void do_something(void) {
    struct known *const timer = &known[below(MOST)];
    is_known(timer);
    switch (below(8)) {
    case 0:
        if (timer->object != NULL) {
            CHECK(tickless_wheel_cancel(&wheel, &timer->object->timer) == timer->is_pending);
            if (timer->is_pending) {
                has_left(timer);
            }
        }
        break;
    case 1:
        if (depth > 0 && depth < DEPTH) {
            advance();
        }
        break;
    default:
        start_or_move(timer);
    }
    CHECK(tickless_wheel_count(&wheel) == pending_all);
}

/* Where it belongs: not early, what was due when it was started first, the others by their deadlines. */
static struct known *is_due(struct tickless_wheel_timer *timer) {
    struct known *const its = &known[TICKLESS_WHEEL_OWNER(timer, struct object, timer)->number];
    CHECK(&its->object->timer == timer && its->is_pending && !tickless_wheel_is_pending(timer));
    CHECK(its->deadline <= tickless_wheel_now(&wheel) && its->deadline == tickless_wheel_deadline(timer));
    if (is_in_order) {
        CHECK(its->is_late ? order_from == 0 : its->due >= order_from);
        order_from = its->is_late ? 0 : its->due;
    }
    return its;
}

static void fires(struct tickless_wheel_timer *timer, void *context) {
    struct known *const its = is_due(timer);
    int times = (int)below(4);
    /* What a callback adds for a time that has come waits for the next advance, which may be one in a
     * callback. */
    CHECK(!is_in_order || !its->is_late || its->call < *(unsigned long *)context);
    fired_all++;
    has_left(its);
    if (times == 3 && below(3) == 0) {
        start_or_move(its);
    }
    while (times-- > 0) {
        do_something();
    }
}

/* To a time that is near, the next, far, or not later than now. */
static uint64_t any_time(void) {
    const uint64_t now = tickless_wheel_now(&wheel);
    switch (below(8)) {
    case 0:
        return tickless_wheel_next(&wheel);
    case 1:
        return tickless_wheel_next(&wheel) > now ? tickless_wheel_next(&wheel) - 1 : now;
    case 2:
        return below(add(now, 1));
    case 3:
        return add(now, below(8) == 0 ? UINT64_C(1) << below(64) : 256 * reach);
    default:
        return add(now, below(reach / 2 + 1));
    }
}

static void has_reached(uint64_t time) {
    CHECK(tickless_wheel_now(&wheel) >= (time < TICKLESS_WHEEL_NEVER ? time : TICKLESS_WHEEL_NEVER - 1));
}

/* All that is due has fired, but what callbacks have started for a time that had come. */
static void none_is_left(unsigned long call) {
    int i;
    for (i = 0; i < MOST; i++) {
        if (known[i].is_pending && known[i].deadline != TICKLESS_WHEEL_NEVER) {
            CHECK(known[i].due > tickless_wheel_now(&wheel) || (known[i].is_late && known[i].call >= call));
        }
    }
}

/* An advance to a time, in one call or in several with limits. */
static void advance(void) {
    const uint64_t to = any_time(), before = tickless_wheel_now(&wheel);
    const uint64_t limit = below(2) == 0 ? UINT64_MAX : 1 + below(60);
    unsigned long call = ++calls;
    uint64_t fired;
    depth++;
    order_from = 0;
    is_in_order = depth == 1;
    fired = tickless_wheel_advance(&wheel, to, limit, fires, &call);
    CHECK(limit == UINT64_MAX || (fired <= (limit + 7) / 8));
    CHECK(tickless_wheel_now(&wheel) >= before && tickless_wheel_latest(&wheel) >= tickless_wheel_now(&wheel));
    if (limit == UINT64_MAX) {
        has_reached(to);
        none_is_left(call);
    }
    /* A call around this one goes on from a later time. */
    is_in_order = 0;
    depth--;
    calls++;
}

static void pop(void) {
    const uint64_t to = any_time();
    uint64_t limit = below(2) == 0 ? UINT64_MAX : below(60);
    struct tickless_wheel_timer *timer;
    unsigned long number = 0;
    const int is_touched = below(2) == 0;
    calls++;
    order_from = 0;
    is_in_order = !is_touched;
    while (number++ < 200 && (timer = tickless_wheel_pop(&wheel, to, below(8) == 0 ? NULL : &limit)) != NULL) {
        has_left(is_due(timer));
        fired_all++;
        if (is_touched) {
            do_something();
        }
    }
    if (!is_touched && limit > 0 && number <= 200) {
        has_reached(to);
        none_is_left(calls + 1);
    }
    is_in_order = 0;
    calls++;
}

/* What a loop asks before it sleeps. */
static void look(void) {
    const uint64_t now = tickless_wheel_now(&wheel), next = tickless_wheel_next(&wheel);
    const int timeout = tickless_wheel_timeout(&wheel, now);
    uint64_t first = TICKLESS_WHEEL_NEVER;
    int i;
    for (i = 0; i < MOST; i++) {
        is_known(&known[i]);
        first = known[i].is_pending && known[i].due < first ? known[i].due : first;
    }
    CHECK(next <= first || next <= now);
    /* (What a limit has left open may have been stopped.) */
    CHECK(first == TICKLESS_WHEEL_NEVER ? next == TICKLESS_WHEEL_NEVER || next <= now
                                        : next != TICKLESS_WHEEL_NEVER);
    CHECK((timeout == -1) == (next == TICKLESS_WHEEL_NEVER));
    CHECK(timeout == 0 || next > now || next == TICKLESS_WHEEL_NEVER);
    CHECK(tickless_wheel_count(&wheel) == pending_all);
}

/* The wheel comes to rest: each timer wakes a loop no more than once for each level, and once to fire; with
 * small limits, once for each step besides. */
static void finish(void) {
    const uint64_t limit = below(2) == 0 ? UINT64_MAX : 1 + below(20);
    unsigned long most = pending_all * 2 * (TICKLESS_WHEEL_LEVELS_ + 1) + 1, wake_ups = 0;
    uint64_t next;
    while ((next = tickless_wheel_next(&wheel)) != TICKLESS_WHEEL_NEVER) {
        uint64_t left = limit;
        struct tickless_wheel_timer *timer;
        while ((timer = tickless_wheel_pop(&wheel, next, &left)) != NULL) {
            struct known *its = is_due(timer);
            has_left(its);
        }
        CHECK(++wake_ups <= most);
        calls++;
    }
}

static void remove_all(void) {
    struct tickless_wheel_timer *timer;
    int i;
    while ((timer = tickless_wheel_remove_any(&wheel)) != NULL) {
        has_left(&known[TICKLESS_WHEEL_OWNER(timer, struct object, timer)->number]);
    }
    CHECK(pending_all == 0);
    CHECK(tickless_wheel_advance(&wheel, UINT64_MAX, UINT64_MAX, fires, NULL) == 0);
    CHECK(tickless_wheel_next(&wheel) == TICKLESS_WHEEL_NEVER);
    for (i = 0; i < MOST; i++) {
        is_known(&known[i]);
        free(known[i].object);
        known[i].object = NULL;
    }
}

static void a_history(void) {
    const uint64_t starts[] = {0, 1, 255, 65530, UINT64_C(1) << 40, UINT64_MAX - 70000, UINT64_MAX};
    state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    tickless_wheel_init(&wheel, below(3) == 0 ? starts[below(7)] : below(UINT64_C(1) << below(64)));
    reach = UINT64_C(2) << below(below(4) == 0 ? 50 : 18);
    for (step = 0; step < STEPS; step++) {
        switch (below(4)) {
        case 0:
            advance();
            break;
        case 1:
            if (below(4) == 0) {
                pop();
            }
            break;
        default:
            do_something();
        }
        /* (A loop may advance without a look at the next time.) */
        if (below(2) == 0) {
            look();
        }
    }
    if (below(2) == 0) {
        finish();
    }
    remove_all();
}

int main(int argc, char **argv) {
    const uint64_t histories = (argc > 1 ? strtoull(argv[1], NULL, 10) : 10000) / 10;
    for (seed = 1; seed <= histories; seed++) {
        a_history();
    }
    step = 0;
    CHECK(fired_all > histories);
    printf("ok the_wheel_does_what_a_list_of_timers_says (%lu have fired)\n", fired_all);
    return 0;
}
