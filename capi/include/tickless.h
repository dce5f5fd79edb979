/* tickless: a lock-free timer engine. This file is made by cbindgen from the crate tickless-c:
 * do not edit it. README.md beside it in the repository says how to build and link.
 *
 * CALLS. Functions return 0 or more if they did what was asked, else one of the codes TICKLESS_E_*.
 * tickless_last_error() has a text for the last failure on the calling thread. No call ever unwinds
 * into C.
 *
 * THREADS. Any thread may make any call, unless it is said at the call. Several threads may use an
 * engine, a timer or a scope at the same time: its description says what that means. No call may be
 * made in a signal handler: write to a descriptor there, and call from the thread that reads it. No
 * thread may be cancelled (pthread_cancel) inside a call. Calls may change errno, also if they
 * succeed.
 *
 * CALLBACKS. They run on a thread of the engine, or in tickless_turn and tickless_advance if the
 * caller drives the engine. They may make any call, unless it is said at the call. They must
 * return: no longjmp, no end of the thread. A C++ exception that leaves a callback ends the process.
 * Callbacks of several shards run at the same time. Those of one shard run one after another, so
 * they should be short: if one takes more than some milliseconds, another thread goes on with the
 * others meanwhile (see takeover_ns).
 *
 * USER DATA. With a call that schedules, `user_data` passes to the timer, whatever the call returns.
 * `drop_fn(user_data)` is called exactly once, when nothing uses it any more: after the callback,
 * in the cancel, when the engine stops or is freed, or before the call that could not schedule
 * returns. (Only tickless_timer_take hands it back instead.) It may run on any thread, and is bound
 * by the rules for callbacks.
 *
 * FORK. An engine belongs to the process that made it. In a child no timer of it fires and no call
 * blocks. Calls that schedule or move a timer fail with TICKLESS_E_STOPPED. Those that stop the
 * engine, run its timers, bind a thread, make a descriptor or wait for a callback of the parent's
 * fail with TICKLESS_E_FORKED. Those that only look, as tickless_now_ns and tickless_stats do, and
 * tickless_clock_advance, use the child's copy. A child can cancel its copies of timers, free its
 * copy of the engine, which releases no user data, and make engines of its own. If another thread
 * was in the middle of a call for a timer when the process was forked, calls for the child's copy
 * may fail with TICKLESS_E_FORKED, or with TICKLESS_E_HANDLE if that call was ending it. A child
 * that was forked inside a callback must end, or replace its program, before the callback returns.
 * Nobody is told of children by _Fork or a bare clone: there, engines cannot be made, calls that
 * would wait fail with TICKLESS_E_FORKED, and other calls act on the child's copy, where timers are
 * scheduled for nobody.
 *
 * SIGNALS. The engine's threads block all signals but SIGPROF and those of a fault, so that signals
 * go to the program's threads. A child that a callback forks has the mask of the thread that made
 * the engine, and so has the program that it executes. posix_spawn, vfork, system and popen pass
 * on the mask of the engine's thread: set POSIX_SPAWN_SETSIGMASK, with the mask that is wanted.
 *
 * MEMORY. tickless_engine_new fails with TICKLESS_E_NOMEM. Other calls have no error for it: if there
 * is no memory for one more timer, the process is aborted, as by abort(). Only calls that schedule
 * allocate, and those that start a thread. With TICKLESS_WAITABLE, in a scope and to repeat, a timer
 * is an allocation; others take a page of the engine's now and then, and no more than were pending
 * at once: `max_pending` bounds it.
 *
 * UNLOADING. The shared library stays loaded: dlclose does not unload it.
 */

#ifndef TICKLESS_H
#define TICKLESS_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>
#if !defined(__linux__) || !defined(__LP64__)
#error "tickless is for 64-bit Linux; tickless_wheel.h, the wheel for one loop, is not bound to that"
#endif

#if defined(__GNUC__)
/** For calls whose result tells whether there is an engine or a timer at all. */
#define TICKLESS_MUST_USE __attribute__((warn_unused_result))
#else
#define TICKLESS_MUST_USE
#endif

/**
 * The version of the interface that the header describes. A program that was built with another
 * one than tickless_abi_version() returns must be rebuilt.
 */
#define TICKLESS_ABI_VERSION 1

/**
 * The call did what was asked.
 */
#define TICKLESS_OK 0

/**
 * An argument is NULL that must not be.
 */
#define TICKLESS_E_NULL -1

/**
 * The engine was freed; or the timer or scope was ended before, or never scheduled or made.
 */
#define TICKLESS_E_HANDLE -2

/**
 * An argument, an option or the size of a struct is out of its range.
 */
#define TICKLESS_E_ARGUMENT -3

/**
 * As many timers are pending as `max_pending` allows.
 */
#define TICKLESS_E_FULL -4

/**
 * The engine was stopped.
 */
#define TICKLESS_E_STOPPED -5

/**
 * The timer has fired: its callback has run, runs, or is about to.
 */
#define TICKLESS_E_TOO_LATE -6

/**
 * The call would wait for the callback that makes it.
 */
#define TICKLESS_E_INSIDE_TASK -7

/**
 * The call would wait for a callback that waits, maybe through others, for the calling thread.
 */
#define TICKLESS_E_CIRCULAR -8

/**
 * The time limit has passed, and a callback still runs.
 */
#define TICKLESS_E_TIMED_OUT -9

/**
 * The engine belongs to the process that this one was forked from.
 */
#define TICKLESS_E_FORKED -10

/**
 * The engine has threads of its own, so its caller cannot run its turns.
 */
#define TICKLESS_E_DRIVEN -11

/**
 * The engine has no such shard.
 */
#define TICKLESS_E_NO_SHARD -12

/**
 * The engine's clock is not moved by hand.
 */
#define TICKLESS_E_NOT_MANUAL -13

/**
 * The timer was not scheduled with `TICKLESS_WAITABLE`.
 */
#define TICKLESS_E_NOT_WAITABLE -14

/**
 * The calling thread is ending and cannot remember anything.
 */
#define TICKLESS_E_THREAD_ENDS -15

/**
 * The system refused a thread or a file descriptor.
 */
#define TICKLESS_E_SYSTEM -16

