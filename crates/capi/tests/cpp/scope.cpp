// Scopes and batches in C++: connections whose timers end with them, and one function for all timers
// that are due together.
#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <vector>

#include "check.hpp"
#include "tickless.hpp"

using namespace std::chrono_literals;

static_assert(!std::is_copy_constructible_v<tickless::scope>);
static_assert(std::is_nothrow_move_constructible_v<tickless::scope>);
static_assert(std::is_nothrow_move_assignable_v<tickless::scope>);
static_assert(sizeof(tickless::scope) == sizeof(tickless_scope));

static tickless::options by_hand() {
    tickless::options options;
    options.clock = TICKLESS_CLOCK_MANUAL;
    options.shards = 1;
    return options;
}

static void the_timers_of_a_scope_end_with_it() {
    auto shared = std::make_shared<int>(0);
    auto use = [shared] { ++*shared; };
    tickless::engine engine(by_hand());
    {
        tickless::scope scope(engine);
        auto cancelled = scope.schedule(1s, use);
        auto moved = scope.schedule(1s, use);
        scope.schedule(1s, use);
        CHECK(scope.cancel(cancelled) && !scope.cancel(cancelled) && !scope.cancel({}));
        CHECK(scope.reset(moved, 2s) && !scope.reset(cancelled, 2s));
        CHECK(engine.advance(1s) == 1 && *shared == 1);
        tickless::scope other = std::move(scope);
        CHECK(!scope.cancel(moved));
        scope.end();
        other.schedule(5s, use);
        CHECK(other.cancel_all() == 2);
        other.schedule(5s, use);
        CHECK(shared.use_count() == 3);
        other = tickless::scope(engine);
        CHECK(shared.use_count() == 2);
        other.schedule(5s, use);
    }
    CHECK(shared.use_count() == 2 && engine.advance(1h) == 0 && *shared == 1);
}

static void what_cannot_be_scheduled_is_destroyed_and_thrown() {
    auto shared = std::make_shared<int>(0);
    auto code_of = [&](tickless::scope &scope) {
        try {
            scope.schedule(1s, [shared] {});
        } catch (const tickless::error &error) {
            return error.code();
        }
        return TICKLESS_OK;
    };
    tickless::engine engine(by_hand());
    tickless::scope scope(engine);
    engine.stop();
    CHECK(code_of(scope) == TICKLESS_E_STOPPED);
    scope.end();
    CHECK(code_of(scope) == TICKLESS_E_HANDLE);
    scope.end();
    CHECK(shared.use_count() == 1);
}

// Its timers use it, and one of them destroys it.
struct connection {
    std::shared_ptr<int> uses;
    std::promise<void> *closed;
    tickless::scope::key idle{};
    tickless::scope timers;

    connection(tickless::engine &engine, std::shared_ptr<int> uses, std::promise<void> *closed)
        : uses(std::move(uses)), closed(closed), timers(engine) {}

    static void open(tickless::engine &engine, std::shared_ptr<int> uses, std::promise<void> *closed) {
        auto *self = new connection(engine, std::move(uses), closed);
        for (int i = 0; i < 5; i++) {
            self->timers.schedule(1h, [self, uses = self->uses] { ++*self->uses; });
        }
        self->timers.schedule_into(self->idle, 0s, [self, uses = self->uses] {
            ++*self->uses;
            auto *closed = self->closed;
            delete self;
            closed->set_value();
        });
        // From here on, it may be gone.
    }
};

static void a_callback_destroys_the_connection_with_its_scope() {
    auto uses = std::make_shared<int>(0);
    for (int i = 0; i < 200; i++) {
        std::promise<void> closed;
        tickless::engine engine;
        connection::open(engine, uses, &closed);
        closed.get_future().wait();
    }
    CHECK(*uses == 200 && uses.use_count() == 1);
}

static void a_scope_waits_for_its_callbacks_before_what_they_use_is_gone() {
    tickless::options options;
    options.tick_ns = 20'000;
    tickless::engine engine(options);
    std::atomic<int> runs{0};
    for (int i = 0; i < 2000; i++) {
        auto used = std::make_unique<int>(0);
        tickless::scope scope(engine);
        for (int n = 0; n < 3; n++) {
            scope.schedule(n * 10us, [&used, &runs, mutex = std::make_shared<std::mutex>()] {
                std::lock_guard lock(*mutex);
                runs += 1 + *used;
            });
        }
    }
    CHECK(runs <= 3 * 2000);
}

static void one_function_runs_what_is_due_together() {
    int batches = 0, run = 0;
    auto handler = [&](tickless::batch batch) {
        batches++;
        while (batch.run()) {
        }
    };
    auto options = by_hand();
    options.on_batches(handler);
    tickless::engine engine(options);
    for (int i = 0; i < 10; i++) {
        engine.schedule_detached(1s, [&run] { run++; });
    }
    CHECK(engine.advance(1s) == 10 && batches == 1 && run == 10);
}

int main() {
    RUN(the_timers_of_a_scope_end_with_it);
    RUN(what_cannot_be_scheduled_is_destroyed_and_thrown);
    RUN(a_callback_destroys_the_connection_with_its_scope);
    RUN(a_scope_waits_for_its_callbacks_before_what_they_use_is_gone);
    RUN(one_function_runs_what_is_due_together);
    return 0;
}
