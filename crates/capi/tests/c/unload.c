/* Loads the library that the argument names, and closes it while threads and an engine use it: it
 * stays. */
#include <dlfcn.h>

#include "check.h"

struct calls {
    int (*engine_new)(const tickless_options *, tickless_engine **);
    int (*engine_free)(tickless_engine *);
    int (*schedule)(const tickless_engine *, uint64_t, tickless_fn, void *, tickless_fn,
                    tickless_timer *);
    int (*cancel)(tickless_timer *);
    tickless_engine *engine;
    struct count fired, scheduled, closed;
};

#undef CHECK
#define CHECK(condition)                                                                       \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                    \
            abort();                                                                           \
        }                                                                                      \
    } while (0)

/* A function's address as the standard permits it. */
static void look_up(void *library, const char *name, void *function) {
    void *address = dlsym(library, name);
    CHECK(address != NULL);
    memcpy(function, &address, sizeof address);
}

/* A thread that has memory of the engine when the library is closed, and ends after that. */
static void *use(void *user_data) {
    struct calls *calls = user_data;
    tickless_timer timer;
    CHECK(calls->schedule(calls->engine, HOUR, count_one, NULL, NULL, &timer) == 0);
    CHECK(calls->cancel(&timer) == 1);
    count_add(&calls->scheduled, 1);
    count_wait(&calls->closed, 1);
    return NULL;
}

const char *tickless_last_error(void) {
    return "";
}

int main(int argc, char **argv) {
    static struct calls calls = {0};
    const struct count none = COUNT_INIT;
    void *library;
    pthread_t thread;
    CHECK(argc == 2);
    calls.fired = calls.scheduled = calls.closed = none;
    library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    CHECK(library != NULL);
    look_up(library, "tickless_engine_new", &calls.engine_new);
    look_up(library, "tickless_engine_free", &calls.engine_free);
    look_up(library, "tickless_schedule", &calls.schedule);
    look_up(library, "tickless_timer_cancel", &calls.cancel);
    CHECK(calls.engine_new(NULL, &calls.engine) == 0);
    CHECK(pthread_create(&thread, NULL, use, &calls) == 0);
    count_wait(&calls.scheduled, 1);
    CHECK(dlclose(library) == 0);
    CHECK(calls.schedule(calls.engine, MS, count_one, &calls.fired, NULL, NULL) == 0);
    count_wait(&calls.fired, 1);
    count_add(&calls.closed, 1);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(calls.engine_free(calls.engine) == 0);
    printf("ok the library stays loaded\n");
    return 0;
}