/**
 * Rust code panicked: a fault of the library, or of a callback that is written in Rust.
 */
#define TICKLESS_E_PANIC -17

/**
 * The system has no memory for it. (For a timer, that ends the process: see MEMORY.)
 */
#define TICKLESS_E_NOMEM -18

/**
 * For `clock`: the system's monotonic clock, which threads carry on by the processor's counter
 * for some microseconds. The default.
 */
#define TICKLESS_CLOCK_SYSTEM 0

/**
 * For `clock`: the system's monotonic clock, read each time.
 */
#define TICKLESS_CLOCK_EXACT 1

/**
 * For `clock`: the system's clock that goes on while the machine is suspended (CLOCK_BOOTTIME).
 */
#define TICKLESS_CLOCK_BOOTTIME 2

/**
 * For `clock`: one that stands still until tickless_advance or tickless_clock_advance moves it.
 * The caller drives the engine. For tests.
 */
#define TICKLESS_CLOCK_MANUAL 3

/**
 * For `driver`: threads of the engine's own run its timers. The default, unless the clock is
 * manual.
 */
#define TICKLESS_DRIVER_THREADS 0

/**
 * For `driver`: the caller runs the timers, with tickless_turn.
 */
#define TICKLESS_DRIVER_CALLER 1

/**
 * A time that never comes, or a limit that there is not.
 */
#define TICKLESS_NEVER UINT64_MAX

/**
 * A state of a timer: it waits for its deadline.
 */
#define TICKLESS_STATE_PENDING 1

/**
 * A state of a timer: it was handed over. Its callback has run, runs, or is about to.
 */
#define TICKLESS_STATE_FIRED 2

/**
 * A state of a timer: its engine stopped first, so it will not run.
 */
#define TICKLESS_STATE_STOPPED 3

/**
 * A state of a timer that can be waited for: its callback runs, or its user data is being
 * released.
 */
#define TICKLESS_STATE_RUNNING 4

/**
 * A state of a timer that can be waited for: its callback has returned, or a stop of its engine
 * has passed it to `returned`; and its user data was released.
 */
#define TICKLESS_STATE_FINISHED 5

/**
 * For `flags`: `time_ns` is a time as tickless_now_ns counts, not a delay. A time that has passed
 * is due at once.
 */
#define TICKLESS_AT 1

/**
 * For `flags`: the timer can be waited for, with tickless_timer_cancel_wait. It costs an
 * allocation.
 */
#define TICKLESS_WAITABLE 2

/**
 * For `flags` of a timer that repeats: from the end of a run to the next, the period is a pause.
 * Timers of one period that once ran in the same tick stay together from then on. (At a fixed rate
 * they keep the distances of their first runs.)
 */
#define TICKLESS_FIXED_DELAY 4

/**
 * Timers of a shard that are due together, in the order of their deadlines' ticks. It is there
 * while the function runs that is called with it.
 */
typedef struct tickless_batch tickless_batch;

/**
 * An engine. It is made by tickless_engine_new and freed by tickless_engine_free.
 */
typedef struct tickless_engine tickless_engine;

/**
 * What a turn did, and when the next one is needed. Set `size` to sizeof(tickless_turn_info).
 */
typedef struct tickless_turn_info {
    /**
     * sizeof(tickless_turn_info).
     */
    size_t size;
    /**
     * How many timers were handed over.
     */
    uint64_t fired;
    /**
     * When the shard needs its next turn, as tickless_now_ns counts. TICKLESS_NEVER: not before a
     * timer is scheduled on it.
     */
    uint64_t next_ns;
    /**
     * How long the caller may sleep before that: 0 if there is more to do at once, TICKLESS_NEVER
     * if nothing is scheduled.
     */
    uint64_t sleep_ns;
} tickless_turn_info;

/**
 * A callback: of a timer that is due, or one that releases user data. It must not unwind.
 */
typedef void (*tickless_fn)(void *user_data);

/**
 * A callback that keeps its shard for too long. Later versions may have more fields.
 */
typedef struct tickless_stuck_info {
    /**
     * The shard of its timer.
     */
    uint64_t shard;
    /**
     * A time at which it was already running, as tickless_now_ns counts.
     */
    uint64_t since_ns;
    /**
     * How long after that it was still running.
     */
    uint64_t age_ns;
    /**
     * The name of the thread that runs it, until the call returns.
     */
    const char *thread;
} tickless_stuck_info;

/**
 * Is called with the context that was given, and a callback that is stuck.
 */
typedef void (*tickless_stuck_fn)(void *context, const struct tickless_stuck_info *stuck);

/**
 * Is called with the context that was given, and timers that are due together. Those that it does
 * not run are run when it has returned.
 */
typedef void (*tickless_batch_fn)(void *context, struct tickless_batch *batch);

/**
 * The settings of an engine. Set `size` to sizeof(tickless_options) and all the rest to zero,
 * which is the default of each; then set what should be different.
 */
