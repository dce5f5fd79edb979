"""Slack: the tick that is picked lies in the window, and no wider bucket opens there."""

import z3

from cases import Case
from terms import U64, both, div, either, implies, ite


@holds("slack's window", "a timer with a slack is never early, and fires within the slack if a tick begins in it, else less than a tick late", "slack floor ceil start_ns")
def _():
    case = Case()
    tick_ns = case.int("tick_ns", 1_000_000, 1)
    deadline, slack_ns = case.int("deadline_ns", 10**9 + 1), case.int("slack_ns", 10**8)
    # As in the properties of rounding.
    scale = lambda tick_ns: (0, 0, ite(tick_ns == 1, lambda: 0, lambda: F.limit_of(tick_ns)))
    quotient = lambda ns, tick_ns, reciprocal, shift: div(ns, tick_ns)
    first, last = F.window(tick_ns, deadline, slack_ns, scale, quotient)
    picked = case.int("picked", 1_001, 0, F.NEVER)
    # What the next two properties say about it.
    has_window = both(first < last, first != F.NEVER)
    case.assume(ite(has_window, lambda: both(first <= picked, picked <= last), lambda: picked == first))
    due_ns = picked * tick_ns
    is_far = both(picked == F.NEVER, either(deadline == U64, deadline > F.LAST * tick_ns))
    late = ite(first <= last, lambda: due_ns <= deadline + slack_ns, lambda: due_ns < deadline + tick_ns)
    case.prove(either(is_far, both(due_ns >= deadline, late)))


@holds("a bucket opens in a window", "the numbers that are computed are those of the buckets of a width that open in a window, and nothing overflows", "best_within")
def _():
    case = Case()
    first, last = case.int("first", 1_000, 0, F.LAST), case.int("last", 1_100, 0, F.NEVER)
    width, number = case.int("width", 32, 1, F.NEVER), case.int("number", 32, 0, F.NEVER)
    case.assume(first < last)
    lowest, highest = F.opens_in(first, last, width)
    is_one = both(lowest <= number, number <= highest)
    case.lemma(is_one == both(first <= number * width, number * width <= last))
    case.assume(is_one)
    at = F.at_number(number, width)
    case.prove(at == number * width, first <= at, at <= last)


@holds("the roundest number", "of the numbers from the lowest to the highest, the one that is picked ends in the most zeros", "best_within")
def _():
    for bit in range(F.TICK_BITS):
        case = Case(f"bit {bit}")
        lowest, highest, other = case.bits("lowest", 1), case.bits("highest", 2**bit), case.bits("other", 2**bit)
        differ = (lowest - 1) ^ highest
        case.assume(z3.ULE(lowest, highest), lowest != 0, z3.ULE(lowest, other), z3.ULE(other, highest))
        case.assume(z3.LShR(differ, bit) == 1)
        picked = F.roundest(lowest, highest, bit)
        zeros = lambda number: number & -number
        case.prove(z3.ULE(lowest, picked), z3.ULE(picked, highest), z3.ULE(zeros(other), zeros(picked)))
