/* Timers as a client of a message broker has them: for each partition one that repeats, under a lock,
 * because several threads start and stop them. Such clients often keep them in a sorted list: each
 * start walks it. Here they are in a wheel, and the same work is done with a list to compare.
 *
 * partitions [PARTITIONS] prints the CPU time of a start, and of a run of a timer, which starts it again.
 * Time is moved by the program. */
#define _POSIX_C_SOURCE 200809L

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <tickless_wheel.h>

enum { INTERVAL_US = 500000, RUNS = 4 };

/* A timer that repeats. */
struct timer {
    struct tickless_wheel_timer entry;
    uint64_t interval;
    void (*run)(void *argument);
    void *argument;
    /* For the list. */
    struct timer *next, **place;
    uint64_t deadline;
};

struct timers {
    pthread_mutex_t lock;
    uint64_t now;
    struct tickless_wheel wheel;
    struct timer *list;
};

static void wheel_start(struct timers *timers, struct timer *timer) {
    pthread_mutex_lock(&timers->lock);
    tickless_wheel_reset(&timers->wheel, &timer->entry, timers->now + timer->interval);
    pthread_mutex_unlock(&timers->lock);
}

/* Runs what is due, without the lock, and starts it again. */
static void wheel_run(struct timers *timers, uint64_t now) {
    struct tickless_wheel_timer *entry;
    pthread_mutex_lock(&timers->lock);
    timers->now = now;
    while ((entry = tickless_wheel_pop(&timers->wheel, now, NULL)) != NULL) {
        struct timer *timer = TICKLESS_WHEEL_OWNER(entry, struct timer, entry);
        pthread_mutex_unlock(&timers->lock);
        timer->run(timer->argument);
        pthread_mutex_lock(&timers->lock);
        if (!tickless_wheel_is_pending(entry)) {
            tickless_wheel_add(&timers->wheel, entry, now + timer->interval);
        }
    }
    pthread_mutex_unlock(&timers->lock);
}

static void list_insert(struct timers *timers, struct timer *timer) {
    struct timer **place = &timers->list;
    timer->deadline = timers->now + timer->interval;
    while (*place != NULL && (*place)->deadline <= timer->deadline) {
        place = &(*place)->next;
    }
    timer->next = *place;
    timer->place = place;
    if (timer->next != NULL) {
        timer->next->place = &timer->next;
    }
    *place = timer;
}

static void list_start(struct timers *timers, struct timer *timer) {
    pthread_mutex_lock(&timers->lock);
    list_insert(timers, timer);
    pthread_mutex_unlock(&timers->lock);
}

static void list_run(struct timers *timers, uint64_t now) {
    struct timer *timer;
    pthread_mutex_lock(&timers->lock);
    timers->now = now;
    while ((timer = timers->list) != NULL && timer->deadline <= now) {
        timers->list = timer->next;
        if (timer->next != NULL) {
            timer->next->place = &timers->list;
        }
        pthread_mutex_unlock(&timers->lock);
        timer->run(timer->argument);
        pthread_mutex_lock(&timers->lock);
        list_insert(timers, timer);
    }
    pthread_mutex_unlock(&timers->lock);
}

static void poll_partition(void *argument) {
    ++*(long *)argument;
}

static double cpu_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* Starts one timer after another, some microseconds apart, and runs each some times. */
static int measure(const char *name, long partitions,
                   void (*start)(struct timers *, struct timer *),
                   void (*run)(struct timers *, uint64_t)) {
    static struct timers timers = {PTHREAD_MUTEX_INITIALIZER, 0, {0}, NULL};
    struct timer *all = calloc((size_t)partitions, sizeof *all);
    long polls = 0, i;
    uint64_t step = INTERVAL_US / (uint64_t)partitions + 1, now;
    double begun, started, ended;
    timers.now = 0;
    timers.list = NULL;
    tickless_wheel_init(&timers.wheel, 0);
    begun = cpu_ns();
    for (i = 0; i < partitions; i++) {
        all[i].interval = INTERVAL_US;
        all[i].run = poll_partition;
        all[i].argument = &polls;
        timers.now = (uint64_t)i * step;
        start(&timers, &all[i]);
    }
    started = cpu_ns();
    for (now = timers.now; polls < RUNS * partitions; now += 1000) {
        run(&timers, now);
    }
    ended = cpu_ns();
    printf("%s: %.0f ns for a start, %.0f ns for a run\n", name,
           (started - begun) / (double)partitions, (ended - started) / (double)polls);
    free(all);
    return polls >= RUNS * partitions;
}

int main(int argc, char **argv) {
    long partitions = argc > 1 ? atol(argv[1]) : 20000;
    int is_done = measure("wheel", partitions, wheel_start, wheel_run);
    return is_done && measure("sorted list", partitions, list_start, list_run) ? 0 : 1;
}
