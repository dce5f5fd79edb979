/// tickless for asio: waits that end in handlers, futures and coroutines of asio's, on executors of
/// asio's. Header only, over tickless.hpp and asio (the one without Boost, 1.22 or later).
///
///     co_await tickless::async_sleep(executor, engine, 5s, asio::use_awaitable);
///
/// An io_context has timers of its own, in one heap under one lock. This is for programs whose threads
/// start and cancel many.
#ifndef TICKLESS_ASIO_HPP
#define TICKLESS_ASIO_HPP

#include <asio/any_io_executor.hpp>
#include <asio/associated_cancellation_slot.hpp>
#include <asio/associated_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/error.hpp>
#include <asio/prefer.hpp>
#include <asio/post.hpp>

#include "tickless.hpp"

namespace tickless {

/// Not for the caller.
namespace asio_detail {

/// A wait that is under way. The timer's callback and the handler's cancellation share it.
template <class Handler>
class wait : public std::enable_shared_from_this<wait<Handler>> {
public:
    wait(const asio::any_io_executor &executor, Handler &&handler)
        : handler_(std::move(handler)),
          executor_(asio::prefer(asio::get_associated_executor(handler_, executor),
                                 asio::execution::outstanding_work.tracked)) {}

    void start(engine &engine, const when &when) {
        auto self = this->shared_from_this();
        auto slot = asio::get_associated_cancellation_slot(handler_);
        if (slot.is_connected()) {
            // What is cancelled is destroyed, which ends the wait.
            slot.assign([self](asio::cancellation_type) { self->timer_.cancel(); });
        }
#ifdef __cpp_exceptions
        try {
            engine.schedule_into(timer_, when, due{self});
        } catch (const error &) {
            // The engine has stopped or is full: what was refused was destroyed.
        }
#else
        engine.schedule_into(timer_, when, due{self});
#endif
    }

private:
    /// The callback: it ends the wait, run or destroyed.
    class due {
    public:
        explicit due(std::shared_ptr<wait> waiting) noexcept : waiting_(std::move(waiting)) {}
        due(due &&) noexcept = default;
        ~due() { end(asio::error::operation_aborted); }

        void operator()() { end({}); }

    private:
        void end(asio::error_code code) {
            if (auto waiting = std::move(waiting_)) {
                waiting->end(code);
            }
        }

        std::shared_ptr<wait> waiting_;
    };

    /// Once. The handler runs where its executor says, and never in a thread of the engine's.
    void end(asio::error_code code) {
        auto executor = executor_;
        asio::post(executor, [self = this->shared_from_this(), code]() mutable {
            auto slot = asio::get_associated_cancellation_slot(self->handler_);
            if (slot.is_connected()) {
                slot.clear();
            }
            self->timer_.detach();
            auto handler = std::move(self->handler_);
            // What it holds is released before the handler begins another wait.
            self.reset();
            std::move(handler)(code);
        });
    }

    using executor_type = std::decay_t<decltype(asio::prefer(
        asio::get_associated_executor(std::declval<Handler &>(),
                                      std::declval<const asio::any_io_executor &>()),
        asio::execution::outstanding_work.tracked))>;

    Handler handler_;
    executor_type executor_;
    timer timer_;
};

} // namespace asio_detail

/// Waits until `when`, and then completes `token`, a handler for an asio::error_code, on its executor,
/// or on `executor` if it has none. While it waits, it counts as work of that executor. The code is
/// asio::error::operation_aborted if the token's cancellation slot ended the wait, or if the engine
/// stopped or could not take the timer. The engine must be there until then or until it has stopped.
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

} // namespace tickless

#endif