typedef struct tickless_options {
    /**
     * sizeof(tickless_options).
     */
    size_t size;
    /**
     * The tick in nanoseconds: timers that are due within one tick fire together. Default: 1 ms.
     * A shorter tick costs nothing while no timer fires. Times reach 2^54 ticks from now: with
     * ticks of 1 ns, an engine's time ends after 208 days.
     */
    uint64_t tick_ns;
    /**
     * How many timers may be pending. Default: no limit.
     */
    uint64_t max_pending;
    /**
     * How long a callback may keep its shard until another thread goes on with the other timers.
     * Default: some milliseconds. TICKLESS_NEVER: for ever.
     */
    uint64_t takeover_ns;
    /**
     * The name of the engine's threads, in UTF-8. Default (NULL): "tickless".
     */
    const char *thread_name;
    /**
     * The number of shards: wheels that work independently. Default: one per processor.
     */
    uint32_t shards;
    /**
     * The number of buckets in a level of a wheel. Default: 64.
     */
    uint32_t slots;
    /**
     * How many buckets ahead a timer may be filed, at most `slots`. Default: half of them.
     */
    uint32_t reach;
    /**
     * The least number of threads that serve the shards. Default: one; one per shard, if
     * `takeover_ns` is TICKLESS_NEVER and `reapers_max` is not set either.
     */
    uint32_t reapers_min;
    /**
     * The greatest number of threads that serve the shards. Default: one per shard, if
     * `reapers_min` is not set either, else `reapers_min`.
     */
    uint32_t reapers_max;
    /**
     * One of TICKLESS_CLOCK_*.
     */
    uint32_t clock;
    /**
     * One of TICKLESS_DRIVER_*.
     */
    uint32_t driver;
    /**
     * For timers that fire microseconds after their deadlines, as for pacing: the part of a
     * processor, in percent up to 100, that each of the engine's threads may spend waiting in user
     * space. It sets the defaults of `tick_ns` to 1 us, of `slots` to 512 and of `reach` to 256.
     * If the timers need more, they are as late as a wake-up of the system. Default: none.
     */
    uint32_t precise_percent;
    /**
     * The size of the stacks of the engine's threads, on which callbacks run. Default: 2 MiB.
     */
    uint64_t stack_size;
    /**
     * Is called by each of the engine's threads, with `on_thread_start_data`, before it runs
     * callbacks: to set its priority or its processors. Default (NULL): nothing. It may make calls
     * as a callback, but not for this engine, which may not be there yet.
     */
    tickless_fn on_thread_start;
    /**
     * What `on_thread_start` is called with. It must be there until the engine is freed.
     */
    void *on_thread_start_data;
    /**
     * Is called with `on_stuck_data` for each callback that keeps its shard for longer than
     * `takeover_ns` (than 5 ms, if that is TICKLESS_NEVER), usually while it still runs: to log
     * it. It must return soon, since the thread that calls it looks for no others meanwhile, and
     * is bound by the rules for callbacks. An engine that its caller drives never calls it.
     * Default (NULL): nothing.
     */
    tickless_stuck_fn on_stuck;
    /**
     * What `on_stuck` is called with. It must be there until the engine is freed.
     */
    void *on_stuck_data;
    /**
     * Is called with `on_batch_data` for timers of a shard that are due together, at most 256 of
     * them, and runs them, by tickless_batch_run: to take a lock once for all of them, or to send
     * what their callbacks have collected. It is bound by the rules for callbacks. Default (NULL):
     * they are run one by one.
     */
    tickless_batch_fn on_batch;
    /**
     * What `on_batch` is called with. It must be there until the engine is freed.
     */
    void *on_batch_data;
} tickless_options;

/**
 * Is called with a timer that will not run: with the context that was given, and the callback and
 * user data of the timer. It may call run(user_data), and must not release the user data: that is
 * done right after it, if the timer has a `drop_fn`.
 */
typedef void (*tickless_returned_fn)(void *context, tickless_fn run, void *user_data);

/**
 * What an engine has counted since it was made. Set `size` to sizeof(tickless_stats_info). While
 * other threads use the engine, the numbers need not add up; at rest,
 * scheduled = cancelled + fired + returned + pending.
 */
typedef struct tickless_stats_info {
    /**
     * sizeof(tickless_stats_info).
     */
    size_t size;
    /**
     * Timers scheduled.
     */
    uint64_t scheduled;
    /**
     * How often a timer took the place of a cancelled one.
     */
    uint64_t seated;
    /**
     * Timers cancelled before they fired.
     */
    uint64_t cancelled;
    /**
     * Resets that moved a timer.
     */
    uint64_t reset;
    /**
     * Timers handed over.
     */
    uint64_t fired;
    /**
     * Timers returned because the engine stopped.
     */
    uint64_t returned;
    /**
     * Timers pending.
     */
    uint64_t pending;
    /**
     * Times that a timer was filed again, in another bucket.
     */
    uint64_t cascaded;
    /**
     * Cancelled timers whose memory waits to be used again.
     */
    uint64_t dead;
    /**
     * Callbacks that panicked, if they are written in Rust.
     */
    uint64_t panicked;
    /**
     * Times that a shard became saturated: more than a second behind.
     */
    uint64_t saturations;
    /**
     * Times that a shard was taken over from a callback that kept it for too long.
     */
    uint64_t takeovers;
    /**
     * Callbacks that keep their shard for too long now.
     */
    uint64_t stuck;
    /**
     * The age of the oldest timer that is due and was not handed over.
     */
    uint64_t overdue_ns;
    /**
     * Times that a thread of the engine woke up.
     */
    uint64_t wake_ups;
    /**
     * Half of the timers were handed over at most this late.
     */
    uint64_t lateness_p50_ns;
    /**
     * 99 of 100 timers were at most this late.
     */
    uint64_t lateness_p99_ns;
    /**
     * 999 of 1000 timers were at most this late.
     */
    uint64_t lateness_p999_ns;
    /**
     * No timer was later than this.
     */
    uint64_t lateness_max_ns;
    /**
     * Timers that have fired and that nobody has ended or started again: their memory serves no
     * other timer. If this grows, the program forgets to end its timers.
     */
    uint64_t unended;
} tickless_stats_info;

/**
 * What is overdue in an engine. Set `size` to sizeof(tickless_overdue_info).
 */
typedef struct tickless_overdue_info {
    /**
     * sizeof(tickless_overdue_info).
     */
    size_t size;
    /**
     * The age of the oldest timer that is due and was not handed over, at least. Zero: none.
     */
    uint64_t oldest_ns;
    /**
     * How many shards have such timers.
     */
    uint64_t shards;
    /**
     * How many callbacks keep their shard for too long now.
     */
    uint64_t stuck;
} tickless_overdue_info;

/**
 * A timer, in memory of the caller's. The calls that schedule fill it, before the timer can fire.
 * From then on it has to be ended once, also if it has fired: by tickless_timer_cancel,
 * tickless_timer_take, tickless_timer_cancel_wait (when that does not fail) or
 * tickless_timer_detach; or it is started again, by tickless_timer_restart. After that, and when
 * no other call for it is under way, the memory may be used again. If it is never ended, the
 * memory that the engine keeps for it is not used again.
 *
 * The callback may end the timer, and `drop_fn` may free the memory in which it lies, even before
 * the call that schedules has returned: no call touches the memory after the timer can fire,
 * unless it says so.
 *
 * Several threads may end, move and look at a timer at the same time: one of them ends it, and for
 * those that come later it is a timer that was ended. A call that ends a timer while another
 * thread moves or looks at it waits for that, which takes no longer than the other call. A child
 * process has no such thread: if one was in a call for the timer when the process was forked,
 * calls for the child's copy may return TICKLESS_E_FORKED, or TICKLESS_E_HANDLE if that call was
 * ending it.
 *
 * A timer may be moved by copying its bytes, while no call uses it; only one of the copies may be
 * used then. It may outlive its engine. If all is zero, it is no timer, and so it is after it was
 * ended: calls return TICKLESS_E_HANDLE.
 */
