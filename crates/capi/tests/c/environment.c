/* What an engine's threads take from the program, and what not: signals, stacks, a hook. */
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static void nothing(int signal) {
    (void)signal;
}

/* How a child ends that does this. */
static int end_of(void (*does)(int kind), int kind) {
    const pid_t child = fork();
    int status;
    CHECK(child >= 0);
    if (child == 0) {
        does(kind);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

/* As the README of any daemon has it: the engine is made first. */
static void wait_for_a_signal(int kind) {
    tickless_engine *engine;
    struct count runs = COUNT_INIT;
    sigset_t term;
    int signal = 0, i;
    (void)kind;
    OK(tickless_engine_new(NULL, &engine));
    /* More threads than one. */
    for (i = 0; i < 100; i++) {
        OK(tickless_schedule(engine, 0, count_one, &runs, NULL, NULL));
    }
    count_wait(&runs, 100);
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    CHECK(pthread_sigmask(SIG_BLOCK, &term, NULL) == 0);
    CHECK(kill(getpid(), SIGTERM) == 0);
    CHECK(sigwait(&term, &signal) == 0 && signal == SIGTERM);
    OK(tickless_engine_free(engine));
}

static void a_signal_goes_to_the_thread_that_waits_for_it(void) {
    CHECK(end_of(wait_for_a_signal, 0) == 0);
}

static void a_thread_that_makes_an_engine_takes_signals_as_before(void) {
    struct sigaction action;
    sigset_t before, after;
    tickless_engine *engine;
    memset(&action, 0, sizeof action);
    action.sa_handler = nothing;
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    CHECK(pthread_sigmask(SIG_BLOCK, NULL, &before) == 0);
    OK(tickless_engine_new(NULL, &engine));
    CHECK(pthread_sigmask(SIG_BLOCK, NULL, &after) == 0);
    CHECK(sigismember(&before, SIGUSR1) == sigismember(&after, SIGUSR1));
    CHECK(sigismember(&before, SIGTERM) == sigismember(&after, SIGTERM));
    OK(tickless_engine_free(engine));
}

/* A program that ignores SIGTERM lives on. */
static void is_ended_by_sigterm(pid_t child) {
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

static char *const program[] = {"/bin/sh", "-c", "kill -TERM $$; exit 3", NULL};

static void start_programs(void *ended) {
    posix_spawnattr_t attributes;
    sigset_t none;
    pid_t child = fork();
    if (child == 0) {
        execv(program[0], program);
        _exit(127);
    }
    is_ended_by_sigterm(child);
    /* What the header says for posix_spawn, which tells nobody of its child. */
    sigemptyset(&none);
    CHECK(posix_spawnattr_init(&attributes) == 0);
    CHECK(posix_spawnattr_setsigmask(&attributes, &none) == 0);
    CHECK(posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK) == 0);
    CHECK(posix_spawn(&child, program[0], NULL, &attributes, program, NULL) == 0);
    is_ended_by_sigterm(child);
    CHECK(posix_spawnattr_destroy(&attributes) == 0);
    count_one(ended);
}

static void a_program_that_a_callback_starts_takes_signals(void) {
    tickless_engine *engine;
    struct count ended = COUNT_INIT;
    OK(tickless_engine_new(NULL, &engine));
    OK(tickless_schedule(engine, 0, start_programs, &ended, NULL, NULL));
    count_wait(&ended, 1);
    OK(tickless_engine_free(engine));
}

static void is_usr1_blocked(void *user_data) {
    pid_t child = fork();
    int status;
    if (child == 0) {
        sigset_t mask;
        CHECK(pthread_sigmask(SIG_BLOCK, NULL, &mask) == 0);
        _exit(sigismember(&mask, SIGUSR1) && !sigismember(&mask, SIGTERM) ? 0 : 1);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    count_one(user_data);
}

static void a_child_of_a_callback_blocks_what_the_maker_of_the_engine_did(void) {
    tickless_engine *engine;
    struct count ended = COUNT_INIT;
    sigset_t usr1;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    CHECK(pthread_sigmask(SIG_BLOCK, &usr1, NULL) == 0);
    OK(tickless_engine_new(NULL, &engine));
    CHECK(pthread_sigmask(SIG_UNBLOCK, &usr1, NULL) == 0);
    OK(tickless_schedule(engine, 0, is_usr1_blocked, &ended, NULL, NULL));
    count_wait(&ended, 1);
    OK(tickless_engine_free(engine));
}

/* Bounds the process to the memory that it has. */
static void set_limit(rlim_t bytes) {
    struct rlimit limit = {bytes, RLIM_INFINITY};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
}

static void *exhausted;

/* No memory is left to the process, but for its stack. */
static void exhaust(void) {
    volatile char stack[1 << 18];
    FILE *statm = fopen("/proc/self/statm", "r");
    unsigned long pages;
    size_t size;
    void **more;
    for (size = 0; size < sizeof stack; size += 1024) {
        stack[size] = 0;
    }
    CHECK(statm != NULL && fscanf(statm, "%lu", &pages) == 1 && fclose(statm) == 0);
    set_limit((rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + stack[0]);
    for (size = 1 << 20; size >= sizeof exhausted; size /= 2) {
        while ((more = malloc(size)) != NULL) {
            *more = exhausted;
            exhausted = more;
        }
    }
}

static void make_an_engine_without_memory(int number) {
    tickless_engine *first = NULL, *engine;
    tickless_options options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.clock = TICKLESS_CLOCK_MANUAL;
    options.shards = 4;
    if (number > 0) {
        first = manual_engine();
    }
    exhaust();
    RETURNS(TICKLESS_E_NOMEM, tickless_engine_new(&options, &engine));
    CHECK(engine == NULL && strlen(tickless_last_error()) > 0);
    set_limit(RLIM_INFINITY);
    OK(tickless_engine_new(&options, &engine));
    OK(tickless_engine_free(engine));
    if (number > 0) {
        OK(tickless_engine_free(first));
    }
}

static void an_engine_for_which_there_is_no_memory_is_refused(void) {
    CHECK(end_of(make_an_engine_without_memory, 0) == 0);
    CHECK(end_of(make_an_engine_without_memory, 1) == 0);
}

enum { PLAIN, WAITABLE, REPEATING, SCOPED, RESTARTED, KINDS };

static tickless_scope scope;
static struct count ran = COUNT_INIT, released = COUNT_INIT;

static int start(const tickless_engine *engine, int kind, tickless_timer *timer) {
    const tickless_when waitable = {HOUR, 0, TICKLESS_WAITABLE};
    switch (kind) {
    case PLAIN:
        return tickless_schedule(engine, HOUR, count_one, &ran, count_nothing, timer);
    case WAITABLE:
        return tickless_schedule_when(engine, &waitable, count_one, &ran, count_nothing, timer);
    case REPEATING:
        return tickless_schedule_repeating(engine, NULL, HOUR, count_one, &ran, count_nothing, timer);
    case SCOPED:
        return tickless_scope_schedule(&scope, HOUR, count_one, &ran, count_nothing, NULL);
    default:
        memset(timer, 0, sizeof *timer);
        return tickless_timer_rearm(engine, timer, HOUR, count_one, &ran, count_nothing);
    }
}

static void release(void *user_data) {
    (void)user_data;
    count_one(&released);
}

/* What is there already goes on, moves no more, and ends. */
static void start_timers_without_memory(int kind) {
    tickless_engine *const engine = manual_engine();
    tickless_timer first, last, timer;
    long started = 0, i;
    int code;
    OK(tickless_scope_init(engine, &scope));
    OK(tickless_schedule(engine, 2 * HOUR, count_one, &ran, release, &first));
    OK(tickless_schedule(engine, 2 * HOUR, count_one, &ran, NULL, &last));
    exhaust();
    while ((code = start(engine, kind, &timer)) == TICKLESS_OK) {
        started++;
        OK(tickless_timer_detach(kind == SCOPED ? NULL : &timer));
    }
    for (i = 0; i < 10000; i++) {
        RETURNS(TICKLESS_E_NOMEM, code);
        code = start(engine, kind, &timer);
    }
    RETURNS(TICKLESS_E_NOMEM, tickless_schedule(engine, HOUR, count_one, &ran, release, NULL));
    CHECK(released.n == 1);
    RETURNS(TICKLESS_E_NOMEM, tickless_timer_reset(&first, 1));
    RETURNS(1, tickless_timer_cancel(&first));
    CHECK(released.n == 2);
    CHECK(advance(engine, HOUR) == (uint64_t)started && ran.n == started);
    CHECK(advance(engine, HOUR) >= 1);
    RETURNS(0, tickless_timer_cancel(&last));
    OK(tickless_scope_end(&scope, TICKLESS_NEVER));
    set_limit(RLIM_INFINITY);
    OK(tickless_scope_init(engine, &scope));
    OK(start(engine, kind, &timer));
    OK(tickless_engine_free(engine));
}

static void a_timer_for_which_there_is_no_memory_is_refused(void) {
    int kind;
    for (kind = 0; kind < KINDS; kind++) {
        CHECK(end_of(start_timers_without_memory, kind) == 0);
    }
}

/* The first scope of a process, and of a thread that has little room. */
static void *use_scope(void *engine) {
    OK(tickless_scope_init(engine, &scope));
    OK(start(engine, SCOPED, NULL));
    OK(tickless_scope_end(&scope, TICKLESS_NEVER));
    return NULL;
}

static void use_with_a_small_stack(int kind) {
    tickless_engine *const engine = manual_engine();
    pthread_attr_t small;
    pthread_t thread;
    (void)kind;
    CHECK(pthread_attr_init(&small) == 0 && pthread_attr_setstacksize(&small, 1 << 16) == 0);
    CHECK(pthread_create(&thread, &small, use_scope, engine) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void a_thread_with_a_small_stack_uses_timers(void) {
    CHECK(end_of(use_with_a_small_stack, 0) == 0);
}

static void needs_a_stack(void *user_data) {
    volatile char frames[8 << 20];
    size_t i;
    for (i = 0; i < sizeof frames; i += 1024) {
        frames[i] = (char)i;
    }
    CHECK(frames[1024] == 0);
    count_one(user_data);
}

static void threads_have_the_stack_and_call_the_hook_that_were_asked_for(void) {
    tickless_options options;
    struct count hooks = COUNT_INIT, runs = COUNT_INIT;
    tickless_engine *engine;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.stack_size = 16 << 20;
    options.on_thread_start = count_one;
    options.on_thread_start_data = &hooks;
    OK(tickless_engine_new(&options, &engine));
    OK(tickless_schedule(engine, 0, needs_a_stack, &runs, NULL, NULL));
    count_wait(&runs, 1);
    CHECK(count_now(&hooks) >= 1);
    OK(tickless_engine_free(engine));
}

struct stuck {
    struct count told;
    uint64_t shard;
    uint64_t since_ns;
    char thread[32];
};

static void wait_until_told(void *user_data) {
    count_wait(&((struct stuck *)user_data)->told, 1);
}

static void note_stuck(void *context, const tickless_stuck_info *info) {
    struct stuck *stuck = context;
    stuck->shard = info->shard;
    stuck->since_ns = info->since_ns;
    snprintf(stuck->thread, sizeof stuck->thread, "%s", info->thread);
    count_add(&stuck->told, 1);
}

/* It goes on when the hook was called. */
static void a_callback_that_is_stuck_is_told_of(void) {
    tickless_options options;
    struct stuck stuck = {COUNT_INIT, 7, 0, ""};
    tickless_engine *engine;
    uint64_t before, after;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.shards = 1;
    options.takeover_ns = MS;
    options.thread_name = "stuck";
    options.on_stuck = note_stuck;
    options.on_stuck_data = &stuck;
    OK(tickless_engine_new(&options, &engine));
    OK(tickless_now_ns(engine, &before));
    OK(tickless_schedule(engine, 0, wait_until_told, &stuck, NULL, NULL));
    count_wait(&stuck.told, 1);
    OK(tickless_now_ns(engine, &after));
    CHECK(stuck.shard == 0 && stuck.since_ns >= before && stuck.since_ns <= after);
    CHECK(strncmp(stuck.thread, "stuck", 5) == 0);
    OK(tickless_engine_free(engine));
}

static void a_precise_engine_fires_its_timers_and_none_is_early(void) {
    tickless_options options;
    struct count fired = COUNT_INIT;
    tickless_engine *engine;
    uint64_t before, after;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.precise_percent = 20;
    OK(tickless_engine_new(&options, &engine));
    OK(tickless_now_ns(engine, &before));
    OK(tickless_schedule(engine, 1500000, count_one, &fired, NULL, NULL));
    count_wait(&fired, 1);
    OK(tickless_now_ns(engine, &after));
    CHECK(after - before >= 1500000);
    OK(tickless_engine_free(engine));
}

int main(void) {
    RUN(a_signal_goes_to_the_thread_that_waits_for_it);
    RUN(a_thread_that_makes_an_engine_takes_signals_as_before);
    RUN(a_program_that_a_callback_starts_takes_signals);
    RUN(a_child_of_a_callback_blocks_what_the_maker_of_the_engine_did);
    RUN(an_engine_for_which_there_is_no_memory_is_refused);
    RUN(a_timer_for_which_there_is_no_memory_is_refused);
    RUN(a_thread_with_a_small_stack_uses_timers);
    RUN(threads_have_the_stack_and_call_the_hook_that_were_asked_for);
    RUN(a_callback_that_is_stuck_is_told_of);
    RUN(a_precise_engine_fires_its_timers_and_none_is_early);
    return 0;
}
