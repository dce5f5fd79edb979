/* tickless_post: several threads send work to one loop, as a header of C99 (or C++). It needs no
 * library and allocates nothing: a queue, and an eventfd that the loop watches. Work is memory of
 * yours: a member of your request, for example.
 *
 *     struct tickless_post post;
 *     int fd = tickless_post_init(&post);
 *     ... the loop watches fd, and calls tickless_post_run(&post, 100) when it is readable ...
 *
 *     request->work.run = serve;
 *     tickless_post_send(&post, &request->work);
 *
 * ORDER. Work runs in the loop's thread, in the order in which it was sent: that of one thread, in that
 * thread's. It sees what its sender wrote before it sent it.
 *
 * COST. To send is one CAS, and a system call and one more unless the loop was rung since it looked
 * last. Senders do not wait for each other, nor for the loop: one that stands still anywhere in
 * a call holds up its own work only.
 *
 * RULES. Any thread sends, also in work that runs, and in signal handlers (errno stays as it is). One
 * thread runs. The memory of work is its receiver's from the call that sends it on, and work that runs
 * may free its memory, or send it again. A post is neither moved nor freed before each call that sends
 * has returned. */
#ifndef TICKLESS_POST_H
#define TICKLESS_POST_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#if !defined(__GNUC__)
#error "tickless_post.h needs the builtins of GCC, which clang has as well"
#endif

#ifdef __cplusplus
extern "C" {
/* This is C, whose casts and null pointers C++ has others for. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
#pragma GCC diagnostic ignored "-Wzero-as-null-pointer-constant"
#endif

/* The struct that work is a member of: TICKLESS_POST_OWNER(work, struct request, work). */
#ifdef __cplusplus
#define TICKLESS_POST_OWNER(pointer, type, member)                                             \
    reinterpret_cast<type *>(reinterpret_cast<char *>(pointer) - offsetof(type, member))
#else
#define TICKLESS_POST_OWNER(pointer, type, member)                                             \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))
#endif

/* Work. The sender sets `run`, which is called with the work itself. */
struct tickless_post_work {
    struct tickless_post_work *next;
    void (*run)(struct tickless_post_work *work);
};

/* Where a loop gets its work. The fields are its own. */
struct tickless_post {
    /* What was sent, the last first: a stack, which is taken as a whole. */
    struct tickless_post_work *sent;
    /* What was taken and waits to be run, the first first, and the last of it. The loop's. */
    struct tickless_post_work *taken, *last;
    /* Odd if the descriptor was rung since the loop looked last. Each look begins a new even number. */
    size_t looks;
    int fd;
};

/* Makes memory a post, and returns the descriptor to be watched: readable when there is work, also if
 * the loop is edge-triggered. Returns -1 if there is none, with errno. */
static inline int tickless_post_init(struct tickless_post *post) {
    post->sent = NULL;
    post->taken = NULL;
    post->last = NULL;
    post->looks = 0;
    post->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return post->fd;
}

/* Makes the descriptor readable, unless it was since the loop looked last. It is noted after the write:
 * so who reads the note need not ring, however long another that rings stands still. A note that comes
 * after the next look changes nothing. */
static inline void tickless_post_ring_(struct tickless_post *post) {
    const uint64_t one = 1;
    /* SeqCst: after what was sent. See tickless_post_look_. */
    size_t look = __atomic_load_n(&post->looks, __ATOMIC_SEQ_CST);
    const int before = errno;
    ssize_t written;
    if (look % 2 != 0) {
        return;
    }
    /* It fails if it was rung 2^64 - 2 times: it is readable then. What a signal handler has interrupted
     * sees no error of it. */
    written = write(post->fd, &one, sizeof one);
    (void)written;
    errno = before;
    __atomic_compare_exchange_n(&post->looks, &look, look + 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

/* The loop looks, after it has read the descriptor and before it takes what was sent: from here on who
 * sends rings again. SeqCst, as are the push of who sends and its load in the ring: that load reads a
 * number from before this, or else what is taken next has what was sent. */
static inline void tickless_post_look_(struct tickless_post *post) {
    /* Nobody else writes an even number. A sender may make it odd meanwhile, which this takes back. */
    const size_t look = __atomic_load_n(&post->looks, __ATOMIC_RELAXED);
    __atomic_exchange_n(&post->looks, (look | 1) + 1, __ATOMIC_SEQ_CST);
}

/* Sends work to the loop. */
static inline void tickless_post_send(struct tickless_post *post, struct tickless_post_work *work) {
    struct tickless_post_work *first = __atomic_load_n(&post->sent, __ATOMIC_RELAXED);
    do {
        work->next = first;
        /* Release: pairs with the acquire in `take`: the work, and what its sender wrote before. SeqCst:
         * before the load in the ring. */
    } while (!__atomic_compare_exchange_n(&post->sent, &first, work, 1, __ATOMIC_SEQ_CST,
                                          __ATOMIC_RELAXED));
    /* From here on the work may be gone. */
    tickless_post_ring_(post);
}

/* Takes all that was sent, in the order in which it was sent, behind what a limit has left. */
static inline void tickless_post_take_(struct tickless_post *post) {
    struct tickless_post_work *work = __atomic_exchange_n(&post->sent, NULL, __ATOMIC_SEQ_CST);
    struct tickless_post_work *const last = work, *first = NULL;
    if (work == NULL) {
        return;
    }
    while (work != NULL) {
        struct tickless_post_work *const before = work->next;
        work->next = first;
        first = work;
        work = before;
    }
    *(post->taken != NULL ? &post->last->next : &post->taken) = first;
    post->last = last;
}

/* Takes the next work without running it; NULL if there is none. When a loop ends, this is how what was
 * not run is freed. */
static inline struct tickless_post_work *tickless_post_next(struct tickless_post *post) {
    struct tickless_post_work *work;
    if (post->taken == NULL) {
        tickless_post_look_(post);
        tickless_post_take_(post);
    }
    work = post->taken;
    if (work != NULL) {
        post->taken = work->next;
    }
    return work;
}

/* Runs what was sent before this call, but at most `limit` (UINT64_MAX: no limit). Returns how much. If
 * something is left, or was sent meanwhile, the descriptor is readable. */
static inline uint64_t tickless_post_run(struct tickless_post *post, uint64_t limit) {
    uint64_t ran = 0, rings;
    const ssize_t got = read(post->fd, &rings, sizeof rings);
    (void)got;
    tickless_post_look_(post);
    tickless_post_take_(post);
    while (ran < limit && post->taken != NULL) {
        struct tickless_post_work *const work = post->taken;
        post->taken = work->next;
        ran++;
        work->run(work);
    }
    /* The ring of what was not taken may be the one that was read above. */
    if (post->taken != NULL || __atomic_load_n(&post->sent, __ATOMIC_SEQ_CST) != NULL) {
        tickless_post_ring_(post);
    }
    return ran;
}

/* Closes the descriptor. Nobody sends any more, and what is left was taken by tickless_post_next. */
static inline void tickless_post_close(struct tickless_post *post) {
    close(post->fd);
    post->fd = -1;
}

#ifdef __cplusplus
#pragma GCC diagnostic pop
} /* extern "C" */
#endif

#endif
