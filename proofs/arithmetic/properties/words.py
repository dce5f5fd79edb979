"""Words that have several fields, and numbers that decide when to look for the dead."""

import z3

from cases import Case
from terms import U64, both, either, implies, mod


def word(case):
    """Any state word, by its fields."""
    deadline = case.int("deadline", 77, 0, F.NEVER)
    version, phase = case.int("version", 5, 0, 2**F.VERSION_BITS - 1), case.int("phase", 1, 0, 3)
    held, listed = case.int("held", 1, 0, 1), case.int("listed", 1, 0, 1)
    it = F.packed(deadline, version, phase, held, listed)
    apart(case, it, deadline, version, phase, held, listed)
    return it, (deadline, version, phase, held, listed)


def apart(case, it, deadline, version, phase, held, listed):
    """Proves what is to the left and to the right of each field's end."""
    places = [(F.LIST, listed), (F.HELD, held), (F.PHASE, phase), (F.VERSION_SHIFT, version)]
    ends = [shift for shift, _ in places[1:]] + [F.DEADLINE_SHIFT]
    left = deadline * 2**F.DEADLINE_SHIFT + sum(value * 2**shift for shift, value in places)
    right = 0
    for (shift, value), end in zip(places, ends):
        beyond = sum((other * 2 ** (at - end) for at, other in places if at >= end), deadline * 2 ** (F.DEADLINE_SHIFT - end))
        case.divides(it, 2**end, beyond, right + value * 2**shift)
        here = beyond * 2 ** (end - shift) + value
        case.divides(here, 2 ** (end - shift), beyond, value)
        right = right + value * 2**shift
    case.divides(it, 1, it, 0)
    case.divides(it - right + right, 2**F.DEADLINE_SHIFT, deadline, right)
    case.divides(deadline, 2 ** (64 - F.DEADLINE_SHIFT), 0, deadline)


def fields(word):
    deadline, phase, listed, held, _, _ = F.fields(word)
    return deadline, F.field(word, F.VERSION_SHIFT, F.VERSION_BITS), phase, held, listed


def same(one, other):
    return z3.And(*[z3.IntVal(a) == b if isinstance(a, int) else a == b for a, b in zip(one, other)])


@holds("fields keep apart", "each field of a state word, never included, comes back as it was packed, and a change of one leaves the others", "fields pending with_phase with_deadline refiled unlisted unheld")
def _():
    case = Case("as packed")
    it, (deadline, version, phase, held, listed) = word(case)
    case.prove(same(fields(it), (deadline, version, phase, held, listed)))
    due, held_then, phase_then = 99, 1, 2
    next_ = lambda version: mod(version + 1, 2**F.VERSION_BITS)
    changes = {
        "pending": (lambda it, due, held, phase: F.pending(it, due * 2 + held),
                    lambda d, v, p, h, l, due, held, phase: (due, next_(v), F.PENDING, held, 1)),
        "with_phase": (lambda it, due, held, phase: F.with_phase(it, phase),
                       lambda d, v, p, h, l, due, held, phase: (d, v, phase, h, l)),
        "with_deadline": (lambda it, due, held, phase: F.with_deadline(it, due),
                          lambda d, v, p, h, l, due, held, phase: (due, v, p, h, l)),
        "refiled": (lambda it, due, held, phase: F.refiled(it),
                    lambda d, v, p, h, l, due, held, phase: (d, next_(v), p, h, l)),
        "unlisted": (lambda it, due, held, phase: F.unlisted(it),
                     lambda d, v, p, h, l, due, held, phase: (d, v, p, h, 0)),
        "unheld": (lambda it, due, held, phase: F.unheld(it),
                   lambda d, v, p, h, l, due, held, phase: (d, v, p, 0, l)),
    }
    for name, (change, expected) in changes.items():
        case = Case(name)
        it, (deadline, version, phase, held, listed) = word(case)
        due, held_then = case.int("due", 99, 0, F.NEVER), case.int("held_then", 1, 0, 1)
        phase_then = case.int("phase_then", 2, 0, 3)
        result = change(it, due, held_then, phase_then)
        wanted = expected(deadline, version, phase, held, listed, due, held_then, phase_then)
        apart(case, result, *wanted)
        case.prove(same(fields(result), wanted), result >= 0, result <= U64)


