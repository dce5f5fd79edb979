/* Frees what a callback uses after cancel_wait, as often as the argument says: each callback is
 * cancelled, has run, or is waited for while it runs. A memory checker sees a mistake. */
#include "check.h"

struct object {
    tickless_timer timer;
    /* One writer: the callback, or the thread that has waited. */
    long uses;
    char *owned;
};

static struct count released = COUNT_INIT;

static void use(void *user_data) {
    struct object *object = user_data;
    object->uses++;
    memset(object->owned, 7, 64);
}

static void release(void *user_data) {
    struct object *object = user_data;
    free(object->owned);
    object->owned = NULL;
    count_add(&released, 1);
}

static void *race(void *engine_and_times) {
    void **arguments = engine_and_times;
    tickless_engine *engine = arguments[0];
    long i, times = *(long *)arguments[1];
    uint64_t cancelled = 0;
    for (i = 0; i < times; i++) {
        const tickless_when when = {(uint64_t)(i % 7) * 10000, 0, TICKLESS_WAITABLE};
        struct object *object = calloc(1, sizeof *object);
        int ended;
        object->owned = malloc(64);
        OK(tickless_schedule_when(engine, &when, use, object, release, &object->timer));
        if (i % 4 == 0) {
            struct timespec moment = {0, (i % 11) * 10000};
            nanosleep(&moment, NULL);
        }
        ended = tickless_timer_cancel_wait(&object->timer, TICKLESS_NEVER);
        CHECK(ended == 0 || ended == 1);
        CHECK(object->owned == NULL && object->uses == !ended);
        free(object);
        cancelled += (uint64_t)ended;
    }
    printf("%ld waits, %llu cancelled\n", times, (unsigned long long)cancelled);
    return NULL;
}

int main(int argc, char **argv) {
    tickless_options options = {.size = sizeof options, .shards = 2, .tick_ns = 10000};
    long times = argc > 1 ? atol(argv[1]) : 10000;
    tickless_engine *engine;
    void *arguments[2];
    pthread_t threads[2];
    int i;
    options.reapers_min = 2;
    OK(tickless_engine_new(&options, &engine));
    arguments[0] = engine;
    arguments[1] = &times;
    for (i = 0; i < 2; i++) {
        CHECK(pthread_create(&threads[i], NULL, race, arguments) == 0);
    }
    for (i = 0; i < 2; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    CHECK(count_now(&released) == 2 * times);
    OK(tickless_engine_free(engine));
    return 0;
}
