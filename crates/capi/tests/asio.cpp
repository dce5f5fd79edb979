// C++20, asio: waits with handlers, futures and coroutines, on executors of asio's. (Beside tests/cpp,
// since it needs Debian's libasio-dev.)
#include <memory>
#include <thread>
#include <vector>

#include <asio.hpp>

#include "check.hpp"
#include "tickless_asio.hpp"

using namespace std::chrono_literals;

static tickless::engine manual(std::uint64_t max_pending = 0) {
    tickless::options options;
    options.clock = TICKLESS_CLOCK_MANUAL;
    options.shards = 1;
    options.max_pending = max_pending;
    return tickless::engine(options);
}

static void a_handler_runs_in_the_loop_and_keeps_it_running() {
    asio::io_context loop;
    tickless::engine engine;
    const auto here = std::this_thread::get_id();
    int ran = 0;
    auto moved = std::make_unique<int>(7);
    tickless::async_sleep(loop.get_executor(), engine, 2ms,
                          [&, moved = std::move(moved)](asio::error_code code) {
                              CHECK(!code && *moved == 7 && std::this_thread::get_id() == here);
                              ran++;
                          });
    CHECK(ran == 0);
    // It ends when the handler has run, since a wait counts as work.
    loop.run();
    CHECK(ran == 1);
}

static void a_cancellation_slot_ends_a_wait() {
    asio::io_context loop;
    auto engine = manual();
    asio::cancellation_signal signal;
    int aborted = 0, fired = 0;
    auto handler = [&](asio::error_code code) {
        aborted += code == asio::error::operation_aborted;
        fired += !code;
    };
    auto sleep = [&](tickless::when when) {
        tickless::async_sleep(loop.get_executor(), engine, when,
                              asio::bind_cancellation_slot(signal.slot(), handler));
    };
    sleep(1h);
    CHECK(engine.stats().pending == 1);
    signal.emit(asio::cancellation_type::total);
    CHECK(engine.stats().pending == 0 && aborted == 0);
    loop.run();
    CHECK(aborted == 1 && fired == 0);
    // Too late.
    sleep(1ms);
    engine.advance(1ms);
    signal.emit(asio::cancellation_type::total);
    loop.restart();
    loop.run();
    signal.emit(asio::cancellation_type::total);
    CHECK(aborted == 1 && fired == 1 && engine.stats().unended == 0);
}

static void a_wait_ends_with_its_engine_and_when_it_is_refused() {
    asio::io_context loop;
    int aborted = 0;
    auto handler = [&](asio::error_code code) { aborted += code == asio::error::operation_aborted; };
    {
        auto engine = manual(1);
        tickless::async_sleep(loop.get_executor(), engine, 1h, handler);
        tickless::async_sleep(loop.get_executor(), engine, 1h, handler);
        loop.run_one();
        CHECK(aborted == 1);
        engine.stop();
        tickless::async_sleep(loop.get_executor(), engine, 1h, handler);
    }
    loop.run();
    CHECK(aborted == 3);
}

static asio::awaitable<void> nap(tickless::engine &engine, int naps, int &done) {
    auto executor = co_await asio::this_coro::executor;
    for (int i = 0; i < naps; i++) {
        co_await tickless::async_sleep(executor, engine, 10us, asio::use_awaitable);
    }
    done++;
}

static void coroutines_and_futures_wait() {
    tickless::options options;
    options.tick_ns = 10000;
    tickless::engine engine(options);
    asio::io_context loop;
    int done = 0;
    for (int i = 0; i < 200; i++) {
        asio::co_spawn(loop, nap(engine, 10, done), asio::detached);
    }
    loop.run();
    CHECK(done == 200);
    asio::thread_pool pool(2);
    std::vector<std::future<void>> waits;
    for (int i = 0; i < 200; i++) {
        waits.push_back(tickless::async_sleep(pool.get_executor(), engine, 1us * i, asio::use_future));
    }
    for (auto &wait : waits) {
        wait.get();
    }
    pool.join();
}

static asio::awaitable<void> hang(tickless::engine &engine) {
    auto executor = co_await asio::this_coro::executor;
    co_await tickless::async_sleep(executor, engine, 1h, asio::use_awaitable);
}

static void a_coroutine_is_cancelled_while_it_sleeps() {
    asio::io_context loop;
    auto engine = manual();
    asio::cancellation_signal signal;
    bool threw = false;
    asio::co_spawn(loop, hang(engine), asio::bind_cancellation_slot(signal.slot(), [&](std::exception_ptr error) {
                       threw = error != nullptr;
                   }));
    loop.poll();
    CHECK(engine.stats().pending == 1);
    signal.emit(asio::cancellation_type::terminal);
    loop.run();
    CHECK(threw && engine.stats().pending == 0);
}