typedef struct tickless_timer {
    /**
     * Not for the caller.
     */
    uint64_t private_words[4];
} tickless_timer;

/**
 * When a timer is due. It does not grow: `flags` may have more bits in later versions.
 */
typedef struct tickless_when {
    /**
     * A delay in nanoseconds or, with TICKLESS_AT, a time. TICKLESS_NEVER: never.
     */
    uint64_t time_ns;
    /**
     * How much later it may fire, so that it can share a wake-up with others. 0: within a tick.
     */
    uint64_t slack_ns;
    /**
     * TICKLESS_AT, TICKLESS_WAITABLE and TICKLESS_FIXED_DELAY, or 0.
     */
    uint64_t flags;
} tickless_when;

/**
 * The timers of one connection or request, in memory of the caller's. tickless_scope_init fills
 * it, and tickless_scope_end ends it, with all its timers.
 *
 * Several threads may use a scope at the same time; each waits for the call before it, which takes
 * no longer than that call outside of a scope. The callbacks of its timers may use it, and end it.
 * The rules for moving it are those of a tickless_timer. If all is zero, it is no scope, and so it
 * is after it was ended: calls return TICKLESS_E_HANDLE.
 *
 * A scope without timers has allocated nothing. Each timer costs an allocation, as one with
 * TICKLESS_WAITABLE does. Timers that have fired need not be ended: they leave the scope.
 */
typedef struct tickless_scope {
    /**
     * Not for the caller.
     */
    uint64_t private_words[8];
} tickless_scope;

/**
 * Names a timer of its scope, and no other: a key of a timer that has fired or was cancelled finds
 * nothing, and so does one of a scope that was ended, or of another. All zero is no timer's.
 */
typedef struct tickless_scope_key {
    /**
     * Not for the caller.
     */
    uint64_t private_words[2];
} tickless_scope_key;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Runs the next timer of a batch: calls its callback, and releases its user data. Returns 1, also
 * if the timer was cancelled at the last moment. Returns 0 if none is left: all have run, the
 * engine stops, or the function has taken so long that another thread runs the rest. Returns 0 as
 * well after a callback that is written in Rust has panicked: the function is called again with
 * what is left.
 *
 * Errors: TICKLESS_E_NULL.
 *
 * Threads: the one that is called with the batch. In callbacks: those of the batch.
 */
int tickless_batch_run(struct tickless_batch *batch);

/**
 * Runs a turn of a shard: calls back what is due, but at most `fired_max` timers (0: all that are
 * due). Describes it in `*turn`, unless that is NULL. First it makes the shard's eventfd
 * unreadable; if the turn then fails, that is undone.
 *
 * This is for engines with TICKLESS_DRIVER_CALLER or a manual clock. Turns of different shards may
 * run at the same time; a second turn of one shard waits for the first. Run a turn before the
 * first sleep.
 *
 * Errors: TICKLESS_E_NULL, TICKLESS_E_HANDLE; TICKLESS_E_DRIVEN, the engine has threads of its
 * own; TICKLESS_E_NO_SHARD; TICKLESS_E_STOPPED; TICKLESS_E_FORKED; TICKLESS_E_ARGUMENT, the size.
 *
 * Threads: any; those of one shard wait for each other. In callbacks: of other engines only (else
 * TICKLESS_E_INSIDE_TASK).
 */
int tickless_turn(struct tickless_engine *engine,
                  uint32_t shard,
                  uint64_t fired_max,
                  struct tickless_turn_info *turn);

/**
 * Returns the eventfd of a shard of an engine that its caller drives. It becomes readable when a
 * timer was scheduled, by whichever thread, that is due before the time that the shard's last turn
 * returned, and when the engine stops: run a turn then. An epoll loop waits for it beside its
 * other descriptors. It belongs to the engine: do not read or close it. It is closed when the
 * engine is freed.
 *
 * Errors: TICKLESS_E_NULL, TICKLESS_E_HANDLE, TICKLESS_E_DRIVEN, TICKLESS_E_NO_SHARD.
 *
 * Threads: any. In callbacks: yes.
 */
int tickless_eventfd(const struct tickless_engine *engine, uint32_t shard);

/**
 * Returns one descriptor for all that a loop has to wait for, of a shard of an engine that its
 * caller drives. It is readable when the shard needs a turn: when a timer is due, when the eventfd
 * is readable, and before the first turn. So a loop of any kind adds this one descriptor, needs no
 * timeout, and calls tickless_turn when it is readable, and only then. It sleeps to the
 * nanosecond. The next turn makes it unreadable, unless that fails. A clock that is moved by hand
 * makes it readable only with the turn that finds more to do: run a turn after
 * tickless_clock_advance.
 *
 * It is an epoll of the eventfd and a timerfd, made when it is first asked for. From then on a
 * turn sets the timer, which is a system call if the time is another than before. A loop that has
 * a timeout anyway needs less with tickless_eventfd.
 *
 * It belongs to the engine: do not read, change or close it. It is closed when the engine is
 * freed.
 *
 * Errors: TICKLESS_E_NULL, TICKLESS_E_HANDLE, TICKLESS_E_DRIVEN, TICKLESS_E_NO_SHARD;
 * TICKLESS_E_SYSTEM, the system refused a descriptor; TICKLESS_E_FORKED.
 *
 * Threads: any. In callbacks: yes.
 */
int tickless_pollable_fd(const struct tickless_engine *engine, uint32_t shard);

