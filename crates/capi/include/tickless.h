/* tickless: timers for many threads. Made by cbindgen from the crate tickless-c: do not edit it.
 *
 *     tickless_engine *engine;
 *     tickless_timer timeout;
 *     if (tickless_engine_new(NULL, &engine) < 0 ||
 *         tickless_schedule(engine, 5000000000, on_timeout, request, NULL, &timeout) < 0) {
 *         return tickless_last_error();
 *     }
 *     ... the answer comes ...
 *     in_time = tickless_timer_cancel(&timeout) == 1;
 *     tickless_engine_free(engine);
 *
 * CALLS. They return 0 or more, or a code TICKLESS_E_*, of which tickless_last_error() has the text.
 * A description lists its own codes. Any call may return TICKLESS_E_NULL, _HANDLE, _ARGUMENT,
 * _STOPPED and _FORKED. Times are nanoseconds, or TICKLESS_NEVER. Set the `size` of a struct to its
 * sizeof, and the rest of tickless_options to zero. Nothing unwinds into C; errno may change.
 *
 * USER DATA. It passes to the timer with the call that schedules, whatever that returns.
 * drop_fn(user_data) is called once, on any thread, when nothing uses it any more: after the callback,
 * in the cancel, when the engine stops, or before the call that could not schedule returns.
 *
 * TIMERS. A tickless_timer is memory of yours, filled before the timer can fire. From then on, end it
 * once, also if it has fired: by a cancel, take, cancel_wait or detach; or restart it. (Otherwise the
 * engine keeps memory for it.) Then, and when no other call uses it, the memory is free. A callback
 * may end its timer, and drop_fn may free its memory, even before the call that schedules returns.
 * Threads may end, move and look at one timer at the same time: one ends it. A timer may be moved by
 * copying it while no call uses it, and may outlive its engine.
 *
 * CALLBACKS. They run on a thread of the engine, or in a turn if the caller drives it. They must
 * return: no longjmp, no exception. Those of one shard run one after another; if one takes longer
 * than takeover_ns, another thread goes on with the others.
 *
 * WHO MAY CALL WHAT. Any thread any call, at the same time as others, also in callbacks and in
 * destructors of thread-locals; not in signal handlers, nor threads that are cancelled. But:
 *
 *   tickless_engine_stop, _free, tickless_turn, _advance        in callbacks of other engines only
 *   tickless_engine_free                                         while no other call uses it
 *   tickless_schedule, _when, _repeating, tickless_scope_init    while no call uses what they fill
 *   tickless_timer_cancel_wait                                   not in the timer's callback
 *   tickless_bind_thread                                         not at the end of a thread
 *   tickless_batch_run                                           the thread that has the batch
 *
 * FORK. In a child, no timer of its parent's engine fires, and no call blocks: to schedule is
 * TICKLESS_E_STOPPED, to wait, stop, turn or bind TICKLESS_E_FORKED; others use the child's copy. It
 * can end its copies and make engines. If a thread was in a call for a timer or scope, those for the
 * copy may return TICKLESS_E_FORKED or _HANDLE. A child of a callback must end or execute a program.
 * After _Fork or a bare clone, all calls that take an engine but _free, that schedule, move or wait
 * are TICKLESS_E_FORKED.
 *
 * SIGNALS. The engine's threads block all but SIGPROF and those of a fault. A child that a callback
 * forks has the mask of the engine's maker. posix_spawn, vfork, system and popen pass on that of the
 * engine's thread: set POSIX_SPAWN_SETSIGMASK.
 *
 * MEMORY. Calls that make, start or move something return TICKLESS_E_NOMEM when there is none. What is
 * under way, what ends something, and the engine's threads then have a megabyte that was put aside; when
 * that is used up, the process aborts. (So does glibc in a thread's first call.) A timer that can be waited
 * for, repeats or is in a scope is an allocation; else, timers that start or end need a page now and then.
 * dlclose unloads nothing.
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

/// The version of this interface. If tickless_abi_version() differs, rebuild the program.
#define TICKLESS_ABI_VERSION 1

/// Success.
#define TICKLESS_OK 0

/// An argument is NULL.
#define TICKLESS_E_NULL -1

/// The engine was freed; or the timer or scope was ended, or never made.
#define TICKLESS_E_HANDLE -2

/// An argument, an option or the size of a struct is out of its range.
#define TICKLESS_E_ARGUMENT -3

/// `max_pending` timers are pending.
#define TICKLESS_E_FULL -4

/// The engine was stopped.
#define TICKLESS_E_STOPPED -5

/// The timer has fired.
#define TICKLESS_E_TOO_LATE -6

/// The call would wait for the callback that makes it.
#define TICKLESS_E_INSIDE_TASK -7

/// It would wait for another call for it, which this thread is in the middle of.
#define TICKLESS_E_CIRCULAR -8

/// The limit has passed, and a callback still runs.
#define TICKLESS_E_TIMED_OUT -9

/// It belongs to the parent process: see FORK.
#define TICKLESS_E_FORKED -10

/// The engine has threads of its own.
#define TICKLESS_E_DRIVEN -11

/// There is no such shard.
#define TICKLESS_E_NO_SHARD -12

/// The clock is not moved by hand.
#define TICKLESS_E_NOT_MANUAL -13

/// The timer was scheduled without TICKLESS_WAITABLE.
#define TICKLESS_E_NOT_WAITABLE -14

/// The calling thread is ending.
#define TICKLESS_E_THREAD_ENDS -15

/// The system refused a thread or a descriptor.
#define TICKLESS_E_SYSTEM -16

/// Rust code panicked.
#define TICKLESS_E_PANIC -17

/// There is no memory: see MEMORY.
#define TICKLESS_E_NOMEM -18

/// CLOCK_MONOTONIC, carried on by the processor's counter for microseconds. Default.
#define TICKLESS_CLOCK_SYSTEM 0

/// CLOCK_MONOTONIC, read each time.
#define TICKLESS_CLOCK_EXACT 1

/// CLOCK_BOOTTIME, which goes on while the machine is suspended.
#define TICKLESS_CLOCK_BOOTTIME 2

/// Is moved by tickless_advance. The caller drives the engine. For tests.
#define TICKLESS_CLOCK_MANUAL 3

/// The engine's threads. The default, unless the clock is manual.
#define TICKLESS_DRIVER_THREADS 0

/// The caller, by tickless_turn.
#define TICKLESS_DRIVER_CALLER 1

/// A time that never comes; no limit.
#define TICKLESS_NEVER UINT64_MAX

/// It waits for its deadline.
#define TICKLESS_STATE_PENDING 1

/// Its callback has run, runs, or is about to.
#define TICKLESS_STATE_FIRED 2

/// Its engine stopped first: it never runs.
#define TICKLESS_STATE_STOPPED 3

/// If it can be waited for: its callback or `drop_fn` runs.
#define TICKLESS_STATE_RUNNING 4

/// If it can be waited for: that has ended.
#define TICKLESS_STATE_FINISHED 5

/// `time_ns` is a time, not a delay. One that has passed is due at once.
#define TICKLESS_AT 1

/// The timer can be waited for: tickless_timer_cancel_wait.
#define TICKLESS_WAITABLE 2

/// The period of a timer that repeats is a pause between its runs.
#define TICKLESS_FIXED_DELAY 4

/// Timers that are due together, while the function runs that is called with them.
typedef struct tickless_batch tickless_batch;

/// An engine.
typedef struct tickless_engine tickless_engine;

/// What a turn did, and when the next is needed.
typedef struct tickless_turn_info {
    /// sizeof(tickless_turn_info).
    size_t size;
    /// How many timers were handed over.
    uint64_t fired;
    /// When the next turn is needed.
    uint64_t next_ns;
    /// How long to sleep: 0 if there is more to do.
    uint64_t sleep_ns;
} tickless_turn_info;

/// A callback, or a `drop_fn`.
typedef void (*tickless_fn)(void *user_data);

/// A callback that runs for too long. It may grow.
typedef struct tickless_stuck_info {
    /// The shard of its timer.
    uint64_t shard;
    /// A time at which it was already running.
    uint64_t since_ns;
    /// How long after that it still ran.
    uint64_t age_ns;
    /// The name of its thread, until the call returns.
    const char *thread;
} tickless_stuck_info;

/// Is called with what is stuck.
typedef void (*tickless_stuck_fn)(void *context, const struct tickless_stuck_info *stuck);

/// What it leaves of the batch is run after it.
typedef void (*tickless_batch_fn)(void *context, struct tickless_batch *batch);

/// Settings of an engine. Zero is the default of each.
typedef struct tickless_options {
    /// sizeof(tickless_options).
    size_t size;
    /// Timers of one tick fire together. Default: 1 ms. Times reach 2^54 ticks: at 1 ns, the
    /// engine's time ends after 208 days. What is later is TICKLESS_E_ARGUMENT, or never if it is
    /// fewer than 2^53 ns away.
    uint64_t tick_ns;
    /// How many timers may be pending. Default: no limit.
    uint64_t max_pending;
    /// How long a callback may run until another thread takes over. Default: some ms.
    uint64_t takeover_ns;
    /// Of the engine's threads, in UTF-8. Default: "tickless".
    const char *thread_name;
    /// Wheels that work independently. Default: one per processor.
    uint32_t shards;
    /// Buckets in a level of a wheel. Default: 64.
    uint32_t slots;
    /// How many buckets ahead a timer may be filed. Default: half of `slots`.
    uint32_t reach;
    /// The least number of threads. Default: one; one per shard, if `takeover_ns` is
    /// TICKLESS_NEVER.
    uint32_t reapers_min;
    /// The greatest number. Default: `reapers_min`; if that is not set, one per shard.
    uint32_t reapers_max;
    /// One of TICKLESS_CLOCK_*.
    uint32_t clock;
    /// One of TICKLESS_DRIVER_*.
    uint32_t driver;
    /// For timers that fire within microseconds: the percentage of a processor that each thread may
    /// spend waiting in user space. Sets the defaults of `tick_ns` to 1 us, `slots` to 512, `reach`
    /// to 256.
    uint32_t precise_percent;
    /// Of the engine's threads. Default: 2 MiB.
    uint64_t stack_size;
    /// Is called by each thread of the engine first: to set its priority, processors or signals.
    /// The engine may not be there yet.
    tickless_fn on_thread_start;
    /// Its context, as the others below: there until the engine is freed.
    void *on_thread_start_data;
    /// Is called for a callback that runs for longer than `takeover_ns`, or 5 ms, usually
    /// meanwhile: to log it, soon.
    tickless_stuck_fn on_stuck;
    /// Its context.
    void *on_stuck_data;
    /// Is called for up to 256 timers that are due together, to run them (tickless_batch_run) under
    /// one lock, for example.
    tickless_batch_fn on_batch;
    /// Its context.
    void *on_batch_data;
} tickless_options;

/// Is called with a timer that will not run. It may call run(user_data), and releases nothing.
typedef void (*tickless_returned_fn)(void *context, tickless_fn run, void *user_data);

/// Counts. At rest, scheduled = cancelled + fired + returned + pending.
typedef struct tickless_stats_info {
    /// sizeof(tickless_stats_info).
    size_t size;
    /// Timers scheduled.
    uint64_t scheduled;
    /// Of these, in the place of a cancelled one.
    uint64_t seated;
    /// Cancelled in time.
    uint64_t cancelled;
    /// Moved by a reset.
    uint64_t reset;
    /// Handed over.
    uint64_t fired;
    /// Returned by a stop.
    uint64_t returned;
    /// Pending now.
    uint64_t pending;
    /// Times that one was filed again.
    uint64_t cascaded;
    /// Cancelled, and kept for no later timer: their memory waits to be used again.
    uint64_t dead;
    /// Callbacks in Rust that panicked.
    uint64_t panicked;
    /// Of shards, from a callback.
    uint64_t takeovers;
    /// Callbacks that run for too long.
    uint64_t stuck;
    /// How long the oldest has been due.
    uint64_t overdue_ns;
    /// Of threads of the engine.
    uint64_t wake_ups;
    /// Half were at most this late.
    uint64_t lateness_p50_ns;
    /// 99 of 100.
    uint64_t lateness_p99_ns;
    /// 999 of 1000.
    uint64_t lateness_p999_ns;
    /// All.
    uint64_t lateness_max_ns;
    /// Fired, and not ended: if this grows, the program forgets to.
    uint64_t unended;
} tickless_stats_info;

/// What is overdue in an engine.
typedef struct tickless_overdue_info {
    /// sizeof(tickless_overdue_info).
    size_t size;
    /// How long the oldest timer has been due, at least.
    uint64_t oldest_ns;
    /// With such timers.
    uint64_t shards;
    /// Callbacks that run for too long.
    uint64_t stuck;
} tickless_overdue_info;

/// A timer, in memory of yours: see TIMERS. All zero, it is none.
typedef struct tickless_timer {
    /// Not for the caller.
    uint64_t private_words[4];
} tickless_timer;

/// When a timer is due. It does not grow.
typedef struct tickless_when {
    /// A delay or, with TICKLESS_AT, a time.
    uint64_t time_ns;
    /// How much later it may fire, to share a wake-up with others.
    uint64_t slack_ns;
    /// TICKLESS_AT, TICKLESS_WAITABLE, TICKLESS_FIXED_DELAY.
    uint64_t flags;
} tickless_when;

/// The timers of one connection, in memory of yours, which end together. It is used by one thread
/// at a time; others wait. Moved as a timer. Each timer is an allocation, and leaves when it has
/// fired.
typedef struct tickless_scope {
    /// Not for the caller.
    uint64_t private_words[8];
} tickless_scope;

/// Names a timer of its scope, and never another, also of a later scope there. Zero is none.
typedef struct tickless_scope_key {
    /// Not for the caller.
    uint64_t private_words[2];
} tickless_scope_key;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/// Runs the next timer of a batch, and returns 1; 0 if none is left to it, or after a panic of a
/// callback in Rust.
int tickless_batch_run(struct tickless_batch *batch);

/// Calls back what is due of a shard that the caller drives, but at most `fired_max` timers (0:
/// all), and fills `*turn`, unless that is NULL. If it succeeds, the descriptors become unreadable.
/// Run one before the first sleep.
///
/// Errors: TICKLESS_E_DRIVEN, TICKLESS_E_NO_SHARD.
int tickless_turn(struct tickless_engine *engine,
                  uint32_t shard,
                  uint64_t fired_max,
                  struct tickless_turn_info *turn);

/// Returns the eventfd of a shard. It is readable when a timer was scheduled that is due before
/// `next_ns` of the last turn, and when the engine stops. It is the engine's: do not read or close
/// it.
///
/// Errors: as tickless_turn.
int tickless_eventfd(const struct tickless_engine *engine, uint32_t shard);

/// Returns a descriptor that is readable when a shard needs a turn, so that the loop needs no
/// timeout, also if it is edge-triggered. It is an epoll with the eventfd and a timerfd, which a
/// turn sets if the time has changed: a system call. A manual clock does not make it readable. It
/// is the engine's, as the eventfd.
///
/// Errors: as tickless_turn, and TICKLESS_E_SYSTEM.
int tickless_pollable_fd(const struct tickless_engine *engine, uint32_t shard);

/// Stores when a shard needs a turn, 0 for now: also while one is under way, has left something, or
/// several overlapped. Never later than the next timer.
///
/// Errors: as tickless_turn.
int tickless_next_deadline_ns(const struct tickless_engine *engine,
                              uint32_t shard,
                              uint64_t *next_ns);

/// A time to sleep for poll and epoll_wait: in ms, rounded up, -1 for TICKLESS_NEVER.
int tickless_timeout_ms(uint64_t sleep_ns);

/// The same for epoll_pwait2 and ppoll: fills `*room` and returns it, or NULL for TICKLESS_NEVER.
const struct timespec *tickless_timespec(uint64_t sleep_ns, struct timespec *room);

/// From now on, timers of the calling thread go to that shard: for threads that each drive one.
///
/// Errors: TICKLESS_E_NO_SHARD, TICKLESS_E_THREAD_ENDS.
int tickless_bind_thread(struct tickless_engine *engine, uint32_t shard);

/// Moves a manual clock, and calls back what becomes due on the way, in order; each sees the time
/// of its deadline. Stores how many, unless `fired` is NULL.
///
/// Errors: TICKLESS_E_NOT_MANUAL.
int tickless_advance(struct tickless_engine *engine, uint64_t by_ns, uint64_t *fired);

/// Moves a manual clock, and leaves the rest to tickless_turn.
///
/// Errors: TICKLESS_E_NOT_MANUAL.
int tickless_clock_advance(struct tickless_engine *engine, uint64_t by_ns);

/// TICKLESS_ABI_VERSION of the library that was loaded.
uint32_t tickless_abi_version(void);

/// Its version: "0.1.0".
const char *tickless_version(void);

/// Makes an engine; `options` is NULL for the defaults. Stores NULL if it fails.
///
/// Errors: TICKLESS_E_SYSTEM, TICKLESS_E_NOMEM.
TICKLESS_MUST_USE
int tickless_engine_new(const struct tickless_options *options,
                        struct tickless_engine **engine);

/// Stops an engine: no callback begins any more. Waits for those that run, but no longer than
/// `limit_ns`. Passes what was pending to `returned`, unless that is NULL or it repeats, and
/// releases the user data. (A timer that another thread is moving may be left to
/// tickless_timer_cancel, which returns 1 then.) A second stop waits again. The engine has to be
/// freed.
///
/// Errors: TICKLESS_E_TIMED_OUT, it is stopped but something still runs; TICKLESS_E_INSIDE_TASK.
int tickless_engine_stop(struct tickless_engine *engine,
                         uint64_t limit_ns,
                         tickless_returned_fn returned,
                         void *context);

/// Stops an engine and frees it; NULL is none. If the last stop has returned TICKLESS_E_TIMED_OUT,
/// this does not wait, and what still runs must not use the engine. In a child, lets go of the
/// copy.
///
/// Errors: TICKLESS_E_INSIDE_TASK.
int tickless_engine_free(struct tickless_engine *engine);

/// Stores the engine's time, of CLOCK_MONOTONIC. A manual clock begins when its engine is made.
int tickless_now_ns(const struct tickless_engine *engine, uint64_t *now_ns);

/// What a code means. Never NULL, static.
const char *tickless_strerror(int code);

/// What happened when a call last failed on this thread. Never NULL; valid until the next failure.
const char *tickless_last_error(void);

/// Stores what the engine has counted. Never waits.
int tickless_stats(const struct tickless_engine *engine, struct tickless_stats_info *stats);

/// Stores what is overdue. Never waits.
int tickless_overdue(const struct tickless_engine *engine, struct tickless_overdue_info *overdue);

/// Calls run(user_data) after `delay_ns`, then drop_fn(user_data), unless that is NULL. Fills
/// `*timer`, whatever is there; NULL if nobody will end or move it. Never early; late by less than
/// a tick, a wake-up, and other callbacks of the shard. Never waits.
///
/// Errors: TICKLESS_E_FULL.
TICKLESS_MUST_USE
int tickless_schedule(const struct tickless_engine *engine,
                      uint64_t delay_ns,
                      tickless_fn run,
                      void *user_data,
                      tickless_fn drop_fn,
                      struct tickless_timer *timer);

/// As tickless_schedule, for a time, a slack, or a timer that can be waited for.
TICKLESS_MUST_USE
int tickless_schedule_when(const struct tickless_engine *engine,
                           const struct tickless_when *when,
                           tickless_fn run,
                           void *user_data,
                           tickless_fn drop_fn,
                           struct tickless_timer *timer);

/// Calls run(user_data) at `first` (NULL: after a period) and every `period_ns` from then on, until
/// the timer is ended, the engine stops, or it is full when a run is to be scheduled. Then calls
/// drop_fn(user_data). The rate is fixed, unless TICKLESS_FIXED_DELAY is set; times that have
/// passed when a run ends are left out. Runs do not overlap, nor allocate.
///
/// Errors: TICKLESS_E_FULL.
TICKLESS_MUST_USE
int tickless_schedule_repeating(const struct tickless_engine *engine,
                                const struct tickless_when *first,
                                uint64_t period_ns,
                                tickless_fn run,
                                void *user_data,
                                tickless_fn drop_fn,
                                struct tickless_timer *timer);

/// Starts a timer, whatever it is: zero, ended, pending (it is cancelled first) or fired. Also
/// where other threads may end it, and in its callback: a cancel that comes while that runs does
/// not keep it from this. If user data serves several runs, its `drop_fn` is NULL. A callback that
/// runs can no longer be waited for.
///
/// Errors: TICKLESS_E_FULL, TICKLESS_E_STOPPED; the timer is ended then.
TICKLESS_MUST_USE
int tickless_timer_restart(const struct tickless_engine *engine,
                           struct tickless_timer *timer,
                           uint64_t delay_ns,
                           tickless_fn run,
                           void *user_data,
                           tickless_fn drop_fn);

/// As tickless_timer_restart, for a time, a slack, or a timer that can be waited for.
TICKLESS_MUST_USE
int tickless_timer_restart_when(const struct tickless_engine *engine,
                                struct tickless_timer *timer,
                                const struct tickless_when *when,
                                tickless_fn run,
                                void *user_data,
                                tickless_fn drop_fn);

/// Moves a timer that is pending, and releases the user data of the call; restarts any other. For
/// idle timeouts.
///
/// Errors: as tickless_timer_restart.
TICKLESS_MUST_USE
int tickless_timer_rearm(const struct tickless_engine *engine,
                         struct tickless_timer *timer,
                         uint64_t delay_ns,
                         tickless_fn run,
                         void *user_data,
                         tickless_fn drop_fn);

/// Makes a scope, whatever is there. If the engine stops, its timers end as others do.
TICKLESS_MUST_USE
int tickless_scope_init(const struct tickless_engine *engine,
                        struct tickless_scope *scope);

/// As tickless_schedule. Stores the key before the timer can fire, zeroes if this fails; NULL if it
/// ends with the others.
///
/// Errors: TICKLESS_E_FULL.
TICKLESS_MUST_USE
int tickless_scope_schedule(struct tickless_scope *scope,
                            uint64_t delay_ns,
                            tickless_fn run,
                            void *user_data,
                            tickless_fn drop_fn,
                            struct tickless_scope_key *key);

/// As tickless_scope_schedule, for a time or a slack.
TICKLESS_MUST_USE
int tickless_scope_schedule_when(struct tickless_scope *scope,
                                 const struct tickless_when *when,
                                 tickless_fn run,
                                 void *user_data,
                                 tickless_fn drop_fn,
                                 struct tickless_scope_key *key);

/// Returns 1 if the callback never runs, 0 if it has begun or the key is of none. Never waits.
int tickless_scope_cancel(struct tickless_scope *scope, struct tickless_scope_key key);

/// Moves a timer that is pending. Its key stays.
///
/// Errors: TICKLESS_E_TOO_LATE, also if the key is of none.
int tickless_scope_reset(struct tickless_scope *scope,
                         struct tickless_scope_key key,
                         uint64_t delay_ns);

/// As tickless_scope_reset, for a time or a slack.
int tickless_scope_reset_when(struct tickless_scope *scope,
                              struct tickless_scope_key key,
                              const struct tickless_when *when);

/// Cancels the timers whose callbacks have not begun, and returns how many.
int tickless_scope_cancel_all(struct tickless_scope *scope);

/// Cancels the timers, and waits for callbacks that run (except the one that makes the call), no
/// longer than `limit_ns`. Then what they use can be freed, and the scope is none; it may lie in
/// memory that a `drop_fn` of its timers frees. Of two callbacks that end it, the second gets
/// TICKLESS_E_HANDLE at once.
///
/// Errors, after which it can be ended again: TICKLESS_E_TIMED_OUT, TICKLESS_E_CIRCULAR,
/// TICKLESS_E_FORKED.
int tickless_scope_end(struct tickless_scope *scope, uint64_t limit_ns);

/// Ends a timer. Returns 1 if its callback never runs; its user data was released on this thread.
/// Returns 0 if it is too late: if the callback has begun or, without TICKLESS_WAITABLE, if it is
/// among the 256 that are about to. If one that repeats is in a run, that is the last. Never waits.
int tickless_timer_cancel(struct tickless_timer *timer);

/// As tickless_timer_cancel, but stores the user data instead of releasing it, or NULL for 0. For
/// one that repeats, always 0.
int tickless_timer_take(struct tickless_timer *timer, void **user_data);

/// Ends a timer with TICKLESS_WAITABLE or one that repeats: cancels it, or waits for the end of its
/// callback and `drop_fn`, but no longer than `limit_ns`. Then what they use can be freed. Returns
/// 1 if it never runs (if it repeats: if this ended it), else 0. It waits for what was started
/// last: if the callback has restarted the timer, not for the callback. Memory that `drop_fn` frees
/// may hold the timer, if the limit is TICKLESS_NEVER.
///
/// Errors, after which it can be ended again: TICKLESS_E_TIMED_OUT, TICKLESS_E_INSIDE_TASK,
/// TICKLESS_E_CIRCULAR, TICKLESS_E_FORKED. And TICKLESS_E_NOT_WAITABLE.
int tickless_timer_cancel_wait(struct tickless_timer *timer, uint64_t limit_ns);

/// Lets a timer run without you, or ends one that has fired. NULL is none.
int tickless_timer_detach(struct tickless_timer *timer);

/// Moves a timer that is pending to `delay_ns` from now. Those that are moved so in one tick fire
/// together.
///
/// Errors: TICKLESS_E_TOO_LATE; TICKLESS_E_ARGUMENT, it repeats.
int tickless_timer_reset(struct tickless_timer *timer, uint64_t delay_ns);

/// As tickless_timer_reset, for a time or a slack.
int tickless_timer_reset_when(struct tickless_timer *timer, const struct tickless_when *when);

/// Returns one of TICKLESS_STATE_*. One that repeats is pending until it ends.
int tickless_timer_state(const struct tickless_timer *timer);

/// Stores when a timer is or was due, rounded up to the tick; TICKLESS_NEVER if its engine has
/// stopped. If it repeats, its next run or the one under way.
int tickless_timer_deadline_ns(struct tickless_timer *timer, uint64_t *deadline_ns);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TICKLESS_H */
