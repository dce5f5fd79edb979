"""Placement: any slots and reach, and buckets of any width. A level's width is the reach times that of the level below.

What is proved about one level and its neighbour holds for all levels, one after the other.
"""

import z3

from cases import Case
from terms import both, div, either, implies, mod


def shape(case):
    """Every geometry that the engine permits."""
    slots, reach = case.int("slots", 64, 2, F.MAX_SLOTS), case.int("reach", 32, 2, F.MAX_SLOTS)
    case.assume(reach <= slots)
    return slots, reach


def tick(case, name, example):
    return case.int(name, example, 0, F.NEVER)


def levels(case, reach):
    """The widths of a level and of the one above."""
    below, width = case.int("below", 32, 1, F.NEVER), case.int("width", 1024, 1, F.NEVER)
    case.assume(width == below * reach)
    return below, width


@holds("opens in time", "a bucket opens no later than what is in it is due, and that is due within the bucket's span", "place place_on")
def _():
    case = Case()
    deadline, start, width = tick(case, "deadline", 9_999), tick(case, "start", 50), case.int("width", 32, 1, F.NEVER)
    due = F.seen_from(deadline, start)
    opening = F.opening_of(F.bucket_of(due, width), width)
    case.prove(opening <= due, due < opening + width, due >= deadline, due >= start)


@holds("not before the clock", "a bucket opens no earlier than the time from which a timer is filed; above level 1, later", "place shard_place")
def _():
    case = Case("level 1")
    deadline, start = tick(case, "deadline", 9_999), tick(case, "start", 50)
    case.prove(F.opening_of(F.bucket_of(F.seen_from(deadline, start), 1), 1) >= start)
    case = Case("above")
    _, reach = shape(case)
    below, width = levels(case, reach)
    due, start = tick(case, "due", 9_999), tick(case, "start", 50)
    case.assume(due >= start, z3.Not(F.reaches(F.ahead_of(due, start, below), reach)))
    there, here = F.bucket_of(due, below), F.bucket_of(start, below)
    # The bucket above holds so many of the level, and no more.
    above = div(there, reach)
    case.lemma(above * reach >= here + 1)
    case.lemma((above * reach) * below >= (here + 1) * below)
    case.divides(due, width, above, mod(there, reach) * below + mod(due, below))
    case.prove(F.opening_of(F.bucket_of(due, width), width) > start)
    case = Case("from the later of a clock and the shard's")
    now, clock = tick(case, "now", 5), tick(case, "clock", 9)
    case.prove(F.seen(now, clock) >= now, F.seen(now, clock) >= clock)


@holds("search begins low enough", "the level at which the search begins is not above the lowest one that reaches so far", "place")
def _():
    case = Case("a distance from 1 to 2")
    width = case.int("width", 1, 1, F.NEVER)
    case.assume(F.is_floor(width, 1))
    case.prove(width == 1)
    case = Case("from a higher power of two to twice that")
    _, reach = shape(case)
    below, width = levels(case, reach)
    half = case.int("half", 512, 1, F.NEVER)
    due, start = tick(case, "due", 1_500), tick(case, "start", 0)
    odd = due - start + 1 - mod(due - start, 2)
    case.assume(due >= start, odd >= 2 * half, odd < 4 * half, F.is_floor(width, 2 * half))
    case.lemma(due - start >= width)
    there, here = F.bucket_of(due, below), F.bucket_of(start, below)
    case.lemma((there - here + 1) * below > reach * below)
    case.multiples(there - here + 1 - reach, below)
    case.prove(z3.Not(F.reaches(F.ahead_of(due, start, below), reach)))


@holds("cascades descend", "filed again from its bucket's start, a timer in the bucket's span goes down at least a level", "place wheel")
def _():
    case = Case()
    _, reach = shape(case)
    below, width = levels(case, reach)
    bucket, deadline = case.int("bucket", 3, 0, F.NEVER), tick(case, "deadline", 3_100)
    opening = bucket * width
    case.assume(opening <= deadline, deadline < opening + width)
    case.prove(F.reaches(F.ahead_of(deadline, opening, below), reach))


@holds("the top level reaches", "the top level reaches every tick from every other, so every timer has a place", "place geometry")
def _():
    case = Case()
    _, reach = shape(case)
    width = case.int("width", 2**50, 1, F.NEVER)
    case.assume(F.step_width(width, reach) > F.NEVER)
    deadline, start = tick(case, "deadline", 9), tick(case, "start", 5)
    case.assume(start <= deadline)
    case.prove(F.reaches(F.ahead_of(deadline, start, width), reach))