/**
 * Stores in `*next_ns` when a shard of an engine that its caller drives needs its next turn, as
 * tickless_now_ns counts: what its last turn has returned, or 0 if that is now. It is now if a
 * timer was scheduled that is due earlier, if there was no turn yet or the last one left more to
 * do, while a turn is under way (also in its callbacks), and after turns of several threads
 * overlapped. So this is never later than the next timer, but it may be earlier: a timer that was
 * cancelled still counts until a turn. TICKLESS_NEVER: nothing is scheduled.
 *
 * Errors: as tickless_eventfd.
 *
 * Threads: any. In callbacks: yes.
 */
int tickless_next_deadline_ns(const struct tickless_engine *engine,
                              uint32_t shard,
                              uint64_t *next_ns);

/**
 * Returns a time as poll and epoll_wait want it: in milliseconds, rounded up, -1 for
 * TICKLESS_NEVER.
 *
 * Threads: any. In callbacks: yes.
 */
int tickless_timeout_ms(uint64_t sleep_ns);

/**
 * Returns a time as epoll_pwait2, ppoll and pselect want it: fills `*room` and returns it, or
 * returns NULL for TICKLESS_NEVER. So a loop sleeps to the nanosecond, where tickless_timeout_ms
 * rounds up to a millisecond. `room` must not be NULL.
 *
 * Threads: any. In callbacks: yes.
 */
const struct timespec *tickless_timespec(uint64_t sleep_ns, struct timespec *room);

/**
 * Binds the calling thread to a shard: from now on its timers go there. For threads that each
 * drive one shard.
 *
 * Errors: TICKLESS_E_NULL, TICKLESS_E_HANDLE, TICKLESS_E_NO_SHARD, TICKLESS_E_FORKED;
 * TICKLESS_E_THREAD_ENDS, the call comes from the end of a thread.
 *
 * Threads: any: the one that calls is bound. In callbacks: yes.
 */
int tickless_bind_thread(struct tickless_engine *engine, uint32_t shard);

/**
 * Moves a manual clock forward, and calls back all timers that become due on the way, in order;
 * each sees the time of its deadline. Stores in `*fired` how many, unless that is NULL. (A
 * callback that schedules itself with no delay at all keeps this from returning.)
 *
 * Errors: TICKLESS_E_NULL, TICKLESS_E_HANDLE; TICKLESS_E_NOT_MANUAL; TICKLESS_E_STOPPED;
 * TICKLESS_E_FORKED.
 *
 * Threads: any, one at a time. In callbacks: of other engines only (else TICKLESS_E_INSIDE_TASK).
 */
int tickless_advance(struct tickless_engine *engine, uint64_t by_ns, uint64_t *fired);

/**
 * Moves a manual clock forward and calls nothing back: that is left to tickless_turn.
 *
 * Errors: TICKLESS_E_NULL, TICKLESS_E_HANDLE, TICKLESS_E_NOT_MANUAL.
 *
 * Threads: any. In callbacks: yes.
 */
int tickless_clock_advance(struct tickless_engine *engine, uint64_t by_ns);

/**
 * The version of the interface of the library that was loaded: compare it with
 * TICKLESS_ABI_VERSION.
 *
 * Threads: any. In callbacks: yes.
 */
uint32_t tickless_abi_version(void);

/**
 * The version of the library that was loaded: "0.1.0".
 *
 * Threads: any. In callbacks: yes.
 */
const char *tickless_version(void);

/**
 * Makes an engine. `options` is NULL for the defaults. Stores the engine in `*engine`, or NULL if
 * it fails.
 *
 * Errors: TICKLESS_E_NULL; TICKLESS_E_ARGUMENT, an option is out of its range; TICKLESS_E_SYSTEM,
 * a thread or an eventfd could not be made; TICKLESS_E_NOMEM; TICKLESS_E_FORKED, see FORK.
 *
 * Threads: any. In callbacks: yes.
 */
TICKLESS_MUST_USE
int tickless_engine_new(const struct tickless_options *options,
                        struct tickless_engine **engine);

/**
 * Stops an engine: from the call on, no callback begins, and scheduling is refused (while the call
 * is under way, some may still succeed: those timers do not run either). Waits until the callbacks
 * that run have returned, but no longer than `limit_ns` (TICKLESS_NEVER: no limit). Each timer
 * that was pending is passed to `returned`, if that is not NULL, on the calling thread, and then
 * its user data is released. (Those that repeat are not passed, only released. One that another
 * thread is moving to an earlier time may be left to whoever ends it: tickless_timer_cancel
 * returns 1 then.) The engine still has to be freed.
 *
 * Stopping an engine again waits again, and passes what has come back since.
 *
 * Errors: TICKLESS_E_NULL, TICKLESS_E_HANDLE; TICKLESS_E_TIMED_OUT, the engine is stopped but a
 * callback still runs, or a thread of the engine has not ended yet; TICKLESS_E_INSIDE_TASK, the
 * call comes from a callback of the engine, which goes on as before; TICKLESS_E_CIRCULAR, the same
 * with callbacks that wait for each other; TICKLESS_E_FORKED.
 *
 * Threads: any, also several. In callbacks: of other engines only.
 */
int tickless_engine_stop(struct tickless_engine *engine,
                         uint64_t limit_ns,
                         tickless_returned_fn returned,
                         void *context);

/**
 * Frees an engine, and stops it first. Timers that were pending do not run; their user data is
 * released. When this returns 0, no callback of the engine runs any more, unless the last
 * tickless_engine_stop has returned TICKLESS_E_TIMED_OUT: then this does not wait, and a callback
 * that still runs must not use the engine. Timers may be ended later. NULL is no engine: returns
 * 0. In a child process, this lets go of the copy of its parent's engine, and releases no user
 * data.
 *
 * No other call may use the engine at the same time, except callbacks of the engine that this
 * waits for.
 *
 * Errors: TICKLESS_E_HANDLE, it was freed before or another call frees it; TICKLESS_E_INSIDE_TASK
 * and TICKLESS_E_CIRCULAR as for tickless_engine_stop, and the engine is as before.
 *
 * Threads: any, while no other uses the engine. In callbacks: of other engines only.
 */
int tickless_engine_free(struct tickless_engine *engine);

/**
 * Stores the engine's time in `*now_ns`: nanoseconds of CLOCK_MONOTONIC, by the engine's clock. A
 * clock that is moved by hand begins at the time at which its engine was made.
 *
 * Errors: TICKLESS_E_NULL, TICKLESS_E_HANDLE.
 *
 * Threads: any. In callbacks: yes.
 */
