// The wheel for one loop in C++: lambdas, times, scopes, and callbacks that end what they belong to.
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "check.hpp"
#include "tickless_wheel.hpp"

using namespace std::chrono_literals;

static_assert(!std::is_move_constructible_v<tickless::wheel<>>);
static_assert(!std::is_move_constructible_v<tickless::wheel_timer<>>);

// Times that the tests move.
static const auto begin = std::chrono::steady_clock::time_point(1000s);

static void timers_of_all_kinds_fire_in_time() {
    tickless::wheel<> wheel(begin);
    int count = 0;
    tickless::wheel_timer small(wheel, [&count] { count++; });
    tickless::wheel_timer large(wheel, [&count, text = std::string(100, 'a')] {
        count += text.size() == 100;
    });
    tickless::wheel_timer<> any(wheel, [&count, p = std::make_shared<int>(1)] { count += *p; });
    small.start_from_last(10ms);
    large.start_at(begin + 20ms);
    any.start_from_last(30ms);
    CHECK(wheel.size() == 3 && wheel.next() == begin + 10ms);
    CHECK(wheel.advance(begin + 9999us) == 0);
    CHECK(wheel.advance(begin + 10ms) == 1 && count == 1 && !small.is_pending());
    CHECK(wheel.advance(begin + 1h) == 2 && count == 3 && !wheel.next());
    // Never early: a part of a tick is rounded up.
    small.start_at(begin + 1h + 100us);
    CHECK(wheel.advance(begin + 1h + 900us) == 0 && wheel.advance(begin + 1h + 1ms) == 1);
    small.start_from_last(std::chrono::hours::max());
    CHECK(!wheel.next() && small.is_pending());
    small.start_from_last(-5s);
    CHECK(wheel.advance(begin + 1h + 1ms) == 1);
}

static void a_tick_has_the_length_that_it_is_given() {
    tickless::wheel<std::chrono::microseconds> wheel(begin);
    int count = 0;
    tickless::wheel_timer timer(wheel, [&count] { count++; });
    timer.start_at(begin + 1500ns);
    CHECK(wheel.advance(begin + 1999ns) == 0 && wheel.advance(begin + 2us) == 1);
}

static void a_timer_ends_with_its_scope_and_a_wheel_leaves_its_timers() {
    auto wheel = std::make_unique<tickless::wheel<>>(begin);
    int count = 0;
    tickless::wheel_timer outer(*wheel, [&count] { count++; });
    {
        tickless::wheel_timer inner(*wheel, [&count] { count += 100; });
        inner.start_from_last(1ms);
        outer.start_from_last(1ms);
        CHECK(wheel->size() == 2);
    }
    CHECK(wheel->size() == 1 && wheel->advance(begin + 1ms) == 1 && count == 1);
    outer.start_from_last(1ms);
    wheel->clear();
    CHECK(!outer.is_pending() && !outer.cancel());
    outer.start_from_last(1ms);
    wheel->clear();
}

// After a stall, a pause counts from the time that the advance was given, not from the deadlines that
// are made up for.
static void a_pause_that_a_callback_starts_is_no_shorter_after_a_stall() {
    tickless::wheel<> wheel(begin);
    int count = 0;
    tickless::wheel_timer<> *self = nullptr;
    tickless::wheel_timer<> timer(wheel, [&] {
        count++;
        CHECK(wheel.now() <= wheel.latest() && wheel.latest() == begin + 1s);
        self->start_from_last(100ms);
    });
    self = &timer;
    timer.start_at(begin + 10ms);
    CHECK(wheel.advance(begin + 1s) == 1 && count == 1);
    CHECK(wheel.advance(begin + 1099ms) == 0 && wheel.next() == begin + 1100ms);
    timer.cancel();
    timer.start_from_last(std::chrono::hours::min());
    CHECK(timer.is_pending() && wheel.next() <= wheel.now());
}

struct connection {
    tickless::wheel_timer<> idle;
    tickless::wheel_timer<> request;
    std::unique_ptr<connection> *owner;
    int &closed;

    connection(tickless::wheel<> &wheel, std::unique_ptr<connection> *owner, int &closed)
        : idle(wheel, [this] { close(); }), request(wheel, [this] { close(); }), owner(owner),
          closed(closed) {
        idle.start_from_last(30s);
        request.start_from_last(30s);
    }

    void close() {
        closed++;
        owner->reset();
    }
};

static void a_callback_destroys_the_object_that_its_timer_belongs_to() {
    tickless::wheel<> wheel(begin);
    int closed = 0;
    std::vector<std::unique_ptr<connection>> connections(1000);
    for (auto &place : connections) {
        place = std::make_unique<connection>(wheel, &place, closed);
    }
    CHECK(wheel.advance(begin + 30s) == 1000 && closed == 1000 && wheel.size() == 0);
}

static void what_a_callback_throws_leaves_the_advance_and_the_rest_fires_later() {
    tickless::wheel<> wheel(begin);
    int count = 0;
    tickless::wheel_timer throws(wheel, [] { throw std::runtime_error("no"); });
    tickless::wheel_timer one(wheel, [&count] { count++; });
    tickless::wheel_timer two(wheel, [&count] { count++; });
    one.start_from_last(1ms);
    throws.start_from_last(1ms);
    two.start_from_last(2ms);
    bool is_thrown = false;
    try {
        wheel.advance(begin + 2ms);
    } catch (const std::runtime_error &) {
        is_thrown = true;
    }
    CHECK(is_thrown && wheel.size() + static_cast<unsigned>(count) == 2);
    wheel.advance(begin + 2ms);
    CHECK(count == 2 && wheel.size() == 0);
}

static void it_goes_by_the_clock() {
    tickless::wheel<> wheel;
    int count = 0;
    tickless::wheel_timer timer(wheel, [&count] { count++; });
    timer.start(0s);
    while (count == 0) {
        wheel.advance();
    }
    CHECK(count == 1 && wheel.now() <= std::chrono::steady_clock::now());
}

int main() {
    RUN(timers_of_all_kinds_fire_in_time);
    RUN(a_tick_has_the_length_that_it_is_given);
    RUN(a_timer_ends_with_its_scope_and_a_wheel_leaves_its_timers);
    RUN(a_pause_that_a_callback_starts_is_no_shorter_after_a_stall);
    RUN(a_callback_destroys_the_object_that_its_timer_belongs_to);
    RUN(what_a_callback_throws_leaves_the_advance_and_the_rest_fires_later);
    RUN(it_goes_by_the_clock);
}
