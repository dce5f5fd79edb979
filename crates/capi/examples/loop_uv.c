/* tickless in a libuv loop: the engine's one descriptor is a uv_poll_t, and callbacks run in the loop's
 * thread. Other threads may schedule for the loop: it wakes up. (For timers that only the loop uses,
 * tickless_wheel.h costs less: see wheel_uv below.) */
#include <stdio.h>
#include <stdlib.h>

#include <tickless.h>
#include <tickless_wheel.h>
#include <uv.h>

#define MUST(condition) ((condition) ? (void)0 : (perror(#condition), abort()))

static tickless_engine *engine;
static int fired;

/* The loop says that the descriptor is readable: the turn makes it unreadable. */
static void on_readable(uv_poll_t *poll, int status, int events) {
    (void)poll;
    (void)events;
    MUST(status == 0 && tickless_turn(engine, 0, 0, NULL) == TICKLESS_OK);
}

static void on_timeout(void *poll) {
    if (++fired == 3) {
        uv_close(poll, NULL);
    }
}

static void engine_uv(uv_loop_t *loop) {
    tickless_options options = {.size = sizeof options, .driver = TICKLESS_DRIVER_CALLER, .shards = 1};
    uv_poll_t poll;
    int i;
    MUST(tickless_engine_new(&options, &engine) == TICKLESS_OK);
    MUST(uv_poll_init(loop, &poll, tickless_pollable_fd(engine, 0)) == 0);
    MUST(uv_poll_start(&poll, UV_READABLE, on_readable) == 0);
    for (i = 0; i < 3; i++) {
        MUST(tickless_schedule(engine, 2000000, on_timeout, &poll, NULL, NULL) == TICKLESS_OK);
    }
    uv_run(loop, UV_RUN_DEFAULT);
    tickless_engine_free(engine);
}

/* The wheel has no descriptor: one uv_timer_t is set to its next wake-up before the loop sleeps. */
struct wheel_loop {
    uv_prepare_t prepare;
    uv_timer_t wake;
    struct tickless_wheel wheel;
};

static void on_idle(struct tickless_wheel_timer *timer, void *context) {
    (void)timer;
    (void)context;
    fired++;
}

static void on_wake(uv_timer_t *wake) {
    struct wheel_loop *self = wake->data;
    tickless_wheel_advance(&self->wheel, uv_now(wake->loop), 1000, on_idle, NULL);
}

static void on_prepare(uv_prepare_t *prepare) {
    struct wheel_loop *self = prepare->data;
    const int timeout = tickless_wheel_timeout(&self->wheel, uv_now(prepare->loop));
    if (timeout < 0) {
        uv_timer_stop(&self->wake);
        uv_prepare_stop(prepare); /* To be started with the next timer. */
    } else {
        uv_timer_start(&self->wake, on_wake, (uint64_t)timeout, 0);
    }
}

static void wheel_uv(uv_loop_t *loop) {
    static struct wheel_loop self;
    static struct tickless_wheel_timer timers[2];
    MUST(uv_prepare_init(loop, &self.prepare) == 0 && uv_timer_init(loop, &self.wake) == 0);
    self.prepare.data = self.wake.data = &self;
    tickless_wheel_init(&self.wheel, uv_now(loop));
    tickless_wheel_add(&self.wheel, &timers[0], uv_now(loop) + 2);
    tickless_wheel_add(&self.wheel, &timers[1], uv_now(loop) + 3);
    MUST(uv_prepare_start(&self.prepare, on_prepare) == 0);
    on_prepare(&self.prepare);
    uv_run(loop, UV_RUN_DEFAULT);
}

int main(void) {
    uv_loop_t *loop = uv_default_loop();
    engine_uv(loop);
    wheel_uv(loop);
    printf("%d timers have fired\n", fired);
    return fired == 5 ? 0 : 1;
}