int tickless_now_ns(const struct tickless_engine *engine, uint64_t *now_ns);

/**
 * A short text for a code: what it means, not what happened. Never NULL; it is static.
 *
 * Threads: any. In callbacks: yes.
 */
const char *tickless_strerror(int code);

/**
 * What happened when a call last failed on this thread; an empty text if none did. Never NULL. It
 * is valid until the next failure on this thread, or the thread's end.
 *
 * Threads: any, and each has a message of its own. In callbacks: yes.
 */
const char *tickless_last_error(void);

/**
 * Stores in `*stats` what the engine has counted. Waits for no lock.
 *
 * Errors: TICKLESS_E_NULL, TICKLESS_E_HANDLE; TICKLESS_E_ARGUMENT, the size.
 *
 * Threads: any. In callbacks: yes.
 */
int tickless_stats(const struct tickless_engine *engine, struct tickless_stats_info *stats);

/**
 * Stores in `*overdue` for how long timers have been due that were not handed over, and how many
 * callbacks are stuck. Any thread may call this, whatever state the engine is in.
 *
 * Errors: TICKLESS_E_NULL, TICKLESS_E_HANDLE; TICKLESS_E_ARGUMENT, the size.
 *
 * Threads: any. In callbacks: yes.
 */
int tickless_overdue(const struct tickless_engine *engine, struct tickless_overdue_info *overdue);

/**
 * Schedules a timer: when `delay_ns` are over (TICKLESS_NEVER: never), `run(user_data)` is called,
 * and then `drop_fn(user_data)`. `drop_fn` is NULL if there is nothing to release. Stores the
 * timer in `*timer`, over whatever is there; `timer` is NULL if nobody will cancel or move it,
 * which costs less.
 *
 * No other call may use `*timer` at the same time, not even one for an earlier timer in that
 * memory. Where other threads may end the timer at any time, use tickless_timer_restart instead.
 *
 * The timer is never early. It is late by less than a tick, plus what the system needs to wake the
 * engine's thread, and other callbacks of its shard take. Never waits. Allocates nothing while the
 * engine has memory of earlier timers.
 *
 * Errors, after which `user_data` was released: TICKLESS_E_NULL (of engine and run),
 * TICKLESS_E_HANDLE, TICKLESS_E_FULL, TICKLESS_E_STOPPED.
 *
 * Threads: any. In callbacks: yes.
 */
TICKLESS_MUST_USE
int tickless_schedule(const struct tickless_engine *engine,
                      uint64_t delay_ns,
                      tickless_fn run,
                      void *user_data,
                      tickless_fn drop_fn,
                      struct tickless_timer *timer);

/**
 * As tickless_schedule, for a time that is a deadline or has a slack, or a timer that can be
 * waited for (which needs a `timer`).
 *
 * Errors: as tickless_schedule, and TICKLESS_E_ARGUMENT, a flag is not known or `timer` is NULL
 * for TICKLESS_WAITABLE.
 *
 * Threads: any. In callbacks: yes.
 */
TICKLESS_MUST_USE
int tickless_schedule_when(const struct tickless_engine *engine,
                           const struct tickless_when *when,
                           tickless_fn run,
                           void *user_data,
                           tickless_fn drop_fn,
                           struct tickless_timer *timer);

/**
 * Schedules a timer that repeats: `run(user_data)` is called at `first`, and every `period_ns`
 * after that, until the timer is ended or the engine stops; then `drop_fn(user_data)` is called.
 * `first` is NULL for a period from now. Stores the timer in `*timer`, over whatever is there, as
 * tickless_schedule does; `timer` is NULL if only the engine's stop ends it.
 *
 * The rate is fixed: each run is due a period after the one before was due, however late that was,
 * so that runs do not drift. Times that have passed when a run ends are left out. With a period
 * below the tick, there is one run per tick. With TICKLESS_FIXED_DELAY in `first->flags`, each run
 * is due `period_ns` after the one before has returned.
 *
 * Runs never overlap, and allocate nothing. tickless_timer_cancel ends the timer, at any time,
 * also in its own callback; tickless_timer_cancel_wait waits for a run that is under way, without
 * TICKLESS_WAITABLE. If the engine is full when the next run is to be scheduled, the timer has
 * ended: tickless_timer_state tells. An engine that stops passes it to no tickless_returned_fn.
 *
 * Errors, after which `user_data` was released: as tickless_schedule, and TICKLESS_E_ARGUMENT, a
 * flag is not known or the period is 0.
 *
 * Threads: any. In callbacks: yes.
 */
TICKLESS_MUST_USE
int tickless_schedule_repeating(const struct tickless_engine *engine,
                                const struct tickless_when *first,
                                uint64_t period_ns,
                                tickless_fn run,
                                void *user_data,
                                tickless_fn drop_fn,
                                struct tickless_timer *timer);

/**
 * Starts a timer, whatever it is in the middle of: one that was never scheduled (all zero) or was
 * ended is scheduled; one that is pending is cancelled first, which releases its user data; one
 * that has fired is ended. So a timer can be started again and again, also by its own callback,
 * without a call that ends it in between; the last time it has to be ended, as any other.
 *
 * Each call passes user data, and for each `drop_fn` is called once. User data that serves several
 * runs has a `drop_fn` of NULL. Of a timer with TICKLESS_WAITABLE, a callback that runs can no
 * longer be waited for; nor can what this starts, unless tickless_timer_restart_when makes it so.
 *
 * For a timer whose callback decides each time whether and when it runs again, call this in the
 * callback: after the work, with a delay, for a pause; with tickless_timer_restart_when,
 * TICKLESS_AT and the last deadline plus the period, for a rate, which also catches up on what it
 * missed. With a period that stays, tickless_schedule_repeating does all of that. Timers that are
 * started again with one delay, and once ran in the same tick, stay together.
 *
 * Another thread may end the timer meanwhile: before this call, or after it. One that ends it
 * while the callback runs comes too late, and does not keep the callback from starting it again.
 *
 * Errors, after which `user_data` was released: as tickless_schedule, and TICKLESS_E_NULL of
 * `timer`; TICKLESS_E_FORKED, see tickless_timer; TICKLESS_E_HANDLE also means that the memory is
 * neither zero nor a timer. After TICKLESS_E_FULL and TICKLESS_E_STOPPED, the timer was ended.
 *
 * Threads: any. In callbacks: yes.
 */
