/// tickless for asio: waits that end in handlers, futures and coroutines of asio's, on executors of
/// asio's. Header only, over tickless.hpp and asio (the one without Boost, 1.22 or later).
///
///     co_await tickless::async_sleep(executor, engine, 5s, asio::use_awaitable);
///
///     tickless::asio_timer idle(executor, engine); // As asio::steady_timer.
///     idle.expires_after(30s);
///     idle.async_wait([&](asio::error_code code) { if (!code) { connection.close(); } });
///
/// An io_context has timers of its own, in one heap under one lock. This is for programs whose threads
/// start and cancel many: a wait takes a lock twice, one of sixteen, for a few instructions. (It has a
/// lock of its own as well, which only the end of its context takes besides.)
#ifndef TICKLESS_ASIO_HPP
#define TICKLESS_ASIO_HPP

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <asio/any_io_executor.hpp>
#include <asio/associated_cancellation_slot.hpp>
#include <asio/associated_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/error.hpp>
#include <asio/execution_context.hpp>
#include <asio/post.hpp>
#include <asio/prefer.hpp>
#include <asio/query.hpp>

#include "tickless.hpp"

namespace tickless {

/// Not for the caller.
namespace asio_detail {

/// A wait that is under way, as the context of its executor knows it.
class pending : public std::enable_shared_from_this<pending> {
public:
    virtual ~pending() = default;

    /// The context ends. Returns when nobody passes anything to it any more.
    virtual void abandon() noexcept = 0;

    /// Ends the wait, whose handler gets asio::error::operation_aborted. Returns whether it was in time.
    virtual bool cancel() noexcept = 0;

private:
    friend class waits;
    pending *next_ = nullptr;
    /// What points to it; null: it is in no list.
    pending **place_ = nullptr;
};

/// The waits of a context, which does not outlive them otherwise: a context that is destroyed destroys
/// their handlers unrun, as with asio's own timers. In several lists, so that threads seldom meet. The
/// locks are those of all contexts: a wait may end when its context has gone.
class waits : public asio::execution_context::service {
public:
    using key_type = waits;
    static inline asio::execution_context::id id;

    explicit waits(asio::execution_context &context) : service(context) {}

    void enter(pending &wait) {
        const std::size_t part = part_of(wait);
        std::lock_guard<std::mutex> lock(locks_[part].mutex);
        wait.next_ = first_[part];
        wait.place_ = &first_[part];
        if (wait.next_ != nullptr) {
            wait.next_->place_ = &wait.next_;
        }
        first_[part] = &wait;
    }

    /// For a wait that has ended, unless it was abandoned: the context may be gone then.
    static void leave(pending &wait) {
        std::lock_guard<std::mutex> lock(locks_[part_of(wait)].mutex);
        if (wait.place_ != nullptr) {
            unlink(wait);
        }
    }

private:
    static constexpr std::size_t PARTS = 16;

    struct alignas(64) padded {
        std::mutex mutex;
    };

    void shutdown() override {
        for (std::size_t part = 0; part < PARTS; part++) {
            while (auto wait = take_first(part)) {
                wait->abandon();
            }
        }
    }

    std::shared_ptr<pending> take_first(std::size_t part) {
        std::lock_guard<std::mutex> lock(locks_[part].mutex);
        if (first_[part] == nullptr) {
            return nullptr;
        }
        auto wait = first_[part]->shared_from_this();
        unlink(*wait);
        return wait;
    }

    static void unlink(pending &wait) {
        *wait.place_ = wait.next_;
        if (wait.next_ != nullptr) {
            wait.next_->place_ = wait.place_;
        }
        wait.place_ = nullptr;
    }

    static std::size_t part_of(const pending &wait) {
        return reinterpret_cast<std::uintptr_t>(&wait) / 64 % PARTS;
    }

    static inline padded locks_[PARTS];
    pending *first_[PARTS] = {};
};

/// The wait of a handler. The timer's callback and the handler's cancellation share it.
template <class Handler>
class wait : public pending {
public:
    wait(const asio::any_io_executor &executor, Handler &&handler)
        : handler_(std::move(handler)),
          executor_(asio::prefer(asio::get_associated_executor(*handler_, executor),
                                 asio::execution::outstanding_work.tracked)),
          context_(context_of(*executor_, executor)) {}

    void start(engine &engine, const when &when) {
        auto self = this->shared_from_this();
        auto slot = asio::get_associated_cancellation_slot(*handler_);
        if (slot.is_connected()) {
            // What is cancelled is destroyed, which ends the wait.
            slot.assign([this, self](asio::cancellation_type) { timer_.cancel(); });
        }
        asio::use_service<waits>(context_).enter(*this);
#ifdef __cpp_exceptions
        try {
            engine.schedule_into(timer_, when, due{*this});
        } catch (const error &) {
            // The engine has stopped or is full: what was refused was destroyed.
        }
#else
        engine.schedule_into(timer_, when, due{*this});
#endif
    }

private:
    /// The callback: it ends the wait, run or destroyed.
    class due {
    public:
        explicit due(wait &waiting) : keep_(waiting.shared_from_this()), waiting_(&waiting) {}
        due(due &&) noexcept = default;
        ~due() { end(asio::error::operation_aborted); }

        void operator()() { end({}); }

    private:
        void end(asio::error_code code) {
            if (auto keep = std::move(keep_)) {
                waiting_->end(code);
            }
        }

        std::shared_ptr<pending> keep_;
        wait *waiting_;
    };

