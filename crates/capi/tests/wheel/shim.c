/* The functions of tickless_wheel.h, which are inline, as a library that tests load. */
#include "tickless_wheel.h"

const uint64_t shim_wheel_size = sizeof(struct tickless_wheel);
const uint64_t shim_timer_size = sizeof(struct tickless_wheel_timer);

void shim_init(struct tickless_wheel *wheel, uint64_t now) {
    tickless_wheel_init(wheel, now);
}

void shim_add(struct tickless_wheel *wheel, struct tickless_wheel_timer *timer, uint64_t at) {
    tickless_wheel_add(wheel, timer, at);
}

int shim_cancel(struct tickless_wheel *wheel, struct tickless_wheel_timer *timer) {
    return tickless_wheel_cancel(wheel, timer);
}

void shim_reset(struct tickless_wheel *wheel, struct tickless_wheel_timer *timer, uint64_t at) {
    tickless_wheel_reset(wheel, timer, at);
}

int shim_is_pending(const struct tickless_wheel_timer *timer) {
    return tickless_wheel_is_pending(timer);
}

uint64_t shim_deadline(const struct tickless_wheel_timer *timer) {
    return tickless_wheel_deadline(timer);
}

uint64_t shim_count(const struct tickless_wheel *wheel) {
    return tickless_wheel_count(wheel);
}

uint64_t shim_now(const struct tickless_wheel *wheel) {
    return tickless_wheel_now(wheel);
}

uint64_t shim_next(struct tickless_wheel *wheel) {
    return tickless_wheel_next(wheel);
}

struct tickless_wheel_timer *shim_pop(struct tickless_wheel *wheel, uint64_t now,
                                      uint64_t *limit) {
    return tickless_wheel_pop(wheel, now, limit);
}

uint64_t shim_advance(struct tickless_wheel *wheel, uint64_t now, uint64_t limit,
                      tickless_wheel_fn callback, void *context) {
    return tickless_wheel_advance(wheel, now, limit, callback, context);
}

struct tickless_wheel_timer *shim_remove_any(struct tickless_wheel *wheel) {
    return tickless_wheel_remove_any(wheel);
}
