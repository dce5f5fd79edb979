/* tickless in a loop that is edge-triggered, as nginx's is, and which other threads give work: several
 * producers post requests to the loop, which needs no queue and no eventfd of its own. To post is to
 * schedule without a delay: the callback runs in the loop's thread, and drop_fn frees what was not run.
 * Work of one thread runs in any order, since it is due in one tick: what has an order goes into a list
 * of the program's, and one timer runs it. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <tickless.h>

#define MUST(condition) ((condition) ? (void)0 : (perror(#condition), abort()))

enum { PRODUCERS = 4, REQUESTS = 1000, TURN_MAX = 64 };

struct request {
    int producer, number;
    long *served;
};

static tickless_engine *engine;

/* In the loop's thread: no lock is needed for what only the loop uses. */
static void serve(void *user_data) {
    struct request *request = user_data;
    request->served[request->producer]++;
}

static void *produce(void *served) {
    static int producers;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    int i, producer;
    pthread_mutex_lock(&lock);
    producer = producers++;
    pthread_mutex_unlock(&lock);
    /* What this thread schedules goes to the loop's shard. */
    MUST(tickless_bind_thread(engine, 0) == TICKLESS_OK);
    for (i = 0; i < REQUESTS; i++) {
        struct request *request = malloc(sizeof *request);
        MUST(request != NULL);
        request->producer = producer;
        request->number = i;
        request->served = served;
        MUST(tickless_schedule(engine, 0, serve, request, free, NULL) == TICKLESS_OK);
    }
    return NULL;
}

int main(void) {
    tickless_options options = {.size = sizeof options, .driver = TICKLESS_DRIVER_CALLER, .shards = 1};
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    long served[PRODUCERS] = {0}, all = 0;
    pthread_t threads[PRODUCERS];
    int i, epoll = epoll_create1(EPOLL_CLOEXEC);
    MUST(tickless_engine_new(&options, &engine) == TICKLESS_OK);
    MUST(epoll_ctl(epoll, EPOLL_CTL_ADD, tickless_pollable_fd(engine, 0), &event) == 0);
    for (i = 0; i < PRODUCERS; i++) {
        MUST(pthread_create(&threads[i], NULL, produce, served) == 0);
    }
    while (all < PRODUCERS * REQUESTS) {
        MUST(epoll_wait(epoll, &event, 1, -1) == 1);
        /* One turn for each report. If it leaves something, the descriptor is reported again, after the
         * other descriptors of the loop. */
        MUST(tickless_turn(engine, 0, TURN_MAX, NULL) == TICKLESS_OK);
        for (all = 0, i = 0; i < PRODUCERS; i++) {
            all += served[i];
        }
    }
    for (i = 0; i < PRODUCERS; i++) {
        MUST(pthread_join(threads[i], NULL) == 0);
    }
    close(epoll);
    tickless_engine_free(engine);
    printf("%ld requests were served\n", all);
    return 0;
}
