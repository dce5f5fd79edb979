"""Rounding: from nanoseconds to ticks and back, and to other units."""

from cases import Case
from terms import U64, both, div, either, implies, ite, mod

SHIFTS = range(64)


def tick_of(case, shift):
    """Every width of a tick that has the shift."""
    return case.int("tick_ns", 2**shift + 1, 2**shift + 1, min(2 ** (shift + 1), U64))


def exact(F):
    """The scale's formulas with a division in place of the reciprocal, which is proved to be the same."""
    return {
        # A tick of 1 ns has no reciprocal.
        "scale": lambda tick_ns: (0, 0, ite(tick_ns == 1, lambda: 0, lambda: F.limit_of(tick_ns))),
        "quotient": lambda ns, tick_ns, reciprocal, shift: div(ns, tick_ns),
    }


def any_tick(case):
    """Every width of a tick."""
    return case.int("tick_ns", 1_000_000, 1)


@holds(
    "reciprocal",
    "below the limit of its use, multiplying by the reciprocal is dividing, also for a deadline that is rounded up; "
    "the reciprocal fits 64 bits, the product 128",
    "scale floor ceil",
)
def _():
    case = Case("below the limit")
    tick_ns, ns = case.int("tick_ns", 1_000_000, 2), case.int("ns", 10**18)
    case.assume(ns < F.limit_of(tick_ns))
    case.prove(ns + (tick_ns - 1) < 2**63)
    for shift in SHIFTS:
        case = Case(f"shift {shift}")
        tick_ns, at = tick_of(case, shift), case.int("at", 10**18, 0, 2**63 - 1)
        reciprocal, _, _ = F.scale(tick_ns, shift)
        # The reciprocal is too large by less than 2 * tick / 2^64 of a quotient.
        excess = reciprocal * tick_ns - 2 ** (64 + shift)
        case.lemma(both(excess >= 1, excess <= tick_ns))
        case.prove(F.quotient(at, tick_ns, reciprocal, shift) == div(at, tick_ns))


@holds("clock rounds down", "the tick that a clock shows has begun, and the next one has not, up to the last", "floor")
def _():
    case = Case()
    tick_ns, ns = any_tick(case), case.int("ns", 10**18)
    shown = F.floor(tick_ns, ns, **exact(F))
    case.prove(
        shown * tick_ns <= ns, either(ns < (shown + 1) * tick_ns, shown == F.LAST), shown >= 0, shown <= F.LAST
    )


@holds(
    "deadline rounds up",
    "the tick of a deadline begins at it or less than a tick later; only a deadline after the last tick is never",
    "ceil",
)
def _():
    case = Case()
    tick_ns, ns = any_tick(case), case.int("ns", 10**18)
    due = F.ceil(tick_ns, ns, **exact(F))
    late = due * tick_ns - ns
    fits = both(due <= F.LAST, late >= 0, late < tick_ns)
    is_far = either(ns == U64, ns > F.LAST * tick_ns)
    case.prove(either(fits, both(due == F.NEVER, is_far)))


@holds(
    "never early, and in time",
    "the clock's tick reaches a deadline's only if the clock has reached the deadline, and does a tick later at most",
    "floor ceil",
)
def _():
    case = Case()
    tick_ns, deadline, now = any_tick(case), case.int("deadline_ns", 10**9), case.int("now_ns", 10**9)
    due, shown = F.ceil(tick_ns, deadline, **exact(F)), F.floor(tick_ns, now, **exact(F))
    early = both(shown >= due, now < deadline)
    late = both(due < F.NEVER, now >= deadline + tick_ns, shown < due)
    case.prove(early == False, late == False)  # noqa: E712 - these are terms


@holds("delay", "a timer that is due a delay after now does not fire before the delay has passed, however long", "ceil_after floor saturating_ns")
def _():
    case = Case()
    tick_ns, start, now = any_tick(case), case.int("start_ns", 10**9), case.int("now_ns", 10**9)
    secs, nanos = case.int("secs", 3), case.int("nanos", 5, 0, 999_999_999)
    due = F.ceil_after(tick_ns, start, secs, nanos, **exact(F))
    case.assume(F.floor(tick_ns, now, **exact(F)) >= due)
    case.examples[2] = now == 10**10
    case.prove(now >= start + secs * 1_000_000_000 + nanos)


@holds("start of a tick", "a tick that is in range starts where the clock shows it first, and is the tick of that time", "start_ns floor ceil")
def _():
    case = Case()
    tick_ns, at = any_tick(case), case.int("at", 7, 0, F.NEVER)
    start = F.start_ns(tick_ns, at)
    case.assume(start >= 0)
    case.lemma(start == at * tick_ns)
    shown, due = F.floor(tick_ns, start, **exact(F)), F.ceil(tick_ns, start, **exact(F))
    is_last = either(start == U64, at == F.NEVER)
    case.prove(shown == at, either(due == at, is_last))


@holds("ticks saturate", "sums and differences of ticks stop at never and at zero", "tick tick_add tick_sub")
def _():
    case = Case()
    count, at, more = case.int("count", 5), case.int("at", 5, 0, F.NEVER), case.int("more", 9)
    total, less = F.tick_add(at, more), F.tick_sub(at, more)
    case.prove(
        F.tick(count) <= F.NEVER, implies(count <= F.LAST, F.tick(count) == count),
        either(total == at + more, both(total == F.NEVER, at + more >= F.NEVER)),
        either(less == at - more, both(less == 0, more >= at)), less <= F.NEVER,
    )


@holds("durations saturate", "a duration in nanoseconds is exact, or the most that there is if it does not fit", "saturating_ns")
def _():
    case = Case()
    secs, nanos = case.int("secs", 3), case.int("nanos", 5, 0, 999_999_999)
    exact_ns, result = secs * 1_000_000_000 + nanos, F.saturating_ns(secs, nanos)
    case.prove(implies(exact_ns <= U64, result == exact_ns), implies(exact_ns > U64, result == U64))


@holds(
    "grid",
    "the next run is a whole number of periods after the last, not before the earliest time, and the first such time; "
    "what is skipped is counted; a time that does not fit is never",
    "next_on_grid",
)
def _():
    case = Case()
    last, period, earliest = case.int("last_ns", 10), case.int("period_ns", 7, 1), case.int("earliest_ns", 40)
    next_ns, missed = F.next_on_grid(last, period, earliest)
    is_first = both(
        next_ns == last + (missed + 1) * period, next_ns >= earliest, next_ns > last,
        either(missed == 0, next_ns - period < earliest),
    )
    case.prove(missed >= 0, either(is_first, next_ns == U64), next_ns <= U64)


@holds("rest of a period", "an interval that skips goes on at a time of its grid, more than nothing and a period ahead at most", "left_of_period")
def _():
    case = Case()
    longest = (2**64 - 1) * 10**9 + 999_999_999
    period, late = case.int("period", 7, 1, longest), case.int("late", 40, 0, longest)
    left = F.left_of_period(period, late)
    case.prove(left > 0, left <= period, (div(late, period) + 1) * period == late + left)


@holds("milliseconds round up", "a sleep in milliseconds is not shorter than in nanoseconds, if it fits at all, and only never is without end", "timeout_ms")
def _():
    case = Case()
    ns = case.int("sleep_ns", 1_000_001)
    ms = F.timeout_ms(ns)
    case.prove((ms == -1) == (ns == U64), either(ms == -1, ms * 1_000_000 >= ns, ms == 2**31 - 1), ms < 2**31,
               either(ms == -1, (ms - 1) * 1_000_000 < ns))