@holds("levels are bounded", "each level is at least twice as wide as the one below and its width is exact: there are no more levels than the tables have room for", "geometry")
def _():
    case = Case()
    _, reach = shape(case)
    width = case.int("width", 1, 1, F.NEVER)
    case.lemma(width * reach >= 2 * width)
    wider = F.step_width(width, reach)
    is_exact = both(wider == width * reach, wider >= 2 * width)
    # Level 1 is a tick wide; so many doublings are beyond never.
    case.prove(either(wider > F.NEVER, is_exact), z3.BoolVal(2**F.MAX_LEVELS > F.NEVER))


@holds("slot in range", "a slot is one of the ring's; buckets less than a ring apart have different slots", "place place_on bucket")
def _():
    case = Case()
    slots, _ = shape(case)
    one, other = case.int("one", 3, 0, F.NEVER), case.int("other", 66, 0, F.NEVER)
    slot = F.slot_of(one, slots)
    case.multiples(div(other, slots) - div(one, slots), slots)
    differ = implies(both(one < other, other < one + slots), slot != F.slot_of(other, slots))
    case.prove(slot >= 0, slot < slots, differ)


@holds("rounds do not collide", "two parties that file from times up to slots - reach buckets apart mean one bucket by one slot", "place shard_place")
def _():
    case = Case()
    slots, reach = shape(case)
    here, there = case.int("here", 100, 0, F.NEVER), case.int("there", 132, 0, F.NEVER)
    one, other = case.int("one", 131, 0, F.NEVER), case.int("other", 163, 0, F.NEVER)
    case.assume(here <= there, there <= here + slots - reach)
    case.assume(here <= one, F.reaches(one - here, reach), there <= other, F.reaches(other - there, reach))
    case.multiples(div(other, slots) - div(one, slots), slots)
    case.prove(implies(one != other, F.slot_of(one, slots) != F.slot_of(other, slots)))


@holds("few timers", "the bucket of level 1 for a far deadline opens exactly at it", "shard_place")
def _():
    case = Case()
    deadline = tick(case, "deadline", 70_000)
    case.prove(F.opening_of(F.bucket_of(deadline, 1), 1) == deadline)


@holds("a ring from the present on", "a bucket that lies less than a ring ahead is found from its slot: it opens when it was filed for", "wheel")
def _():
    case = Case()
    slots, _ = shape(case)
    width, at = case.int("width", 32, 1, F.NEVER), tick(case, "at", 1_000)
    bucket = case.int("bucket", 90, 0, F.NEVER)
    here = F.bucket_of(at, width)
    case.assume(bucket >= here, bucket < here + slots, bucket * width <= F.NEVER)
    here_slot, slot = F.slot_of(here, slots), F.slot_of(bucket, slots)
    rounds = div(bucket, slots) - div(here, slots)
    case.multiples(rounds, slots)
    case.multiples(rounds - 1, slots)
    case.lemma(F.buckets_to(slot, here_slot, slots) == bucket - here)
    case.prove(F.opens_next(at, slot, slots, width) == bucket * width)


@holds("hashed rounds", "of the ticks of a round, only its own goes through a timer's slot; a timer has as many rounds left as there are such ticks before it fires", "hashed")
def _():
    case = Case("one round")
    slots, _ = shape(case)
    next_, one, other = tick(case, "next", 10), tick(case, "one", 12), tick(case, "other", 12)
    case.assume(next_ <= one, one < next_ + slots, next_ <= other, other < next_ + slots)
    case.multiples(div(other, slots) - div(one, slots), slots)
    case.prove(implies(F.slot_of(one, slots) == F.slot_of(other, slots), one == other))
    case = Case("rounds")
    slots, _ = shape(case)
    next_, deadline, back = tick(case, "next", 10), tick(case, "deadline", 1_000), case.int("back", 2)
    case.assume(deadline >= next_, deadline < F.NEVER)
    rounds = F.hashed_rounds(slots, next_, deadline)
    case.multiples(div(F.sat_sub(deadline, next_), slots) - back, slots)
    is_visited = deadline - back * slots >= next_
    case.prove(rounds >= 0, is_visited == (back <= rounds))


@holds("table of buckets", "the segment that is found for a level and slot is in the table, and its bucket is that of the level and slot", "bucket")
def _():
    case = Case()
    slots, _ = shape(case)
    count, level = case.int("levels", 11, 1, F.MAX_LEVELS), case.int("level", 3, 1, F.MAX_LEVELS)
    slot = case.int("slot", 63, 0, F.MAX_SLOTS)
    case.assume(slot < slots, level <= count)
    per_level = F.div_ceil(slots, F.SEGMENT)
    found_level, found_slot = F.bucket(slots, level, slot)
    segment = F.segment_of(slots, level, slot)
    case.prove(found_level == level, found_slot == slot, segment >= 0, segment < per_level * count)