TICKLESS_MUST_USE
int tickless_timer_restart(const struct tickless_engine *engine,
                           struct tickless_timer *timer,
                           uint64_t delay_ns,
                           tickless_fn run,
                           void *user_data,
                           tickless_fn drop_fn);

/**
 * As tickless_timer_restart, for a time that is a deadline or has a slack, or a timer that can be
 * waited for.
 *
 * Errors: as tickless_timer_restart, and TICKLESS_E_ARGUMENT, a flag is not known.
 *
 * Threads: any. In callbacks: yes.
 */
TICKLESS_MUST_USE
int tickless_timer_restart_when(const struct tickless_engine *engine,
                                struct tickless_timer *timer,
                                const struct tickless_when *when,
                                tickless_fn run,
                                void *user_data,
                                tickless_fn drop_fn);

/**
 * Makes a scope without timers in `*scope`, over whatever is there: no other call may use `*scope`
 * at the same time. The scope has to be ended, by tickless_scope_end. It does not keep the engine:
 * when that is stopped or freed, its timers end as all others, and scheduling in it fails.
 *
 * Errors: TICKLESS_E_NULL, TICKLESS_E_HANDLE.
 *
 * Threads: any. In callbacks: yes.
 */
TICKLESS_MUST_USE
int tickless_scope_init(const struct tickless_engine *engine,
                        struct tickless_scope *scope);

/**
 * Schedules a timer in a scope, as tickless_schedule does outside of one. Stores its key in `*key`
 * before the timer can fire, and zeroes if this fails; `key` is NULL if the timer only ends with
 * the others.
 *
 * Errors, after which `user_data` was released: TICKLESS_E_NULL (of scope and run);
 * TICKLESS_E_HANDLE, also while another thread ends the scope; TICKLESS_E_FULL;
 * TICKLESS_E_STOPPED, the engine was stopped or freed; TICKLESS_E_FORKED, when the process was
 * forked, another thread was using the scope.
 *
 * Threads: any. In callbacks: yes.
 */
TICKLESS_MUST_USE
int tickless_scope_schedule(struct tickless_scope *scope,
                            uint64_t delay_ns,
                            tickless_fn run,
                            void *user_data,
                            tickless_fn drop_fn,
                            struct tickless_scope_key *key);

/**
 * As tickless_scope_schedule, for a time that is a deadline or has a slack. The flag
 * TICKLESS_WAITABLE makes no difference.
 *
 * Errors: as tickless_scope_schedule, and TICKLESS_E_ARGUMENT, a flag is not known.
 *
 * Threads: any. In callbacks: yes.
 */
TICKLESS_MUST_USE
int tickless_scope_schedule_when(struct tickless_scope *scope,
                                 const struct tickless_when *when,
                                 tickless_fn run,
                                 void *user_data,
                                 tickless_fn drop_fn,
                                 struct tickless_scope_key *key);

/**
 * Cancels a timer of a scope. Returns 1 if its callback will never run: its user data was
 * released, on this thread. Returns 0 if it is too late, or the key is of no timer. A timer can be
 * cancelled until its callback begins. Never waits for a callback.
 *
 * Errors: TICKLESS_E_NULL, TICKLESS_E_HANDLE, TICKLESS_E_FORKED.
 *
 * Threads: any. In callbacks: yes.
 */
int tickless_scope_cancel(struct tickless_scope *scope, struct tickless_scope_key key);

/**
 * Moves a timer of a scope that is pending: it is then due `delay_ns` from now (TICKLESS_NEVER:
 * never), and at no other time. Its key stays the same. Timers that are moved by the same delay in
 * the same tick fire together.
 *
 * Errors: TICKLESS_E_NULL, TICKLESS_E_HANDLE, TICKLESS_E_FORKED; TICKLESS_E_TOO_LATE, it has
 * fired, was cancelled, or the key is of no timer; TICKLESS_E_STOPPED.
 *
 * Threads: any. In callbacks: yes.
 */
int tickless_scope_reset(struct tickless_scope *scope,
                         struct tickless_scope_key key,
                         uint64_t delay_ns);

/**
 * As tickless_scope_reset, for a time that is a deadline or has a slack. The flag
 * TICKLESS_WAITABLE makes no difference.
 *
 * Errors: as tickless_scope_reset, and TICKLESS_E_ARGUMENT.
 *
 * Threads: any. In callbacks: yes.
 */
int tickless_scope_reset_when(struct tickless_scope *scope,
                              struct tickless_scope_key key,
                              const struct tickless_when *when);

/**
 * Cancels all timers of a scope whose callbacks have not begun, and returns how many: their user
 * data was released, on this thread. The scope can be used again. Never waits for a callback: one
 * that runs goes on.
 *
 * Errors: TICKLESS_E_NULL, TICKLESS_E_HANDLE, TICKLESS_E_FORKED.
 *
 * Threads: any. In callbacks: yes.
 */
int tickless_scope_cancel_all(struct tickless_scope *scope);

/**
 * Ends a scope: cancels its timers, and waits until the callbacks that run have returned and their
 * user data was released, but no longer than `limit_ns` (TICKLESS_NEVER: no limit). Then nothing
 * of the scope runs any more, and what its callbacks use can be freed.
 *
 * In a callback of the scope, this waits for all others but that one. Then nothing but that
 * callback uses the scope's timers, and its own user data is released when it has returned.
 *
 * From the call on, the scope is no scope to other calls. It may lie in the memory that a
 * `drop_fn` of its timers frees, if the call succeeds, which does not touch it then.
 *
 * Errors, after which the timers are cancelled, and the scope is still there and can be ended
 * again: TICKLESS_E_TIMED_OUT, a callback still runs; TICKLESS_E_CIRCULAR, a callback waits for
 * one that makes this call; TICKLESS_E_FORKED, a callback runs in the parent process. And errors
 * after which nothing was done: TICKLESS_E_NULL; TICKLESS_E_FORKED, when the process was forked,
 * another thread was using the scope; TICKLESS_E_HANDLE, it was ended before, or another thread is
 * ending it. In that last case callbacks may still run: of two callbacks that end their scope, the
 * second gets TICKLESS_E_HANDLE at once, while the first waits for it.
 *
 * Threads: any. In callbacks: yes.
 */
