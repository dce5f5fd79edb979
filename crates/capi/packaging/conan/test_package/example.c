/* A timer that fires, and one that is cancelled in time. */
#include <stdint.h>
#include <tickless.h>

static void nothing(void *user_data) {
    (void)user_data;
}

int main(void) {
    tickless_engine *engine;
    tickless_timer timer;
    int is_cancelled;
    if (tickless_engine_new(NULL, &engine) != TICKLESS_OK ||
        tickless_schedule(engine, UINT64_C(60000000000), nothing, NULL, NULL, &timer) != TICKLESS_OK) {
        return 1;
    }
    is_cancelled = tickless_timer_cancel(&timer) == 1;
    return tickless_engine_free(engine) == TICKLESS_OK && is_cancelled ? 0 : 1;
}
