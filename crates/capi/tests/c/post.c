/* tickless_post.h: work that threads send to a loop. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* A sender is held where it rings. */
static ssize_t write_held(int fd, const void *data, size_t size);
#define write write_held
#include <tickless_post.h>
#undef write

#include "check.h"

enum { SENDERS = 4 };

struct item {
    long number;
    struct tickless_post_work work;
    int sender;
};

static struct tickless_post post;
static long last[SENDERS], ran;

static int is_readable(void) {
    struct pollfd waited = {post.fd, POLLIN, 0};
    return poll(&waited, 1, 0);
}

static void note(struct tickless_post_work *work) {
    struct item *item = TICKLESS_POST_OWNER(work, struct item, work);
    CHECK(item->number > last[item->sender]);
    last[item->sender] = item->number;
    ran++;
}

static void note_and_free(struct tickless_post_work *work) {
    note(work);
    free(TICKLESS_POST_OWNER(work, struct item, work));
}

static void begin(void) {
    memset(last, 0, sizeof last);
    ran = 0;
    CHECK(tickless_post_init(&post) >= 0);
}

static void work_runs_in_the_order_in_which_it_was_sent_and_within_a_limit(void) {
    struct item items[10];
    int i;
    begin();
    CHECK(is_readable() == 0 && tickless_post_run(&post, 5) == 0);
    for (i = 0; i < 10; i++) {
        items[i].number = i + 1;
        items[i].sender = 0;
        items[i].work.run = note;
        tickless_post_send(&post, &items[i].work);
        CHECK(is_readable() == 1);
    }
    CHECK(tickless_post_run(&post, 4) == 4 && last[0] == 4);
    /* The rest is reported again. */
    CHECK(is_readable() == 1);
    /* Work is its loop's, which may send it again: it comes last. */
    items[0].number = 11;
    tickless_post_send(&post, &items[0].work);
    CHECK(tickless_post_run(&post, 3) == 3 && last[0] == 7);
    CHECK(tickless_post_run(&post, 2) == 2 && last[0] == 9 && is_readable() == 1);
    /* What a limit has left, and what was sent since, are all sent before this call. */
    CHECK(tickless_post_run(&post, UINT64_MAX) == 2 && last[0] == 11);
    CHECK(is_readable() == 0);
    tickless_post_close(&post);
}

static int sent_in_work;

static void send_again(struct tickless_post_work *work) {
    if (++sent_in_work < 5) {
        tickless_post_send(&post, work);
    }
}

static void what_is_sent_by_work_runs_in_the_next_call(void) {
    struct tickless_post_work work = {NULL, send_again};
    int calls = 0;
    begin();
    tickless_post_send(&post, &work);
    while (is_readable() == 1) {
        CHECK(tickless_post_run(&post, UINT64_MAX) == 1);
        calls++;
    }
    CHECK(calls == 5 && sent_in_work == 5);
    tickless_post_close(&post);
}

static void a_loop_that_ends_takes_what_was_not_run(void) {
    struct item items[3];
    struct tickless_post_work *work;
    int i;
    begin();
    for (i = 0; i < 3; i++) {
        items[i].work.run = note;
        items[i].number = 1;
        items[i].sender = i;
        tickless_post_send(&post, &items[i].work);
    }
    CHECK(tickless_post_run(&post, 1) == 1);
    for (i = 1; (work = tickless_post_next(&post)) != NULL; i++) {
        CHECK(work == &items[i].work);
    }
    CHECK(i == 3 && ran == 1);
    tickless_post_close(&post);
}

static struct item of_signal = {1, {NULL, note}, 0};

static void send_in_handler(int signal) {
    (void)signal;
    tickless_post_send(&post, &of_signal.work);
}

/* The descriptor takes no more, so the write fails. */
static void a_signal_handler_sends_and_leaves_errno_as_it_is(void) {
    const uint64_t most = UINT64_MAX - 1;
    struct sigaction action;
    begin();
    memset(&action, 0, sizeof action);
    action.sa_handler = send_in_handler;
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    CHECK(write(post.fd, &most, sizeof most) == sizeof most);
    errno = ENOENT;
    CHECK(raise(SIGUSR1) == 0 && errno == ENOENT);
    CHECK(is_readable() == 1 && tickless_post_run(&post, 5) == 1 && last[0] == 1);
    tickless_post_close(&post);
}

