/* What an engine's threads take from the program, and what not: signals, stacks, a hook. */
#include <signal.h>
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

int main(void) {
    RUN(a_signal_goes_to_the_thread_that_waits_for_it);
    RUN(a_thread_that_makes_an_engine_takes_signals_as_before);
    RUN(threads_have_the_stack_and_call_the_hook_that_were_asked_for);
    return 0;
}