    /// The handler runs where its executor says, and never in a thread of the engine's.
    void end(asio::error_code code) {
        {
            // The context does not end before the handler was posted.
            std::lock_guard<std::mutex> lock(mutex_);
            if (!handler_) {
                return;
            }
            auto executor = std::move(*executor_);
            executor_.reset();
            asio::post(executor, [this, self = this->shared_from_this(), handler = std::move(*handler_),
                                  code]() mutable {
                auto slot = asio::get_associated_cancellation_slot(handler);
                if (slot.is_connected()) {
                    slot.clear();
                }
                timer_.detach();
                // What the wait holds is released before the handler begins another one.
                self.reset();
                std::move(handler)(code);
            });
            handler_.reset();
        }
        waits::leave(*this);
    }

    void abandon() noexcept override {
        std::unique_lock<std::mutex> lock(mutex_);
        // They are destroyed without the lock, and after the timer, which has nothing to post then.
        [[maybe_unused]] const auto handler = std::exchange(handler_, std::nullopt);
        [[maybe_unused]] const auto executor = std::exchange(executor_, std::nullopt);
        lock.unlock();
        timer_.cancel();
    }

    bool cancel() noexcept override { return timer_.cancel(); }

    using executor_type = std::decay_t<decltype(asio::prefer(
        asio::get_associated_executor(std::declval<Handler &>(),
                                      std::declval<const asio::any_io_executor &>()),
        asio::execution::outstanding_work.tracked))>;

    static asio::execution_context &context_of(const executor_type &executor,
                                               const asio::any_io_executor &otherwise) {
        if constexpr (asio::can_query_v<executor_type, asio::execution::context_t>) {
            return asio::query(executor, asio::execution::context);
        } else {
            return asio::query(otherwise, asio::execution::context);
        }
    }

    /// Held while the handler is posted or abandoned.
    std::mutex mutex_;
    /// Nothing once the wait has ended.
    std::optional<Handler> handler_;
    std::optional<executor_type> executor_;
    asio::execution_context &context_;
    timer timer_;
};

} // namespace asio_detail

/// Waits until `when`, and then completes `token`, a handler for an asio::error_code, on its executor,
/// or on `executor` if it has none. While it waits, it counts as work of that executor. The code is
/// asio::error::operation_aborted if the token's cancellation slot ended the wait, or if the engine
/// stopped or could not take the timer. The engine must be there until async_sleep has returned; if it
/// ends before the wait, that ends the wait. If the executor's context ends before, the handler is
/// destroyed unrun.
///
/// As with all of asio's, a cancellation comes from where the handler runs: its thread, or its strand.
template <class Token>
auto async_sleep(const asio::any_io_executor &executor, engine &engine, const when &when,
                 Token &&token) {
    return asio::async_initiate<Token, void(asio::error_code)>(
        [executor, &engine, when](auto handler) {
            using waiting = asio_detail::wait<decltype(handler)>;
            std::make_shared<waiting>(executor, std::move(handler))->start(engine, when);
        },
        token);
}

/// A timer as asio::steady_timer is one, on an engine. It has one expiry, for which any number of
/// waits wait. An expiry that is set, a cancel and the destructor end them: their handlers get
/// asio::error::operation_aborted. One thread may use it at a time, its handlers' thread or strand. The
/// engine must be there until the last async_wait has returned.
class asio_timer {
public:
    using executor_type = asio::any_io_executor;
    using clock_type = std::chrono::steady_clock;
    using time_point = clock_type::time_point;
    using duration = clock_type::duration;

    asio_timer(executor_type executor, engine &engine) noexcept
        : executor_(std::move(executor)), engine_(&engine) {}
    asio_timer(asio_timer &&) noexcept = default;
    asio_timer &operator=(asio_timer &&other) noexcept {
        if (this != &other) {
            cancel();
            executor_ = std::move(other.executor_);
            engine_ = other.engine_;
            expiry_ = other.expiry_;
            waits_ = std::move(other.waits_);
        }
        return *this;
    }
    ~asio_timer() { cancel(); }

    executor_type get_executor() const noexcept { return executor_; }

    time_point expiry() const noexcept { return expiry_; }

    /// Sets the expiry, and returns how many waits that has ended.
    std::size_t expires_at(time_point time) noexcept {
        const std::size_t ended = cancel();
        expiry_ = time;
        return ended;
    }

    /// As expires_at, that long after now.
    template <class Rep, class Period>
    std::size_t expires_after(std::chrono::duration<Rep, Period> delay) noexcept {
        const time_point now = clock_type::now();
        const std::uint64_t ns = to_ns(delay);
        if (ns >= to_ns(time_point::max() - now)) {
            return expires_at(time_point::max());
        }
        return expires_at(now + std::chrono::nanoseconds(static_cast<std::int64_t>(ns)));
    }

    /// Ends the waits, and returns how many.
    std::size_t cancel() noexcept {
        std::size_t ended = 0;
        for (auto &waiting : std::exchange(waits_, {})) {
            const auto wait = waiting.lock();
            ended += wait != nullptr && wait->cancel();
        }
        return ended;
    }

    /// Completes `token` at the expiry, as async_sleep does.
    template <class Token> auto async_wait(Token &&token) {
        return asio::async_initiate<Token, void(asio::error_code)>(
            [this](auto handler) {
                auto wait = std::make_shared<asio_detail::wait<decltype(handler)>>(executor_,
                                                                                   std::move(handler));
                const auto is_over = [](const auto &other) { return other.expired(); };
                waits_.erase(std::remove_if(waits_.begin(), waits_.end(), is_over), waits_.end());
                waits_.push_back(wait);
                wait->start(*engine_, expiry_);
            },
            token);
    }

private:
    executor_type executor_;
    engine *engine_;
    time_point expiry_{};
    std::vector<std::weak_ptr<asio_detail::pending>> waits_;
};

} // namespace tickless

#endif