/* Where a thread stands still when it rings. */
enum { BEFORE = 1, AFTER };
static __thread int holds;
static struct count held = COUNT_INIT, released = COUNT_INIT;

static void hold(int where) {
    if (holds == where) {
        count_add(&held, 1);
        count_wait(&released, 1);
    }
}

static ssize_t write_held(int fd, const void *data, size_t size) {
    ssize_t written;
    hold(BEFORE);
    written = write(fd, data, size);
    hold(AFTER);
    return written;
}

struct held_sender {
    struct item item;
    int holds;
};

static void *send_and_be_held(void *context) {
    struct held_sender *sender = context;
    holds = sender->holds;
    tickless_post_send(&post, &sender->item.work);
    return NULL;
}

static void a_sender_that_stands_still_holds_up_no_work_of_others(void) {
    int where;
    for (where = BEFORE; where <= AFTER; where++) {
        struct held_sender sender = {{1, {NULL, note}, 0}, where};
        struct item other = {1, {NULL, note}, 1}, later = {2, {NULL, note}, 1};
        pthread_t thread;
        begin();
        held.n = released.n = 0;
        CHECK(pthread_create(&thread, NULL, send_and_be_held, &sender) == 0);
        count_wait(&held, 1);
        tickless_post_send(&post, &other.work);
        CHECK(is_readable() == 1);
        CHECK(tickless_post_run(&post, UINT64_MAX) == 2 && last[0] == 1 && last[1] == 1);
        CHECK(is_readable() == 0);
        /* Its ring comes late. It is not taken for one that the loop has still to hear. */
        count_add(&released, 1);
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK(is_readable() == (where == BEFORE));
        CHECK(tickless_post_run(&post, UINT64_MAX) == 0 && is_readable() == 0);
        tickless_post_send(&post, &later.work);
        CHECK(is_readable() == 1);
        CHECK(tickless_post_run(&post, UINT64_MAX) == 1 && last[1] == 2);
        tickless_post_close(&post);
    }
}

struct sender {
    pthread_t thread;
    int number;
    long items;
};

static void *send_all(void *context) {
    const struct sender *sender = context;
    long i;
    for (i = 1; i <= sender->items; i++) {
        struct item *item = malloc(sizeof *item);
        CHECK(item != NULL);
        item->number = i;
        item->sender = sender->number;
        item->work.run = note_and_free;
        tickless_post_send(&post, &item->work);
    }
    return NULL;
}

/* The loop sleeps without a limit: a lost ring would let it sleep for ever. */
static void no_work_of_several_threads_is_lost(long items) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    struct sender senders[SENDERS];
    int i, epoll = epoll_create1(EPOLL_CLOEXEC);
    begin();
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, post.fd, &event) == 0);
    for (i = 0; i < SENDERS; i++) {
        senders[i].number = i;
        senders[i].items = items;
        CHECK(pthread_create(&senders[i].thread, NULL, send_all, &senders[i]) == 0);
    }
    while (ran < SENDERS * items) {
        CHECK(epoll_wait(epoll, &event, 1, -1) == 1);
        tickless_post_run(&post, 1 + (uint64_t)ran % 100);
    }
    for (i = 0; i < SENDERS; i++) {
        CHECK(pthread_join(senders[i].thread, NULL) == 0);
        CHECK(last[i] == items);
    }
    close(epoll);
    tickless_post_close(&post);
}

int main(int argc, char **argv) {
    const long races = argc > 1 ? atol(argv[1]) : 10000;
    RUN(work_runs_in_the_order_in_which_it_was_sent_and_within_a_limit);
    RUN(what_is_sent_by_work_runs_in_the_next_call);
    RUN(a_loop_that_ends_takes_what_was_not_run);
    RUN(a_signal_handler_sends_and_leaves_errno_as_it_is);
    RUN(a_sender_that_stands_still_holds_up_no_work_of_others);
    no_work_of_several_threads_is_lost(races);
    printf("ok no_work_of_several_threads_is_lost\n");
    return 0;
}
