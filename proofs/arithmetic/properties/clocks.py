"""Clocks that threads carry on by the cycle counter, waits in user space, and heartbeats."""

import z3

from cases import Case
from terms import U64, both, div, either, implies

# The engine's clock as a time without a unit: no system's clock runs for 2^63 ns.
LONG = 2**63


def measured(case):
    """A rate that was learned: over so many cycles, of which each took `slow` ns to `fast` ns."""
    now, cycles = case.int("now_ns", 10**6, 0, LONG), case.int("cycles", 3 * 10**6, F.MEASURE_LEAST, F.MEASURE_MOST)
    rate = F.rate_of(now, cycles)
    case.assume(rate >= F.RATE_LEAST, rate <= F.RATE_MOST)
    return now, cycles, rate


@holds("never behind", "a thread clock never shows less than the system's clock, which is slewed by up to 10.05 % one way while its rate is measured and the other way later", "learn shown")
def _():
    case = Case()
    now, cycles, rate = measured(case)
    # Nanoseconds per cycle while it was measured, at least; and the time that passed, of which the clock shows whole ns.
    slow, time = case.real("slow", z3.Q(1, 4)), case.real("time", 10**6)
    case.assume(time >= slow * cycles, time >= now, time < now + 1)
    # The same later: the thread clock is set when the clock shows `set_ns`, and read so many cycles later.
    fast, later = case.real("fast", z3.Q(1, 4)), case.real("later", 1)
    set_ns, passed = case.int("set_ns", 10**6, 0, LONG), case.int("passed", 4)
    at_setting = case.real("at_setting", 10**6)
    case.assume(fast * F.SLEW_LEAST <= slow * F.SLEW_MOST, later <= fast * passed)
    case.assume(at_setting >= set_ns, at_setting < set_ns + 1)
    case.lemma(slow * 2**F.RATE_BITS < rate + 1)
    raised = F.raised(rate)
    case.lemma(fast * 2**F.RATE_BITS <= raised)
    case.lemma(later * 2**F.RATE_BITS <= passed * raised)
    # Less than the next whole ns: the clock shows no more than that.
    case.prove(at_setting + later < F.carried(set_ns, raised, passed) + 1)


def ahead(title, ratio, parts):
    """A thread clock is ahead by so many eighths of what a setting lasts, at most, and 8 ns."""
    case = Case(title)
    now, cycles, rate = measured(case)
    fast, time = case.real("fast", z3.Q(1, 3)), case.real("time", 10**6)
    # The clock was started up to a reading before its cycles were read, and is read up to one after them.
    case.assume(time <= fast * (cycles + 2 * F.READ_CYCLES), time >= now, time < now + 1)
    slow, later = case.real("slow", z3.Q(1, 3)), case.real("later", 1)
    passed = case.int("passed", 3)
    case.assume(slow * ratio[1] >= fast * ratio[0], later >= slow * passed)
    whole = F.MEASURE_LEAST
    case.lemma(rate * whole <= (fast * (whole + 2 * F.READ_CYCLES) + 1) * 2**F.RATE_BITS)
    raised = F.raised(rate)
    case.assume(passed < F.lasts_of(raised))
    case.lemma(passed * raised <= F.LASTS_NS * 2**F.RATE_BITS)
    # What the clock is ahead by, for each cycle, is at most such a part of the rate.
    gain = raised - slow * 2**F.RATE_BITS
    case.lemma(gain * 8 <= raised * (parts + z3.Q(1, 1000)))
    case.lemma(passed * gain * 8 <= passed * raised * (parts + z3.Q(1, 1000)))
    case.prove(F.carried(0, raised, passed) - later <= z3.Q(parts * F.LASTS_NS, 8) + 8)


@holds("not far ahead", "a thread clock is ahead by a quarter of what a setting lasts, or by three eighths if the system slews its clock", "learn shown")
def _():
    ahead("steady", (1, 1), 2)
    ahead("slewed", (F.SLEW_LEAST, F.SLEW_MOST), 3)


