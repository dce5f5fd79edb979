/* tickless in a libev loop: the engine's one descriptor is an ev_io, and callbacks run in the loop's
 * thread. Other threads may schedule for the loop: it wakes up. The wheel, for timers that only the
 * loop uses, has one ev_timer, which is set before the loop sleeps. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <ev.h>
#include <tickless.h>
#include <tickless_wheel.h>

#define MUST(condition) ((condition) ? (void)0 : (perror(#condition), abort()))

static tickless_engine *engine;
static int fired;

static void on_readable(struct ev_loop *loop, ev_io *io, int events) {
    (void)events;
    MUST(tickless_turn(engine, 0, 0, NULL) == TICKLESS_OK);
    if (fired == 3) {
        ev_io_stop(loop, io);
    }
}

static void on_timeout(void *user_data) {
    ++*(int *)user_data;
}

static void engine_ev(struct ev_loop *loop) {
    tickless_options options = {.size = sizeof options, .driver = TICKLESS_DRIVER_CALLER, .shards = 1};
    ev_io io;
    int i;
    MUST(tickless_engine_new(&options, &engine) == TICKLESS_OK);
    ev_io_init(&io, on_readable, tickless_pollable_fd(engine, 0), EV_READ);
    ev_io_start(loop, &io);
    for (i = 0; i < 3; i++) {
        MUST(tickless_schedule(engine, 2000000, on_timeout, &fired, NULL, NULL) == TICKLESS_OK);
    }
    ev_run(loop, 0);
    tickless_engine_free(engine);
}

static struct tickless_wheel wheel;
static ev_timer wake;

/* Not ev_now, which is the time of day: that may be set back. */
static uint64_t now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

static void on_idle(struct tickless_wheel_timer *timer, void *context) {
    (void)timer;
    (void)context;
    fired++;
}

static void on_wake(struct ev_loop *loop, ev_timer *timer, int events) {
    (void)loop;
    (void)timer;
    (void)events;
    tickless_wheel_advance(&wheel, now_ms(), 1000, on_idle, NULL);
}

static void on_prepare(struct ev_loop *loop, ev_prepare *prepare, int events) {
    const int timeout = tickless_wheel_timeout(&wheel, now_ms());
    (void)events;
    ev_timer_stop(loop, &wake);
    if (timeout < 0) {
        ev_prepare_stop(loop, prepare); /* To be started with the next timer. */
    } else {
        ev_timer_set(&wake, timeout / 1000., 0.);
        ev_timer_start(loop, &wake);
    }
}

static void wheel_ev(struct ev_loop *loop) {
    static struct tickless_wheel_timer timers[2];
    ev_prepare prepare;
    tickless_wheel_init(&wheel, now_ms());
    tickless_wheel_add(&wheel, &timers[0], now_ms() + 2);
    tickless_wheel_add(&wheel, &timers[1], now_ms() + 3);
    ev_timer_init(&wake, on_wake, 0., 0.);
    ev_prepare_init(&prepare, on_prepare);
    ev_prepare_start(loop, &prepare);
    ev_run(loop, 0);
}

int main(void) {
    struct ev_loop *loop = EV_DEFAULT;
    engine_ev(loop);
    wheel_ev(loop);
    printf("%d timers have fired\n", fired);
    return fired == 5 ? 0 : 1;
}
