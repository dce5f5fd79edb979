/* A program with a copy of the library linked into it, and exported, which loads another: each works by
 * itself. The argument names the shared library. */
#include <dlfcn.h>

#include "check.h"

static void look_up(void *library, const char *name, void *function) {
    void *address = dlsym(library, name);
    CHECK(address != NULL);
    memcpy(function, &address, sizeof address);
}

int main(int argc, char **argv) {
    int (*engine_new)(const tickless_options *, tickless_engine **);
    int (*engine_free)(tickless_engine *);
    int (*schedule)(const tickless_engine *, uint64_t, tickless_fn, void *, tickless_fn,
                    tickless_timer *);
    int (*restart)(const tickless_engine *, tickless_timer *, uint64_t, tickless_fn, void *,
                   tickless_fn);
    int (*cancel)(tickless_timer *);
    const char *(*last_error)(void);
    tickless_engine *own, *other;
    tickless_timer timers[2];
    struct count fired[2] = {COUNT_INIT, COUNT_INIT};
    void *library;
    CHECK(argc == 2);
    library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
    CHECK(library != NULL);
    look_up(library, "tickless_engine_new", &engine_new);
    look_up(library, "tickless_engine_free", &engine_free);
    look_up(library, "tickless_schedule", &schedule);
    look_up(library, "tickless_timer_restart", &restart);
    look_up(library, "tickless_timer_cancel", &cancel);
    look_up(library, "tickless_last_error", &last_error);
    CHECK(engine_new != tickless_engine_new);
    OK(tickless_engine_new(NULL, &own));
    CHECK(engine_new(NULL, &other) == TICKLESS_OK);
    OK(tickless_schedule(own, MS, count_one, &fired[0], NULL, NULL));
    CHECK(schedule(other, MS, count_one, &fired[1], NULL, NULL) == TICKLESS_OK);
    count_wait(&fired[0], 1);
    count_wait(&fired[1], 1);
    /* A call inside the library that is also a public one is that of the same copy. */
    memset(timers, 0, sizeof timers);
    OK(tickless_timer_restart(own, &timers[0], HOUR, count_nothing, NULL, NULL));
    CHECK(restart(other, &timers[1], HOUR, count_nothing, NULL, NULL) == TICKLESS_OK);
    CHECK(cancel(&timers[1]) == 1 && cancel(&timers[1]) == TICKLESS_E_HANDLE);
    CHECK(strlen(last_error()) > 0 && strlen(tickless_last_error()) == 0);
    RETURNS(1, tickless_timer_cancel(&timers[0]));
    OK(tickless_engine_free(own));
    CHECK(engine_free(other) == TICKLESS_OK);
    printf("ok two_copies_work_beside_each_other\n");
    return 0;
}