@holds("versions outlast a cascade", "a word that was read differs from that of the same timer after any number of re-filings that one deadline permits", "refiled pending")
def _():
    # Each re-filing of one deadline but the first goes down a level: `cascades descend`.
    for count in range(1, F.MAX_LEVELS + 1):
        case = Case(f"{count} re-filings")
        version = case.int("version", 5, 0, 2**F.VERSION_BITS - 1)
        case.prove(mod(version + count, 2**F.VERSION_BITS) != version)
    case = Case("one re-filing adds one")
    it, (deadline, version, *rest) = word(case)
    next_ = mod(version + 1, 2**F.VERSION_BITS)
    apart(case, F.refiled(it), deadline, next_, *rest)
    case.prove(F.field(F.refiled(it), F.VERSION_SHIFT, F.VERSION_BITS) == next_)
    case = Case("a reuse with the same deadline")
    it, (deadline, *_) = word(case)
    case.divides(deadline * 2 + 1, 2, deadline, 1)
    case.prove(F.pending(it, deadline * 2 + 1) != it)


@holds("a place in one number", "level and expiration of a place come back from the number that both are packed into, never included", "filed")
def _():
    case = Case()
    level, expiration = case.int("level", 54, 0, F.MAX_LEVELS), case.int("expiration", 77, 0, F.NEVER)
    _, level_back, expiration_back = F.filed(level, expiration)
    case.prove(level_back == level, expiration_back == expiration)


@holds("rings if due before", "a producer rings if its timer is due before the reaper wakes, and not if it is due then or later", "rings")
def _():
    case = Case()
    wakes, due = case.int("wakes_at", 77, 0, F.NEVER), case.int("due", 70, 0, F.NEVER)
    rings, shown = F.rings(wakes, due)
    case.prove((rings == 1) == (due < wakes), shown == wakes)


@holds("lateness is bounded from above", "the upper end of a lateness's bucket is not below it and at most 6.25 % above it, and a later one has no lower end; every bucket exists", "upper_ns")
def _():
    for length in range(65):
        low, high = (2 ** (length - 1), 2**length - 1) if length else (0, 0)
        case = Case(f"{length} bits")
        ns, later = case.int("ns", low, low, high), case.int("later_ns", low, low, high)
        upper = F.upper_ns(ns, length)
        case.prove(upper >= ns, (upper - ns) * 16 <= ns, implies(ns <= later, upper <= F.upper_ns(later, length)), upper <= high)


@holds("who is stuck, since when", "the time since when a thread is stuck is not before it was seen and less than two microseconds and a half after, up to the last of a clock's time, and the shard's number comes back", "stuck")
def _():
    case = Case()
    shard, since = case.int("shard", 7, 0, F.MAX_SHARDS), case.int("since_ns", 1_001)
    shard_back, since_back = F.stuck(shard, since)
    is_last = since > U64 - 2**F.STUCK_SHARD_BITS
    case.prove(shard_back == shard, either(since_back >= since, is_last), since_back < since + 2_500)


@holds("too many dead", "a sweep is due if the dead are more than half of the living and of the least number, and no number overflows", "are_too_many")
def _():
    case = Case()
    dead, living = case.int("dead", 3_000, 0, 2**63 - 1), case.int("living", 5_000, 0, 2**63 - 1)
    is_so = F.are_too_many(dead, living) == 1
    case.prove(is_so == both(2 * dead > living, 2 * dead > F.DEAD_AT_LEAST))


@holds("some shard has its share", "if there are too many dead, at least one shard has its share of them, so a sweep begins", "are_a_share")
def _():
    for count in (1, 2, 3, 5, 8, 13, F.MAX_SHARDS + 1):
        case = Case(f"{count} shards")
        # The most that a shard has is at least the mean. No machine has memory for 2^48 entries.
        most, dead = case.int("most", 2_049, 0, 2**48), case.int("dead", 2_049, 0, 2**48)
        case.assume(dead <= most * count)
        case.prove(F.are_a_share(most, count, dead) == 1)