int tickless_scope_end(struct tickless_scope *scope, uint64_t limit_ns);

/**
 * Ends the timer: its callback will not run, if it has not begun. Returns 1 if it was cancelled by
 * this call: its callback never runs, and its user data was released, on this thread. Returns 0 if
 * it was too late: the callback has run, runs or is about to, or the engine was stopped. Never
 * waits for a callback.
 *
 * A timer with TICKLESS_WAITABLE can be cancelled until its callback begins, others until the
 * engine collects what is due, up to 256 timers at a time, to call them back. Of a timer that
 * repeats, no further run begins. If one is under way, in the middle of which this may be called,
 * the user data is released at its end.
 *
 * Errors: TICKLESS_E_NULL, TICKLESS_E_HANDLE; TICKLESS_E_FORKED, see tickless_timer.
 *
 * Threads: any. In callbacks: yes.
 */
int tickless_timer_cancel(struct tickless_timer *timer);

/**
 * As tickless_timer_cancel, and if it returns 1, stores the user data in `*user_data` instead of
 * releasing it. Otherwise stores NULL. A timer that repeats is ended, and its user data is
 * released: returns 0.
 *
 * Errors: TICKLESS_E_NULL, TICKLESS_E_HANDLE; TICKLESS_E_FORKED, see tickless_timer.
 *
 * Threads: any. In callbacks: yes.
 */
int tickless_timer_take(struct tickless_timer *timer, void **user_data);

/**
 * Ends a timer with TICKLESS_WAITABLE: cancels it if its callback has not begun, else waits until
 * the callback has returned and the user data was released, but no longer than `limit_ns`
 * (TICKLESS_NEVER: no limit). Returns 1 if the callback never runs, 0 if it has run, or a stop has
 * passed it to `returned`. Then nothing of the timer runs any more: what its callback uses can be
 * freed.
 *
 * That is so of what was started last. If the callback or another thread starts the timer again
 * while this waits, that is another timer: end it as well, or see to it that nobody starts it. If
 * the callback has started it again before, this ends what it has started, and does not wait for
 * the rest of the callback: let that use nothing, or take tickless_schedule_repeating.
 *
 * Ends a timer that repeats as well: no further run begins, also if this returns an error, and if
 * one is under way, this waits. Returns 1 if this call ended it, 0 if it had ended before: with
 * its engine, because that was full, or by a call that has returned an error.
 *
 * A timer may lie in the memory that its `drop_fn` frees, if `limit_ns` is TICKLESS_NEVER: with
 * another limit, it has to be there when that is over.
 *
 * Errors, after which the timer is still there and can be waited for again (if it was not started
 * again meanwhile): TICKLESS_E_TIMED_OUT, the callback still runs; TICKLESS_E_INSIDE_TASK, this is
 * the callback; TICKLESS_E_CIRCULAR, the callback waits for one that makes this call;
 * TICKLESS_E_FORKED, the callback runs in the parent process, or see tickless_timer. And
 * TICKLESS_E_NULL, TICKLESS_E_NOT_WAITABLE, and TICKLESS_E_HANDLE: the timer was ended before, or
 * another thread is ending it, in which case the callback may still run.
 *
 * Threads: any. In callbacks: yes, but a callback cannot wait for itself.
 */
int tickless_timer_cancel_wait(struct tickless_timer *timer, uint64_t limit_ns);

/**
 * Ends the caller's side of the timer and lets it run: it fires as if nobody had kept it. A timer
 * that has fired needs this as well, or a cancel. One that repeats goes on until its engine stops.
 * NULL is no timer: returns 0.
 *
 * Errors: TICKLESS_E_HANDLE; TICKLESS_E_FORKED, see tickless_timer.
 *
 * Threads: any. In callbacks: yes.
 */
int tickless_timer_detach(struct tickless_timer *timer);

/**
 * Moves a timer that is pending: it is then due `delay_ns` from now (TICKLESS_NEVER: never), and
 * at no other time. Timers that are moved by the same delay in the same tick fire together.
 *
 * Errors: TICKLESS_E_NULL, TICKLESS_E_HANDLE; TICKLESS_E_TOO_LATE, it has fired;
 * TICKLESS_E_STOPPED; TICKLESS_E_ARGUMENT, it repeats; TICKLESS_E_FORKED, see tickless_timer.
 *
 * Threads: any. In callbacks: yes.
 */
int tickless_timer_reset(struct tickless_timer *timer, uint64_t delay_ns);

/**
 * As tickless_timer_reset, for a time that is a deadline or has a slack. The flag
 * TICKLESS_WAITABLE makes no difference.
 *
 * Errors: as tickless_timer_reset, and TICKLESS_E_ARGUMENT.
 *
 * Threads: any. In callbacks: yes.
 */
int tickless_timer_reset_when(struct tickless_timer *timer, const struct tickless_when *when);

/**
 * Returns the state of a timer, one of TICKLESS_STATE_*, which may change right after. One that
 * repeats is pending, also while its callback runs, until it ends with its engine (or because that
 * was full when the next run was to be scheduled), or is cancelled by a wait that has failed.
 *
 * Errors: TICKLESS_E_NULL, TICKLESS_E_HANDLE; TICKLESS_E_FORKED, see tickless_timer.
 *
 * Threads: any. In callbacks: yes.
 */
int tickless_timer_state(const struct tickless_timer *timer);

/**
 * Stores in `*deadline_ns` when the timer is or was due, as tickless_now_ns counts, rounded up to
 * the tick. TICKLESS_NEVER: it never fires, or its engine was stopped. For a repeating
 * timer: when the next run is due, or the run under way was due, to the nanosecond.
 *
 * Errors: TICKLESS_E_NULL, TICKLESS_E_HANDLE; TICKLESS_E_FORKED, see tickless_timer.
 *
 * Threads: any. In callbacks: yes.
 */
int tickless_timer_deadline_ns(struct tickless_timer *timer, uint64_t *deadline_ns);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TICKLESS_H */
