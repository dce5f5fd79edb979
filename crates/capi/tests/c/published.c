/* A timer whose memory lies in its user data, which its callback or its release frees while the call
 * that schedules or moves it may not have returned: the memory was written before the timer could fire,
 * and is not touched afterwards. The argument is how often each thread tries. */
#include "check.h"

#define THREADS 4
#define LEFT 0xa5

struct object {
    tickless_timer timer;
    struct count *done;
};

/* Memory that is gone: what lies in it must not change any more. */
struct grave {
    unsigned char bytes[sizeof(struct object)];
};

static int is_untouched(const struct grave *grave) {
    size_t i;
    for (i = 0; i < sizeof grave->bytes; i++) {
        if (grave->bytes[i] != LEFT) {
            return 0;
        }
    }
    return 1;
}

/* Ends the timer that runs it, and fills the memory. */
static void end_itself(void *user_data) {
    struct object *object = user_data;
    struct count *done = object->done;
    OK(tickless_timer_detach(&object->timer));
    memset(object, LEFT, sizeof *object);
    count_add(done, 1);
}

static void free_itself(void *user_data) {
    struct object *object = user_data;
    OK(tickless_timer_detach(&object->timer));
    free(object);
}

struct arguments {
    tickless_engine *engine;
    long times;
};

/* `is_moved`: the timers are for later first, and are then moved to a time that has come. */
static void bury_all(const struct arguments *arguments, int is_moved) {
    struct count done = COUNT_INIT;
    struct grave *graves = calloc((size_t)arguments->times, sizeof *graves);
    uint64_t delay = is_moved ? HOUR : 0;
    long i;
    for (i = 0; i < arguments->times; i++) {
        struct object *object = (void *)&graves[i];
        object->done = &done;
        OK(tickless_schedule(arguments->engine, delay, end_itself, object, NULL, &object->timer));
        if (is_moved) {
            OK(tickless_timer_reset(&object->timer, 0));
        }
    }
    count_wait(&done, arguments->times);
    for (i = 0; i < arguments->times; i++) {
        CHECK(is_untouched(&graves[i]));
    }
    free(graves);
}

static void *bury(void *user_data) {
    bury_all(user_data, 0);
    return NULL;
}

static void *bury_moved(void *user_data) {
    bury_all(user_data, 1);
    return NULL;
}

/* The README's pattern: the timer is a member of the connection, which is the user data. */
static void *bury_freed(void *user_data) {
    const struct arguments *arguments = user_data;
    const tickless_when soon = {0, 0, TICKLESS_WAITABLE};
    long i;
    for (i = 0; i < arguments->times; i++) {
        struct object *object = malloc(sizeof *object);
        if (i % 2) {
            OK(tickless_schedule(arguments->engine, 0, count_nothing, object, free_itself,
                                 &object->timer));
        } else {
            OK(tickless_schedule_when(arguments->engine, &soon, count_nothing, object, free_itself,
                                      &object->timer));
        }
    }
    return NULL;
}

static void in_threads(void *(*body)(void *), long times) {
    tickless_options options = {.size = sizeof options, .shards = 2, .tick_ns = 10000};
    struct arguments arguments = {NULL, times};
    pthread_t threads[THREADS];
    int i;
    OK(tickless_engine_new(&options, &arguments.engine));
    for (i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, body, &arguments) == 0);
    }
    for (i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    OK(tickless_engine_free(arguments.engine));
}

static long times = 20000;

static void a_callback_may_end_its_timer_before_the_call_that_schedules_has_returned(void) {
    in_threads(bury, times);
}

static void a_callback_may_end_its_timer_before_the_call_that_moves_it_has_returned(void) {
    in_threads(bury_moved, times);
}

static void the_memory_of_a_timer_may_be_freed_by_its_release_while_it_is_scheduled(void) {
    in_threads(bury_freed, times);
}

int main(int argc, char **argv) {
    times = argc > 1 ? atol(argv[1]) : times;
    RUN(a_callback_may_end_its_timer_before_the_call_that_schedules_has_returned);
    RUN(a_callback_may_end_its_timer_before_the_call_that_moves_it_has_returned);
    RUN(the_memory_of_a_timer_may_be_freed_by_its_release_while_it_is_scheduled);
    return 0;
}
