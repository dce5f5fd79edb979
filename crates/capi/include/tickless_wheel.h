/* tickless_wheel: a hierarchical timing wheel for one thread, as a header of C99 (or C++; see
 * tickless_wheel.hpp). It needs no library, allocates nothing, and has no threads and no atomics. A
 * timer is memory of yours: a member of your connection, for example.
 *
 *     struct tickless_wheel wheel;
 *     tickless_wheel_init(&wheel, now_ms());
 *     tickless_wheel_add(&wheel, &connection->idle, now_ms() + 30000);
 *     for (;;) {
 *         epoll_wait(epoll, events, EVENTS, tickless_wheel_timeout(&wheel, now_ms()));
 *         tickless_wheel_advance(&wheel, now_ms(), 1000, on_timeout, context);
 *     }
 *
 * TIME. The wheel has no clock: you tell it the time, in ticks of whichever length (milliseconds, as
 * here, for a server; the wheel never rounds, so no timer is early, and each fires at the first
 * advance to its deadline or later). Time is a uint64_t that does not wrap, does not go back, and ends at
 * UINT64_MAX - 1.
 *
 * COST. Adding, cancelling and resetting take constant time, however many timers there are. A timer
 * is moved at most once for each level that it comes down (a level has 256 buckets, each as wide as
 * the level below), and empty time costs nothing. A timer is 24 bytes, a wheel about 16 KiB.
 * When a bucket opens, all of its timers come down: of a million connections whose idle timeouts are
 * 75 s, nearly all at once, every 65.5 s, which takes 0.1 s. So a loop passes a limit to
 * tickless_wheel_advance. The rest of the bucket waits for the next advance, and the loop reads its
 * descriptors in between; all timers that are due meanwhile wait as well. A limit of 1,000 is at most
 * some 50 us, and the time of callbacks. A timer that was not touched for long is a miss of the cache
 * when it fires, whatever its callback does. Of a million that were started in any order, a thousand
 * take 0.3 ms (in memory's order 0.01, and 0.004 in a warm cache); a hashed wheel takes as long, and
 * libev 0.4 ms. So a timer that fires counts eight in the limit.
 *
 * CALLBACKS. They may add, reset, cancel and free any timer, the one that fires included, which is
 * pending no more. A timer that is added by a callback for a time that has come fires at the next
 * advance; so an advance ends. A callback may advance the wheel, too, as a loop inside a loop does.
 * It must not free the wheel or make it anew.
 *
 * RULES. A wheel and its timers are used by one thread at a time. A timer is zeroed, or initialized
 * by tickless_wheel_timer_init, before its first use. The memory of a pending timer must not be
 * moved or freed, nor that of a wheel that has some. A timer belongs to one wheel while it is
 * pending. None of this is checked, but that an assert finds a pending timer that is added again. */
#ifndef TICKLESS_WHEEL_H
#define TICKLESS_WHEEL_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if !defined(__GNUC__)
#error "tickless_wheel.h needs the builtins of GCC, which clang has as well"
#endif

