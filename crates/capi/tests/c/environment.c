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

/* As the README of any daemon has it: the engine is made first. */
static void a_signal_goes_to_the_thread_that_waits_for_it(void) {
    pid_t child = fork();
    int status;
    CHECK(child >= 0);
    if (child == 0) {
        tickless_engine *engine;
        struct count runs = COUNT_INIT;
        sigset_t term;
        int signal = 0, i;
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
        _exit(7);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
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

/* No page is left to the process, but for its stack. */
static void exhaust(void) {
    struct rlimit none = {0, 0};
    volatile char stack[1 << 18];
    size_t size;
    void **last = NULL, **more;
    for (size = 0; size < sizeof stack; size += 1024) {
        stack[size] = 0;
    }
    CHECK(stack[0] == 0 && setrlimit(RLIMIT_AS, &none) == 0);
    for (size = 1 << 16; size >= sizeof last; size /= 2) {
        while ((more = malloc(size)) != NULL) {
            *more = last;
            last = more;
        }
    }
}

static void an_engine_for_which_there_is_no_memory_is_refused(void) {
    pid_t child = fork();
    int status;
    CHECK(child >= 0);
    if (child == 0) {
        tickless_options options;
        tickless_engine *engine;
        memset(&options, 0, sizeof options);
        options.size = sizeof options;
        options.clock = TICKLESS_CLOCK_MANUAL;
        options.shards = 4;
        exhaust();
        RETURNS(TICKLESS_E_NOMEM, tickless_engine_new(&options, &engine));
        CHECK(engine == NULL && strlen(tickless_last_error()) > 0);
        _exit(7);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

/* In a child, which makes an engine: how it ends. */
static int end_of(void (*use)(const tickless_engine *, int kind), int kind) {
    pid_t child = fork();
    int status;
    CHECK(child >= 0);
    if (child == 0) {
        tickless_options options;
        tickless_engine *engine;
        memset(&options, 0, sizeof options);
        options.size = sizeof options;
        options.clock = TICKLESS_CLOCK_MANUAL;
        OK(tickless_engine_new(&options, &engine));
        use(engine, kind);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

static void do_nothing(void *user_data) {
    (void)user_data;
}

enum { PLAIN, WAITABLE, REPEATING, SCOPED, KINDS };

static tickless_scope scope;

static void start(const tickless_engine *engine, int kind, tickless_timer *timer) {
    const tickless_when waitable = {HOUR, 0, TICKLESS_WAITABLE};
    switch (kind) {
    case PLAIN:
        OK(tickless_schedule(engine, HOUR, do_nothing, NULL, NULL, timer));
        break;
    case WAITABLE:
        OK(tickless_schedule_when(engine, &waitable, do_nothing, NULL, NULL, timer));
        break;
    case REPEATING:
        OK(tickless_schedule_repeating(engine, NULL, HOUR, do_nothing, NULL, NULL, timer));
        break;
    default:
        OK(tickless_scope_schedule(&scope, HOUR, do_nothing, NULL, NULL, NULL));
    }
}

static void schedule_without_end(const tickless_engine *engine, int kind) {
    OK(tickless_scope_init(engine, &scope));
    exhaust();
    for (;;) {
        static tickless_timer timer;
        start(engine, kind, &timer);
        OK(tickless_timer_detach(kind == SCOPED ? NULL : &timer));
    }
}

static void a_timer_for_which_there_is_no_memory_ends_the_process(void) {
    int kind;
    for (kind = 0; kind < KINDS; kind++) {
        const int status = end_of(schedule_without_end, kind);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    }
}

/* The first scope of a process, and of a thread that has little room. */
static void *use_scope(void *engine) {
    OK(tickless_scope_init(engine, &scope));
    start(engine, SCOPED, NULL);
    OK(tickless_scope_end(&scope, TICKLESS_NEVER));
    return NULL;
}

static void use_with_a_small_stack(const tickless_engine *engine, int kind) {
    pthread_attr_t small;
    pthread_t thread;
    (void)kind;
    CHECK(pthread_attr_init(&small) == 0 && pthread_attr_setstacksize(&small, 1 << 16) == 0);
    CHECK(pthread_create(&thread, &small, use_scope, (void *)(uintptr_t)engine) == 0);
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
    RUN(a_timer_for_which_there_is_no_memory_ends_the_process);
    RUN(a_thread_with_a_small_stack_uses_timers);
    RUN(threads_have_the_stack_and_call_the_hook_that_were_asked_for);
    RUN(a_callback_that_is_stuck_is_told_of);
    RUN(a_precise_engine_fires_its_timers_and_none_is_early);
    return 0;
}
