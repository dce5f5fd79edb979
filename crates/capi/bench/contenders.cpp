// The contenders. tickless, libevent and the heap are shared by all threads and have a thread that
// fires; with libuv and timerfd, each thread has a loop of its own and fires itself.
#include "contender.hpp"

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <queue>
#include <sys/timerfd.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <event2/event.h>
#include <event2/thread.h>
#include <uv.h>

#include "tickless.h"

namespace {

void must(bool condition, const char *what) {
    if (!condition) {
        std::fprintf(stderr, "%s\n", what);
        std::abort();
    }
}

std::uint64_t now_ns() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return std::uint64_t(time.tv_sec) * 1'000'000'000 + std::uint64_t(time.tv_nsec);
}

void count(void *counted) {
    static_cast<tally *>(counted)->fired.fetch_add(1, std::memory_order_relaxed);
}

/// Sleeps a little between two looks: the firing is another thread's work.
void wait_for(const tally &counted, long fired) {
    while (counted.fired.load(std::memory_order_relaxed) < fired) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

// === tickless ===

struct tickless_side : side {
    explicit tickless_side(tickless_engine *engine) : engine(engine) {}

    void reserve(long n) override { timers.resize(std::size_t(n)); }

    void start(long timer, std::uint64_t delay_ns) override {
        must(tickless_schedule(engine, delay_ns, count, &counted, nullptr,
                               &timers[std::size_t(timer)]) == TICKLESS_OK, "schedule");
    }

    void cancel(long timer) override {
        must(tickless_timer_cancel(&timers[std::size_t(timer)]) == 1, "cancel");
    }

    void reset(long timer, std::uint64_t delay_ns) override {
        must(tickless_timer_reset(&timers[std::size_t(timer)], delay_ns) == TICKLESS_OK, "reset");
    }

    void wait(long fired) override {
        wait_for(counted, fired);
        for (tickless_timer &timer : timers) {
            tickless_timer_detach(&timer);
        }
    }

    tickless_engine *engine;
    std::vector<tickless_timer> timers;
    tally counted;
};

struct tickless_contender : contender {
    tickless_contender() { must(tickless_engine_new(nullptr, &engine) == TICKLESS_OK, "engine"); }
    ~tickless_contender() override { tickless_engine_free(engine); }

    std::unique_ptr<side> make_side() override { return std::make_unique<tickless_side>(engine); }

    tickless_engine *engine;
};

// === libuv: a loop for each thread ===

struct libuv_side : side {
    libuv_side() { must(uv_loop_init(&loop) == 0, "uv_loop_init"); }

    ~libuv_side() override {
        for (uv_timer_t &timer : timers) {
            uv_close(reinterpret_cast<uv_handle_t *>(&timer), nullptr);
        }
        uv_run(&loop, UV_RUN_DEFAULT);
        uv_loop_close(&loop);
    }

    void reserve(long n) override {
        timers.resize(std::size_t(n));
        for (uv_timer_t &timer : timers) {
            uv_timer_init(&loop, &timer);
            timer.data = &counted;
        }
    }

    static void fire(uv_timer_t *timer) { count(timer->data); }

    void start(long timer, std::uint64_t delay_ns) override {
        // A loop caches the time. A program updates it once per turn; here it is not charged.
        uv_timer_start(&timers[std::size_t(timer)], fire, delay_ns / 1'000'000, 0);
    }

    void cancel(long timer) override { uv_timer_stop(&timers[std::size_t(timer)]); }

    void reset(long timer, std::uint64_t delay_ns) override { start(timer, delay_ns); }

    void wait(long fired) override {
        while (counted.fired.load(std::memory_order_relaxed) < fired) {
            uv_run(&loop, UV_RUN_ONCE);
        }
    }

    uv_loop_t loop;
    std::vector<uv_timer_t> timers;
    tally counted;
};

struct libuv_contender : contender {
    std::unique_ptr<side> make_side() override { return std::make_unique<libuv_side>(); }
};

// === libevent: one base for all threads, with its locks ===

struct libevent_side : side {
    explicit libevent_side(event_base *base) : base(base) {}

    ~libevent_side() override {
        for (event *timer : timers) {
            event_free(timer);
        }
    }

    static void fire(evutil_socket_t, short, void *counted) { count(counted); }

    void reserve(long n) override {
        while (long(timers.size()) < n) {
            timers.push_back(event_new(base, -1, 0, fire, &counted));
            must(timers.back() != nullptr, "event_new");
        }
    }

    void start(long timer, std::uint64_t delay_ns) override {
        const timeval delay = {time_t(delay_ns / 1'000'000'000),
                               suseconds_t(delay_ns % 1'000'000'000 / 1000)};
        must(event_add(timers[std::size_t(timer)], &delay) == 0, "event_add");
    }

    void cancel(long timer) override {
        must(event_del(timers[std::size_t(timer)]) == 0, "event_del");
    }

    void reset(long timer, std::uint64_t delay_ns) override { start(timer, delay_ns); }
    void wait(long fired) override { wait_for(counted, fired); }

    event_base *base;
    std::vector<event *> timers;
    tally counted;
};

struct libevent_contender : contender {
    libevent_contender() {
        must(evthread_use_pthreads() == 0, "evthread_use_pthreads");
        base = event_base_new();
        must(base != nullptr, "event_base_new");
        loop = std::thread([this] { event_base_loop(base, EVLOOP_NO_EXIT_ON_EMPTY); });
    }

    /// The loop ends from inside: what tells it to end before it has begun is forgotten by its begin.
    ~libevent_contender() override {
        const auto end = [](evutil_socket_t, short, void *base) {
            event_base_loopbreak(static_cast<event_base *>(base));
        };
        must(event_base_once(base, -1, EV_TIMEOUT, end, base, nullptr) == 0, "event_base_once");
        loop.join();
        event_base_free(base);
    }

    std::unique_ptr<side> make_side() override { return std::make_unique<libevent_side>(base); }

    event_base *base;
    std::thread loop;
};

// === A binary heap whose items know their place ===

struct item {
    std::uint64_t due_ns;
    std::size_t place;
    tally *counted;
};

struct binary_heap {
    std::vector<item *> items;

    void put(std::size_t place, item *item) {
        items[place] = item;
        item->place = place;
    }

    void up(std::size_t place) {
        item *moved = items[place];
        while (place > 0 && items[(place - 1) / 2]->due_ns > moved->due_ns) {
            put(place, items[(place - 1) / 2]);
            place = (place - 1) / 2;
        }
        put(place, moved);
    }

    void down(std::size_t place) {
        item *moved = items[place];
        for (;;) {
            std::size_t child = 2 * place + 1;
            if (child >= items.size()) {
                break;
            }
            if (child + 1 < items.size() && items[child + 1]->due_ns < items[child]->due_ns) {
                child++;
            }
            if (items[child]->due_ns >= moved->due_ns) {
                break;
            }
            put(place, items[child]);
            place = child;
        }
        put(place, moved);
    }

    void push(item *item) {
        items.push_back(item);
        up(items.size() - 1);
    }

    void remove(item *item) {
        std::size_t place = item->place;
        struct item *last = items.back();
        items.pop_back();
        if (last != item) {
            put(place, last);
            up(place);
            down(last->place);
        }
    }

    void moved(item *item) {
        up(item->place);
        down(item->place);
    }

    bool empty() const { return items.empty(); }
    item *first() const { return items.front(); }
};

// === A timerfd for each thread, over a heap of its own ===

struct timerfd_side : side {
    timerfd_side() : fd(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC)) { must(fd >= 0, "timerfd"); }
    ~timerfd_side() override { close(fd); }

    void reserve(long n) override { items.resize(std::size_t(n), item{0, 0, &counted}); }

    void arm() {
        std::uint64_t due = heap.empty() ? 0 : heap.first()->due_ns;
        if (due != armed_ns) {
            armed_ns = due;
            itimerspec time = {};
            time.it_value = {time_t(due / 1'000'000'000), long(due % 1'000'000'000)};
            must(timerfd_settime(fd, TFD_TIMER_ABSTIME, &time, nullptr) == 0, "timerfd_settime");
        }
    }

    void start(long timer, std::uint64_t delay_ns) override {
        item &item = items[std::size_t(timer)];
        item.due_ns = now_ns() + delay_ns;
        heap.push(&item);
        arm();
    }

    void cancel(long timer) override {
        heap.remove(&items[std::size_t(timer)]);
        arm();
    }

    void reset(long timer, std::uint64_t delay_ns) override {
        item &item = items[std::size_t(timer)];
        item.due_ns = now_ns() + delay_ns;
        heap.moved(&item);
        arm();
    }

    void wait(long fired) override {
        while (counted.fired.load(std::memory_order_relaxed) < fired) {
            std::uint64_t expirations;
            must(read(fd, &expirations, sizeof expirations) == sizeof expirations, "read");
            for (std::uint64_t now = now_ns(); !heap.empty() && heap.first()->due_ns <= now;) {
                item *due = heap.first();
                heap.remove(due);
                count(due->counted);
            }
            arm();
        }
    }

    int fd;
    std::uint64_t armed_ns = 0;
    binary_heap heap;
    std::vector<item> items;
    tally counted;
};

struct timerfd_contender : contender {
    std::unique_ptr<side> make_side() override { return std::make_unique<timerfd_side>(); }
};

// === A mutex and a heap, with a thread that sleeps until the first is due ===

struct shared_heap {
    std::mutex mutex;
    std::condition_variable earlier;
    binary_heap heap;
    bool is_over = false;
};

struct heap_side : side {
    explicit heap_side(shared_heap &shared) : shared(shared) {}

    void reserve(long n) override { items.resize(std::size_t(n), item{0, 0, &counted}); }

    void start(long timer, std::uint64_t delay_ns) override {
        item &item = items[std::size_t(timer)];
        item.due_ns = now_ns() + delay_ns;
        bool is_first;
        {
            std::lock_guard<std::mutex> lock(shared.mutex);
            shared.heap.push(&item);
            is_first = shared.heap.first() == &item;
        }
        if (is_first) {
            shared.earlier.notify_one();
        }
    }

    void cancel(long timer) override {
        std::lock_guard<std::mutex> lock(shared.mutex);
        shared.heap.remove(&items[std::size_t(timer)]);
    }

    void reset(long timer, std::uint64_t delay_ns) override {
        std::uint64_t due_ns = now_ns() + delay_ns;
        std::lock_guard<std::mutex> lock(shared.mutex);
        item &item = items[std::size_t(timer)];
        item.due_ns = due_ns;
        shared.heap.moved(&item);
    }

    void wait(long fired) override { wait_for(counted, fired); }

    shared_heap &shared;
    std::vector<item> items;
    tally counted;
};

struct heap_contender : contender {
    heap_contender() : reaper([this] { reap(); }) {}

    ~heap_contender() override {
        {
            std::lock_guard<std::mutex> lock(shared.mutex);
            shared.is_over = true;
        }
        shared.earlier.notify_one();
        reaper.join();
    }

    void reap() {
        std::unique_lock<std::mutex> lock(shared.mutex);
        while (!shared.is_over) {
            if (shared.heap.empty()) {
                shared.earlier.wait(lock);
                continue;
            }
            item *first = shared.heap.first();
            std::uint64_t now = now_ns();
            if (first->due_ns > now) {
                shared.earlier.wait_for(lock, std::chrono::nanoseconds(first->due_ns - now));
                continue;
            }
            shared.heap.remove(first);
            lock.unlock();
            count(first->counted);
            lock.lock();
        }
    }

    std::unique_ptr<side> make_side() override { return std::make_unique<heap_side>(shared); }

    shared_heap shared;
    std::thread reaper;
};

} // namespace

std::unique_ptr<contender> make_tickless() { return std::make_unique<tickless_contender>(); }
std::unique_ptr<contender> make_libuv() { return std::make_unique<libuv_contender>(); }
std::unique_ptr<contender> make_libevent() { return std::make_unique<libevent_contender>(); }
std::unique_ptr<contender> make_timerfd() { return std::make_unique<timerfd_contender>(); }
std::unique_ptr<contender> make_heap() { return std::make_unique<heap_contender>(); }