@holds("a setting's numbers fit", "while a setting lasts, the product of cycles and rate and the time that is shown fit 64 bits, and no more is added than a setting lasts", "shown learn")
def _():
    case = Case()
    raised, set_ns = case.int("rate", 2**31, 1, 2 * F.RATE_MOST), case.int("set_ns", 10**9, 0, LONG)
    passed = case.int("passed", 9)
    lasts = F.lasts_of(raised)
    case.assume(passed < lasts)
    case.lemma(passed * raised <= F.LASTS_NS * 2**F.RATE_BITS)
    shown = F.shown(set_ns, raised, lasts, passed)
    case.prove(shown > set_ns, shown <= set_ns + F.LASTS_NS + 1)
    case = Case("learned")
    now, cycles = case.int("now_ns", 10**9, 0, LONG), case.int("cycles", 10**9)
    takes = case.int("takes", 60)
    rate, lasts = F.learn(now, cycles, takes)
    case.prove(rate >= 0, rate <= 2 * F.RATE_MOST, lasts >= 0, either(rate == 0, lasts >= 1))


@holds("a slow clock is noticed", "a setting finds a thread clock that shows less than the clock, also after any number of cycles", "went_slow")
def _():
    case = Case()
    set_ns, rate = case.int("set_ns", 10**9, 0, LONG), case.int("rate", 2**31, 1, 2 * F.RATE_MOST)
    # Any count before that of the setting: what was shown then is behind what the clock shows.
    earlier, passed, later = case.int("earlier", 5), case.int("passed", 9), case.int("later_ns", 2 * 10**9, 0, LONG)
    case.assume(earlier <= passed)
    case.lemma(earlier * rate <= passed * rate)
    noticed = F.went_slow(set_ns, rate, passed, later)
    case.prove(implies(noticed == 0, later < F.carried(set_ns, rate, passed) + 1), either(noticed == 0, noticed == 1),
               implies(noticed == 1, later > F.carried(set_ns, rate, earlier)))


@holds("a wait has credit", "a reaper waits in user space no longer than its margin and with credit for all of it, and never plans beyond the time", "plans")
def _():
    case = Case()
    share, credit = case.int("share", 2**14, 0, F.WHOLE), case.int("credit_ns", 10**6)
    margin = case.int("margin_ns", 10**5)
    earned, now, due = case.int("earned_ns", 0), case.int("now_ns", 10**9), case.int("due_ns", 2 * 10**9)
    waits, until, then = F.plan(margin, share, credit, earned, now, due)
    # How long it is to be awake before the time: now, or when it has slept.
    begins = z3.If(waits == 1, now, until)
    awake = z3.If(due > begins, due - begins, 0)
    asleep = z3.If(waits == 1, 0, z3.If(until > now, until - now, 0))
    case.prove(until <= due, implies(both(waits == 0, now <= due), until >= now), awake <= margin,
               awake <= F.credit_after(then, asleep, share), then <= F.part(F.WINDOW_NS, share))


@holds("credit is a share", "what is earned in two stretches is not more than in both together, and not more than they last", "plans")
def _():
    case = Case()
    share = case.int("share", 2**14, 0, F.WHOLE)
    one, other = case.int("one_ns", 10**9, 0, LONG - 1), case.int("other_ns", 10**6, 0, LONG)
    for ns in (one, other, one + other):
        case.lemma(ns * share <= ns * F.WHOLE)
    case.prove(F.part(one, share) + F.part(other, share) <= F.part(one + other, share), F.part(one, share) <= one)


@holds("a heartbeat is not early", "the beats fall silent only if the timeout has passed since the last one in time, and a timer that is told to wait waits for just that", "expire")
def _():
    case = Case()
    first, beat = case.int("first_ns", 5), case.int("beat_ns", 9)
    now, timeout = case.int("now_ns", 12), case.int("timeout_ns", 10, 1)
    until = F.expire(first, beat, now, timeout)
    last = z3.If(first > beat, first, beat)
    is_end = last >= F.LATE
    is_late = F.is_late(first, beat, timeout)
    case.prove(either(is_end, now == U64, is_late, (until == F.NONE) == (now >= last + timeout)),
               either(is_end, is_late == (beat >= first + timeout)),
               implies(is_late, until == F.NONE),
               either(until == F.NONE, is_end, until == U64, until == last + timeout),
               # No time of a beat is taken for an end.
               F.clamped(beat) < F.LATE)
