/* A loop with epoll and the wheel, to which several threads send work: tickless_post.h is the queue and the
 * eventfd that such programs have by hand. Each thread asks the loop for connections that time out; only
 * the loop touches the wheel and the connections, so nothing has a lock. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include <tickless_post.h>
#include <tickless_wheel.h>

#define MUST(condition) ((condition) ? (void)0 : (perror(#condition), abort()))

enum { THREADS = 4, CONNECTIONS = 1000, WORK_MAX = 64, TIMERS_LIMIT = 1000 };

/* Sent by a thread; from then on the loop's. */
struct connection {
    struct tickless_post_work work;
    struct tickless_wheel_timer idle;
    uint64_t idle_ms;
};

static struct tickless_post post;
static struct tickless_wheel wheel;
static int ended;

static uint64_t now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

/* In the loop's thread, in the order in which it was sent. */
static void open_connection(struct tickless_post_work *work) {
    struct connection *connection = TICKLESS_POST_OWNER(work, struct connection, work);
    tickless_wheel_add(&wheel, &connection->idle, now_ms() + connection->idle_ms);
}

static void on_idle(struct tickless_wheel_timer *timer, void *context) {
    (void)context;
    free(TICKLESS_WHEEL_OWNER(timer, struct connection, idle));
    ended++;
}

static void *serve(void *context) {
    int i;
    (void)context;
    for (i = 0; i < CONNECTIONS; i++) {
        struct connection *connection = calloc(1, sizeof *connection);
        MUST(connection != NULL);
        connection->work.run = open_connection;
        connection->idle_ms = (uint64_t)i % 20;
        tickless_post_send(&post, &connection->work);
    }
    return NULL;
}

int main(void) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    pthread_t threads[THREADS];
    int i, epoll = epoll_create1(EPOLL_CLOEXEC), fd = tickless_post_init(&post);
    tickless_wheel_init(&wheel, now_ms());
    MUST(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0);
    for (i = 0; i < THREADS; i++) {
        MUST(pthread_create(&threads[i], NULL, serve, NULL) == 0);
    }
    while (ended < THREADS * CONNECTIONS) {
        const int timeout = tickless_wheel_timeout(&wheel, now_ms());
        if (epoll_wait(epoll, &event, 1, timeout) == 1) {
            tickless_post_run(&post, WORK_MAX);
        }
        tickless_wheel_advance(&wheel, now_ms(), TIMERS_LIMIT, on_idle, NULL);
    }
    for (i = 0; i < THREADS; i++) {
        MUST(pthread_join(threads[i], NULL) == 0);
    }
    tickless_post_close(&post);
    close(epoll);
    printf("%d connections have timed out\n", ended);
    return 0;
}