static void a_context_that_ends_destroys_the_handlers_of_its_waits() {
    auto engine = manual();
    auto used = std::make_shared<int>();
    asio::cancellation_signal signal;
    {
        asio::io_context loop, other;
        const auto handler = [used](asio::error_code) { std::abort(); };
        for (int i = 0; i < 100; i++) {
            tickless::async_sleep(loop.get_executor(), engine, 1ms * i, handler);
        }
        tickless::async_sleep(other.get_executor(), engine, 1h,
                              asio::bind_executor(asio::make_strand(loop), handler));
        tickless::async_sleep(loop.get_executor(), engine, 1h,
                              asio::bind_cancellation_slot(signal.slot(), handler));
        asio::co_spawn(loop, hang(engine), asio::detached);
        loop.poll_one();
        // Some were handed over to the context, which does not run them.
        engine.advance(50ms);
        CHECK(engine.stats().pending > 50 && used.use_count() > 100);
    }
    CHECK(engine.stats().pending == 0 && engine.stats().unended == 0 && used.use_count() == 1);
    signal.emit(asio::cancellation_type::total);
    engine.advance(2h);
}

static void contexts_end_while_their_waits_do() {
    tickless::options options;
    options.tick_ns = 10000;
    tickless::engine engine(options);
    auto used = std::make_shared<int>();
    for (int round = 0; round < 300; round++) {
        asio::io_context loop;
        for (int i = 0; i < 30; i++) {
            tickless::async_sleep(loop.get_executor(), engine, 10us * i, [used](asio::error_code) {});
        }
        loop.run_one();
    }
    engine.stop();
    CHECK(used.use_count() == 1);
}

/// Starts other waits when it is moved, which its wait does to post it.
struct restless {
    tickless::engine &engine;
    asio::io_context &others;
    bool &is_due;
    int &ran;

    restless(tickless::engine &engine, asio::io_context &others, bool &is_due, int &ran)
        : engine(engine), others(others), is_due(is_due), ran(ran) {}

    restless(restless &&other)
        : engine(other.engine), others(other.others), is_due(other.is_due), ran(other.ran) {
        if (std::exchange(is_due, false)) {
            // More than there are locks.
            for (int i = 0; i < 200; i++) {
                tickless::async_sleep(others.get_executor(), engine, 1h, [](asio::error_code) {});
            }
        }
    }

    void operator()(asio::error_code code) {
        CHECK(!code);
        ran++;
    }
};

static void a_handler_may_start_waits_while_it_is_posted() {
    asio::io_context loop, others;
    auto engine = manual();
    bool is_due = false;
    int ran = 0;
    for (int i = 0; i < 20; i++) {
        tickless::async_sleep(loop.get_executor(), engine, 1ms, restless(engine, others, is_due, ran));
        is_due = true;
        engine.advance(1ms);
        CHECK(!is_due && engine.stats().pending == 200 * (i + 1u));
    }
    loop.run();
    CHECK(ran == 20);
}

static void a_timer_object_does_what_asios_does() {
    asio::io_context loop;
    auto engine = manual();
    int aborted = 0, fired = 0;
    const auto handler = [&](asio::error_code code) {
        aborted += code == asio::error::operation_aborted;
        fired += !code;
    };
    const auto poll = [&] {
        loop.restart();
        loop.poll();
    };
    {
        tickless::asio_timer timer(loop.get_executor(), engine);
        CHECK(timer.cancel() == 0 && timer.expires_at(engine.now() + 10ms) == 0);
        timer.async_wait(handler);
        timer.async_wait(handler);
        engine.advance(9ms);
        poll();
        CHECK(aborted == 0 && fired == 0 && engine.stats().pending == 2);
        engine.advance(2ms);
        poll();
        CHECK(aborted == 0 && fired == 2 && timer.cancel() == 0);
        // Another expiry ends the waits for the one before.
        timer.expires_at(engine.now() + 10ms);
        timer.async_wait(handler);
        CHECK(timer.expires_at(engine.now() + 1h) == 1);
        timer.async_wait(handler);
        poll();
        CHECK(aborted == 1 && fired == 2 && engine.stats().pending == 1);
        // It was due, and its handler was posted: too late.
        engine.advance(2h);
        CHECK(timer.cancel() == 0);
        poll();
        CHECK(aborted == 1 && fired == 3);
        timer.expires_after(std::chrono::hours::max());
        CHECK(timer.expiry() == tickless::asio_timer::time_point::max());
        timer.async_wait(handler);
        tickless::asio_timer moved(std::move(timer));
        CHECK(engine.stats().pending == 1);
    }
    poll();
    CHECK(aborted == 2 && fired == 3 && engine.stats().pending == 0 && engine.stats().unended == 0);
    // The clock is the engine's, and it waits in coroutines.
    tickless::engine clocked;
    tickless::asio_timer timer(loop.get_executor(), clocked);
    bool is_done = false;
    asio::co_spawn(
        loop,
        [&]() -> asio::awaitable<void> {
            timer.expires_after(1ms);
            co_await timer.async_wait(asio::use_awaitable);
            is_done = std::chrono::steady_clock::now() >= timer.expiry();
        },
        asio::detached);
    loop.restart();
    loop.run();
    CHECK(is_done);
}

int main() {
    RUN(a_handler_runs_in_the_loop_and_keeps_it_running);
    RUN(a_cancellation_slot_ends_a_wait);
    RUN(a_timer_object_does_what_asios_does);
    RUN(a_wait_ends_with_its_engine_and_when_it_is_refused);
    RUN(coroutines_and_futures_wait);
    RUN(a_coroutine_is_cancelled_while_it_sleeps);
    RUN(a_context_that_ends_destroys_the_handlers_of_its_waits);
    RUN(contexts_end_while_their_waits_do);
    RUN(a_handler_may_start_waits_while_it_is_posted);
}
