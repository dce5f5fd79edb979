"""Words that have several fields, and numbers that decide when to look for the dead."""

import z3

from cases import Case
from terms import U64, both, div, either, implies, mod


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


@holds("a round is paid for", "threads sweep one shard after the other; for each seat that is let go in a round, a thread visits as many entries as it should, and no shard has more to visit than what was filed there", "are_too_many")
def _():
    for count in (1, 2, 3, 5, 8, 13):
        case = Case(f"{count} shards")
        # The most that lived in the round so far, and who else keeps seats.
        living, threads = case.int("living", 10_000 * count, 0, 2**48), case.int("threads", 3, 0, 2**16)
        buckets = case.int("buckets", 320 * count, 0, 2**32)
        spare, lost = spare_of(count, threads, 0), lost_of(count, buckets)
        filed, dead, let_go, visits = 0, 0, 0, 0
        for shard in range(count):
            # What was filed there when the round began, living or kept; what died before; what was filed since.
            of_shard = [("filed", 10_000), ("dead", 5_000), ("new", 2_000), ("left", 1_300), ("visits", 16_000)]
            was, died, new, left, seen = [case.int(f"{name}_{shard}", n, 0, 2**50) for name, n in of_shard]
            # An entry is visited once, wherever it was filed. What is let go was filed.
            case.assume(seen <= was + died + new, left <= was + new)
            filed, dead, let_go, visits = filed + was + new - left, dead + died, let_go + left, visits + seen
        # Depots have a seat for each living timer, or as many as there is room for in any case.
        case.assume(filed <= living + largest(living, F.DEAD_AT_LEAST) + spare)
        case.assume(let_go * div(F.HELP, 2 * F.SEATS) <= visits + lost)
        most = largest(living, F.DEAD_AT_LEAST)
        case.prove((div(F.HELP, 2 * F.SEATS) - 1) * let_go <= dead + 2 * most + spare + lost)


@holds("the dead are bounded", "from a time at which they were not too many, to the end of that round: the dead are no more than eight elevenths of the most that live in it, and what each shard, thread and bucket adds", "are_too_many")
def _():
    case = Case()
    living, most = case.int("living", 10_000, 0, 2**48), case.int("most", 12_000, F.DEAD_AT_LEAST, 2**48)
    begun, let_go, spare = round_of(case, most, 5_000, 3_000)
    case.assume(living <= most, F.are_too_many(begun, living) == 0)
    case.prove(11 * (begun + let_go) <= 8 * most + spare)


@holds("the dead are bounded while the living fall", "rounds in which the dead are too many all the time: they are no more than the most that lived since the round before began, and what each shard, thread and bucket adds; what lived earlier counts for an eighth after each round", "are_too_many")
def _():
    case = Case()
    # The most in the round before, or an eighth of that of the one before that; and in this round.
    before, most = case.int("before", 40_000, F.DEAD_AT_LEAST, 2**48), case.int("most", 10_000, F.DEAD_AT_LEAST, 2**48)
    case.assume(8 * most >= before)
    begun, let_go, spare = round_of(case, most, 6_000, 3_000)
    # The round before has left this. (The property above says so of one in which they were not too many.)
    case.assume(left_by_round(begun, before, spare))
    case.prove(5 * (begun + let_go) <= 5 * largest(before, most) + spare)
    # Only what was let go in a round is dead at its end.
    case.prove(left_by_round(let_go, most, spare))


def left_by_round(dead, most, spare):
    return 110 * dead <= 80 * most + 11 * spare


def round_of(case, most, begun, let_go):
    """The dead when a round begins, or at a later time in it, what is let go from then on, and what may come on top."""
    begun, let_go = case.int("begun", begun, 0, 2**50), case.int("let_go", let_go, 0, 2**50)
    shards, threads = case.int("shards", 8, 1, 2**16), case.int("threads", 3, 0, 2**16)
    spare = spare_of(shards, threads, lost_of(shards, case.int("buckets", 2_560, 0, 2**32)))
    case.assume((div(F.HELP, 2 * F.SEATS) - 1) * let_go <= begun + 2 * most + spare)
    return begun, let_go, spare


def spare_of(shards, threads, lost):
    """Seats for which depots have room in any case, those of the threads, and visits that were not made."""
    return 1024 * (shards + 1) + 2 * F.SEATS * threads + lost


def lost_of(shards, buckets):
    """Visits that threads do not make: with the end of a shard's sweep, and where they look into too many buckets."""
    return F.HELP * shards + div(buckets, F.LOOKS)


def largest(first, *others):
    for other in others:
        first = z3.If(first > other, first, other)
    return first