#ifdef __cplusplus
extern "C" {
/* This is C, whose casts and null pointers C++ has others for. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
#pragma GCC diagnostic ignored "-Wzero-as-null-pointer-constant"
#endif

/* A deadline that never comes; and what tickless_wheel_next returns if nothing will ever fire. */
#define TICKLESS_WHEEL_NEVER UINT64_MAX

#define TICKLESS_WHEEL_LEVELS_ 8
#define TICKLESS_WHEEL_BITS_ 8
#define TICKLESS_WHEEL_SLOTS_ (1 << TICKLESS_WHEEL_BITS_)
/* What a timer that fires counts in the limit of an advance, and one that comes down a level. Of many
 * that were started in any order, each is a miss of the cache or two: 0.1 to 0.5 us. */
#define TICKLESS_WHEEL_FIRES_ 8U
#define TICKLESS_WHEEL_COMES_DOWN_ 16U

/* The struct that a timer is a member of: TICKLESS_WHEEL_OWNER(timer, struct connection, idle). */
#ifdef __cplusplus
#define TICKLESS_WHEEL_OWNER(timer, type, member)                                              \
    reinterpret_cast<type *>(reinterpret_cast<char *>(timer) - offsetof(type, member))
#else
#define TICKLESS_WHEEL_OWNER(timer, type, member)                                              \
    ((type *)(void *)((char *)(timer)-offsetof(type, member)))
#endif

/* A timer. All zero, it is not pending. The fields are the wheel's. */
struct tickless_wheel_timer {
    struct tickless_wheel_timer *next;
    uint64_t deadline;
    /* The place that points to it: another timer's `next`, or its bucket. NULL: not pending. (Not beside
     * `next`: two pointers side by side are packed into a vector, which takes longer than to store them.) */
    struct tickless_wheel_timer **place;
};

/* A wheel. The fields are its own. */
struct tickless_wheel {
    uint64_t now;
    /* The latest time that an advance or a pop was given. */
    uint64_t latest;
    /* No bucket opens before this; nothing is due before it. It is not after `now` while something is
     * in `due` or `late`. */
    uint64_t hint;
    uint64_t pending;
    /* The levels that may have a timer, from the lowest, and for each the buckets that may. A bit
     * may be set for a bucket that is empty, until a search comes by. */
    uint32_t levels;
    /* The levels above the lowest whose bucket of now is open: its timers come down. Time stands
     * still until all have. (No timer is filed in a bucket of now.) */
    uint32_t opened;
    uint64_t occupied[TICKLESS_WHEEL_LEVELS_][TICKLESS_WHEEL_SLOTS_ / 64];
    /* Due when they were added: for the next advance; and where that list ends, unless it is empty. */
    struct tickless_wheel_timer *due, **due_end;
    /* Those, in the advance that is under way or was limited. */
    struct tickless_wheel_timer *late, **late_end;
    /* The rest of the bucket that is open. */
    struct tickless_wheel_timer *firing;
    /* For TICKLESS_WHEEL_NEVER. */
    struct tickless_wheel_timer *parked;
    /* Level by level. */
    struct tickless_wheel_timer *buckets[TICKLESS_WHEEL_LEVELS_ * TICKLESS_WHEEL_SLOTS_];
};

/* Is called with a timer that has fired, and with the context of the advance. */
typedef void (*tickless_wheel_fn)(struct tickless_wheel_timer *timer, void *context);

/* Makes memory a wheel without timers, at the time `now`. */
static inline void tickless_wheel_init(struct tickless_wheel *wheel, uint64_t now) {
    now = now < TICKLESS_WHEEL_NEVER ? now : TICKLESS_WHEEL_NEVER - 1;
    memset(wheel, 0, sizeof *wheel);
    wheel->now = now;
    wheel->latest = now;
    wheel->hint = TICKLESS_WHEEL_NEVER;
}

/* Makes memory a timer that is not pending. */
static inline void tickless_wheel_timer_init(struct tickless_wheel_timer *timer) {
    timer->place = NULL;
}

/* Whether the timer waits for its deadline. */
static inline int tickless_wheel_is_pending(const struct tickless_wheel_timer *timer) {
    return timer->place != NULL;
}

/* The deadline of a timer that is pending, or that has just fired. */
static inline uint64_t tickless_wheel_deadline(const struct tickless_wheel_timer *timer) {
    return timer->deadline;
}

/* How many timers are pending, those for TICKLESS_WHEEL_NEVER included. */
static inline uint64_t tickless_wheel_count(const struct tickless_wheel *wheel) {
    return wheel->pending;
}

/* The time that the wheel has reached: that of the last advance. In a callback, and after an advance
 * that has used up its limit: the time of the timer that fired last. */
static inline uint64_t tickless_wheel_now(const struct tickless_wheel *wheel) {
    return wheel->now;
}

/* The latest time that an advance was given, also in its callbacks. A delay counts from here: after
 * a stall, tickless_wheel_now is in the past while timers that are overdue fire. */
static inline uint64_t tickless_wheel_latest(const struct tickless_wheel *wheel) {
    return wheel->latest;
}

static inline void tickless_wheel_push_(struct tickless_wheel_timer **place,
                                        struct tickless_wheel_timer *timer) {
    struct tickless_wheel_timer *next = *place;
    timer->next = next;
    timer->place = place;
    if (next != NULL) {
        next->place = &timer->next;
    }
    *place = timer;
}

static inline void tickless_wheel_unlink_(struct tickless_wheel *wheel,
                                          struct tickless_wheel_timer *timer) {
    struct tickless_wheel_timer *next = timer->next;
    *timer->place = next;
    if (next != NULL) {
        next->place = timer->place;
    } else if (wheel->hint <= wheel->now) {
        /* There may be such lists. */
        wheel->due_end = wheel->due_end == &timer->next ? timer->place : wheel->due_end;
        wheel->late_end = wheel->late_end == &timer->next ? timer->place : wheel->late_end;
    }
    timer->place = NULL;
}

/* A timer was filed in a bucket that was empty, and which opens then. */
static inline void tickless_wheel_note_(struct tickless_wheel *wheel, unsigned level, unsigned slot,
                                        uint64_t opens) {
    wheel->levels |= 1U << level;
    wheel->occupied[level][slot / 64] |= UINT64_C(1) << (slot % 64);
    if (opens < wheel->hint) {
        wheel->hint = opens;
    }
}

/* Files a timer: on the lowest level on which its bucket is fewer than 256 ahead of now's. */
static inline void tickless_wheel_file_(struct tickless_wheel *wheel,
                                        struct tickless_wheel_timer *timer, uint64_t deadline) {
    const uint64_t now = wheel->now;
    struct tickless_wheel_timer *first, **bucket;
    unsigned shift, slot;
    timer->deadline = deadline;
    if (__builtin_expect(deadline <= now || deadline == TICKLESS_WHEEL_NEVER, 0)) {
        if (deadline == TICKLESS_WHEEL_NEVER) {
            tickless_wheel_push_(&wheel->parked, timer);
        } else {
            wheel->due_end = wheel->due == NULL ? &timer->next : wheel->due_end;
            tickless_wheel_push_(&wheel->due, timer);
            wheel->hint = now < wheel->hint ? now : wheel->hint;
        }
        return;
    }
    /* The level times 8, which is the width of a bucket of it as a shift. */
    shift = (63U - (unsigned)__builtin_clzll(deadline - now)) & ~7U;
    /* The distance in buckets may be one more than that in time. */
    if ((deadline >> shift) - (now >> shift) >= TICKLESS_WHEEL_SLOTS_) {
        shift += TICKLESS_WHEEL_BITS_;
    }
    slot = (unsigned)(deadline >> shift) % TICKLESS_WHEEL_SLOTS_;
    bucket = wheel->buckets + (size_t)shift * (TICKLESS_WHEEL_SLOTS_ / TICKLESS_WHEEL_BITS_) + slot;
    first = *bucket;
    timer->next = first;
    timer->place = bucket;
    *bucket = timer;
    if (first != NULL) {
        /* Of a bucket that is not empty, all is noted. */
        first->place = &timer->next;
    } else {
        tickless_wheel_note_(wheel, shift / TICKLESS_WHEEL_BITS_, slot, deadline >> shift << shift);
    }
}

/* Starts a timer that is not pending (which is asserted, unless NDEBUG is defined): it fires at the
 * first advance to `deadline` or later. If the deadline has passed, that is the next advance, also one
 * to the same time. */
static inline void tickless_wheel_add(struct tickless_wheel *wheel,
                                      struct tickless_wheel_timer *timer, uint64_t deadline) {
    assert(timer->place == NULL);
    wheel->pending++;
    tickless_wheel_file_(wheel, timer, deadline);
}

/* Stops a timer. Returns 1 if it was pending, else 0. */
static inline int tickless_wheel_cancel(struct tickless_wheel *wheel,
                                        struct tickless_wheel_timer *timer) {
    if (timer->place == NULL) {
        return 0;
    }
    tickless_wheel_unlink_(wheel, timer);
    wheel->pending--;
    return 1;
}

/* Moves a timer to another deadline, or starts it if it is not pending. */
static inline void tickless_wheel_reset(struct tickless_wheel *wheel,
                                        struct tickless_wheel_timer *timer, uint64_t deadline) {
    if (timer->place == NULL) {
        wheel->pending++;
    } else {
        tickless_wheel_unlink_(wheel, timer);
    }
    tickless_wheel_file_(wheel, timer, deadline);
}

/* The first slot of a level from `from` on, round its ring, whose bucket is not empty: how many
 * slots after `from`, or 256. */
static inline unsigned tickless_wheel_search_(struct tickless_wheel *wheel, unsigned level,
                                              unsigned from) {
    uint64_t *const words = wheel->occupied[level];
    unsigned i;
    /* The last word is the first, whose bits from `from` on are zero by then. */
    for (i = 0; i <= TICKLESS_WHEEL_SLOTS_ / 64; i++) {
        const unsigned word = (from / 64 + i) % (TICKLESS_WHEEL_SLOTS_ / 64);
        uint64_t bits = words[word];
        if (i == 0) {
            bits &= UINT64_MAX << (from % 64);
        }
        while (bits != 0) {
            const unsigned slot = word * 64 + (unsigned)__builtin_ctzll(bits);
            if (wheel->buckets[level * TICKLESS_WHEEL_SLOTS_ + slot] != NULL) {
                return (slot - from) % TICKLESS_WHEEL_SLOTS_;
            }
            words[word] &= ~(bits & -bits);
            bits &= bits - 1;
        }
    }
    return TICKLESS_WHEEL_SLOTS_;
}

/* When the next bucket opens. */
static inline uint64_t tickless_wheel_find_(struct tickless_wheel *wheel) {
    uint64_t first = TICKLESS_WHEEL_NEVER;
    uint32_t levels = wheel->levels;
    while (levels != 0) {
        const unsigned level = (unsigned)__builtin_ctz(levels);
        const unsigned shift = level * TICKLESS_WHEEL_BITS_;
        /* Now's own bucket is open. */
        const uint64_t from = (wheel->now >> shift) + 1;
        const unsigned slot = (unsigned)(from % TICKLESS_WHEEL_SLOTS_);
        const unsigned ahead = tickless_wheel_search_(wheel, level, slot);
        levels &= levels - 1;
        if (ahead == TICKLESS_WHEEL_SLOTS_) {
            wheel->levels &= ~(1U << level);
        } else if (((from + ahead) << shift) < first) {
            first = (from + ahead) << shift;
        }
    }
    return first;
}

/* Whether there is something to do before time can go on. */
static inline int tickless_wheel_is_busy_(const struct tickless_wheel *wheel) {
    return wheel->due != NULL || wheel->late != NULL || wheel->firing != NULL || wheel->opened != 0;
}

/* The time until which nothing has to be done: an advance to an earlier time does nothing. It is
 * never after the earliest deadline; it may be before, when timers have to come down a level. If it
 * is not after the time of the last advance, there is something to do at once: its limit has left
 * it. TICKLESS_WHEEL_NEVER: nothing will ever fire. */
static inline uint64_t tickless_wheel_next(struct tickless_wheel *wheel) {
    if (tickless_wheel_is_busy_(wheel)) {
        return wheel->now;
    }
    wheel->hint = tickless_wheel_find_(wheel);
    return wheel->hint;
}

/* How long a loop may sleep that reads the time `now`, in ticks: 0 if something is due, at most
 * INT32_MAX, and -1 if nothing will ever fire. If a tick is a millisecond, this is what poll and
 * epoll_wait want. A time before that of the latest advance, which a callback may have moved, is taken
 * as that. */
static inline int tickless_wheel_timeout(struct tickless_wheel *wheel, uint64_t now) {
    const uint64_t next = tickless_wheel_next(wheel);
    now = now < wheel->latest ? wheel->latest : now;
    if (next == TICKLESS_WHEEL_NEVER) {
        return -1;
    }
    return next <= now ? 0 : next - now < INT32_MAX ? (int)(next - now) : INT32_MAX;
}

/* What is left of a limit. */
static inline uint64_t tickless_wheel_less_(uint64_t limit, unsigned counts) {
    return limit > counts ? limit - counts : 0;
}

/* Files timers of the higher buckets that are open on lower levels, or as firing, within a limit of
 * tickless_wheel_advance, but at least one. Returns what is left of the limit. */
static inline uint64_t tickless_wheel_come_down_(struct tickless_wheel *wheel, uint64_t limit) {
    const unsigned level = (unsigned)__builtin_ctz(wheel->opened);
    const unsigned slot =
        (unsigned)(wheel->now >> (level * TICKLESS_WHEEL_BITS_)) % TICKLESS_WHEEL_SLOTS_;
    struct tickless_wheel_timer **const bucket = &wheel->buckets[level * TICKLESS_WHEEL_SLOTS_ + slot];
    struct tickless_wheel_timer *timer = *bucket;
    while (timer != NULL && limit > 0) {
        struct tickless_wheel_timer *next = timer->next;
        if (next != NULL) {
            __builtin_prefetch(next->next, 1);
        }
        if (timer->deadline == wheel->now) {
            tickless_wheel_push_(&wheel->firing, timer);
        } else {
            tickless_wheel_file_(wheel, timer, timer->deadline);
        }
        timer = next;
        limit = tickless_wheel_less_(limit, TICKLESS_WHEEL_COMES_DOWN_);
    }
    *bucket = timer;
    if (timer != NULL) {
        timer->place = bucket;
    } else {
        wheel->opened &= wheel->opened - 1;
    }
    return limit;
}

/* Opens the buckets that open next, on all levels, if that is by `now` and none is open. If it is
 * not, returns 0, and the wheel's time is `now`, or what a callback has moved it to. */
static inline int tickless_wheel_open_(struct tickless_wheel *wheel, uint64_t now) {
    unsigned level;
    const uint64_t opens = tickless_wheel_find_(wheel);
    wheel->hint = opens;
    if (opens > now) {
        wheel->now = now > wheel->now ? now : wheel->now;
        return 0;
    }
    wheel->now = opens;
    for (level = 0; level < TICKLESS_WHEEL_LEVELS_; level++) {
        const uint64_t bucket = opens >> (level * TICKLESS_WHEEL_BITS_);
        const unsigned slot = (unsigned)(bucket % TICKLESS_WHEEL_SLOTS_);
        struct tickless_wheel_timer *timer;
        if (bucket << (level * TICKLESS_WHEEL_BITS_) != opens) {
            break;
        }
        timer = wheel->buckets[level * TICKLESS_WHEEL_SLOTS_ + slot];
        if (timer != NULL && level == 0) {
            wheel->buckets[level * TICKLESS_WHEEL_SLOTS_ + slot] = NULL;
            wheel->firing = timer;
            timer->place = &wheel->firing;
        } else if (timer != NULL) {
            wheel->opened |= 1U << level;
        }
    }
    return 1;
}

/* The time that an advance to `now` reaches. Time does not go back, and never does not come. */
static inline uint64_t tickless_wheel_reach_(struct tickless_wheel *wheel, uint64_t now) {
    if (now < wheel->now) {
        now = wheel->now;
    } else if (now == TICKLESS_WHEEL_NEVER) {
        now = TICKLESS_WHEEL_NEVER - 1;
    }
    if (now > wheel->latest) {
        wheel->latest = now;
    }
    return now;
}

/* Begins with what was due when it was added, behind what a limit has left of that. */
static inline void tickless_wheel_begin_(struct tickless_wheel *wheel) {
    if (wheel->due != NULL) {
        struct tickless_wheel_timer **const place =
            wheel->late != NULL ? wheel->late_end : &wheel->late;
        *place = wheel->due;
        wheel->due->place = place;
        wheel->late_end = wheel->due_end;
        wheel->due = NULL;
    }
}

/* Takes the next timer that is due by `now` out of the wheel: first those that were due when they
 * were added, then the others in order of their deadlines; within one tick in no particular order.
 * Returns NULL if there is none left: the wheel's time is then `now`. One that is added in between for
 * a time that has come is the next, after those that were due when they were added before it. A time
 * before the wheel's is taken as the wheel's.
 *
 * `*limit` is what a loop of such calls may still do, counted as in tickless_wheel_advance, and what
 * this call does is taken off. At zero, NULL is returned, and tickless_wheel_next tells whether
 * something is left. (NULL: no limit.) */
static inline struct tickless_wheel_timer *tickless_wheel_pop(struct tickless_wheel *wheel,
                                                              uint64_t now, uint64_t *limit) {
    uint64_t all = UINT64_MAX;
    limit = limit != NULL ? limit : &all;
    now = tickless_wheel_reach_(wheel, now);
    tickless_wheel_begin_(wheel);
    while (*limit > 0) {
        struct tickless_wheel_timer *timer = wheel->late != NULL ? wheel->late : wheel->firing;
        if (timer != NULL) {
            tickless_wheel_unlink_(wheel, timer);
            wheel->pending--;
            *limit = tickless_wheel_less_(*limit, TICKLESS_WHEEL_FIRES_);
            return timer;
        }
        if (wheel->opened != 0) {
            *limit = tickless_wheel_come_down_(wheel, *limit);
        } else if (now < wheel->hint) {
            wheel->now = now;
            break;
        } else if (!tickless_wheel_open_(wheel, now)) {
            break;
        }
    }
    return NULL;
}

/* Moves time to `now`, and calls back each timer that is due by then, in the order of
 * tickless_wheel_pop. Returns how many.
 *
 * `limit` bounds the work of one call (UINT64_MAX: no limit). Each timer that is called back counts
 * eight, and each that comes down a level sixteen; the last may count more than is left. So a call may
 * return nothing and leave something to do. Then tickless_wheel_next is not after `now`, tickless_wheel_timeout is 0, and
 * the next advance goes on from there. A time before the wheel's is taken as the wheel's. */
static inline uint64_t tickless_wheel_advance(struct tickless_wheel *wheel, uint64_t now,
                                              uint64_t limit, tickless_wheel_fn callback,
                                              void *context) {
    uint64_t fired = 0;
    now = tickless_wheel_reach_(wheel, now);
    if (now < wheel->hint) {
        wheel->now = now;
        return 0;
    }
    /* What callbacks add and is due already fires next time. */
    tickless_wheel_begin_(wheel);
    while (limit > 0) {
        struct tickless_wheel_timer *timer = wheel->late != NULL ? wheel->late : wheel->firing;
        if (timer != NULL) {
            tickless_wheel_unlink_(wheel, timer);
            wheel->pending--;
            limit = tickless_wheel_less_(limit, TICKLESS_WHEEL_FIRES_);
            fired++;
            callback(timer, context);
        } else if (wheel->opened != 0) {
            limit = tickless_wheel_come_down_(wheel, limit);
        } else if (!tickless_wheel_open_(wheel, now)) {
            break;
        }
    }
    if (tickless_wheel_is_busy_(wheel)) {
        wheel->hint = wheel->now;
    }
    return fired;
}

/* Takes any pending timer out of the wheel, in no particular order; NULL if there is none. To end
 * all: `while ((timer = tickless_wheel_remove_any(&wheel)) != NULL)`. */
static inline struct tickless_wheel_timer *
tickless_wheel_remove_any(struct tickless_wheel *wheel) {
    struct tickless_wheel_timer *timer;
    if (wheel->pending == 0) {
        return NULL;
    }
    timer = wheel->late != NULL ? wheel->late : wheel->firing;
    timer = timer != NULL ? timer : wheel->due != NULL ? wheel->due : wheel->parked;
    while (timer == NULL && wheel->levels != 0) {
        const unsigned level = (unsigned)__builtin_ctz(wheel->levels);
        const unsigned slot = tickless_wheel_search_(wheel, level, 0);
        if (slot == TICKLESS_WHEEL_SLOTS_) {
            wheel->levels &= ~(1U << level);
        } else {
            timer = wheel->buckets[level * TICKLESS_WHEEL_SLOTS_ + slot];
        }
    }
    tickless_wheel_unlink_(wheel, timer);
    wheel->pending--;
    return timer;
}

#ifdef __cplusplus
#pragma GCC diagnostic pop
} /* extern "C" */
#endif

#endif
