"""The arithmetic of the engine, as formulas. Each does what the function of that name does in the sources.

`prove.py` gives them the constants of the sources, compares them with the sources line by line, and proves what
`properties/` says about them. What begins with `step_` or stands without a line of its own is a part of one that has.
"""

from terms import U64, both, div, div_ceil, either, fits, flag, is_term, ite, max2, min2, mod, oblige
from terms import sat_add, sat_mul, sat_sub

NONE = -1

# crates/wheel/src/tick.rs


def tick(count):
    return ite(count < NEVER, lambda: count, lambda: NEVER)


def tick_add(at, ticks):
    return tick(sat_add(at, ticks))


def tick_sub(at, ticks):
    return sat_sub(at, ticks)


def tick_in_range(count):
    oblige(both(count >= 0, count < NEVER))
    return count


# crates/core/src/time/scale.rs


def shift_of(tick_ns):
    """Rounded up to a power of two, the tick is 2^(shift + 1). None: it is 1."""
    return (tick_ns - 1).bit_length() - 1 if tick_ns > 1 else None


def scale(tick_ns, shift=None):
    if shift is None and not is_term(tick_ns):
        shift = shift_of(tick_ns)
    if shift is None:
        return 0, 0, 0
    reciprocal = fits(div(2 ** (64 + shift), tick_ns) + 1)
    return reciprocal, shift, limit_of(tick_ns)


def limit_of(tick_ns):
    in_range_ns = sat_mul(LAST, tick_ns)
    return min2(sat_sub(2**63 + 1, tick_ns), in_range_ns)


def quotient(ns, tick_ns, reciprocal, shift):
    oblige(ns < 2**63)
    high = fits(div(fits(ns * reciprocal, 128), 2**64))
    return div(high, 2**shift)


def floor(tick_ns, ns, scale=scale, quotient=quotient):
    reciprocal, shift, below_ns = scale(tick_ns)
    return ite(
        ns < below_ns,
        lambda: tick_in_range(quotient(ns, tick_ns, reciprocal, shift)),
        lambda: min2(tick(div(ns, tick_ns)), LAST),
    )


def ceil(tick_ns, deadline_ns, scale=scale, quotient=quotient):
    reciprocal, shift, below_ns = scale(tick_ns)
    return ite(
        deadline_ns < below_ns,
        lambda: tick_in_range(quotient(fits(deadline_ns + (tick_ns - 1)), tick_ns, reciprocal, shift)),
        lambda: ite(deadline_ns == U64, lambda: NEVER, lambda: tick(div_ceil(deadline_ns, tick_ns))),
    )


def saturating_ns(secs, nanos):
    return sat_add(sat_mul(secs, 1_000_000_000), nanos)


def ceil_after(tick_ns, now_ns, secs, nanos, scale=scale, quotient=quotient):
    deadline_ns = now_ns + saturating_ns(secs, nanos)
    return ite(
        deadline_ns <= U64, lambda: ceil(tick_ns, fits(deadline_ns), scale, quotient), lambda: NEVER
    )


def start_ns(tick_ns, at):
    return ite(either(at == NEVER, at * tick_ns > U64), lambda: NONE, lambda: fits(at * tick_ns))


# crates/core/src/time/scale.rs, crates/capi/src/driving.rs


def next_on_grid(last_ns, period_ns, earliest_ns):
    next_ns = sat_add(last_ns, period_ns)
    missed = div_ceil(sat_sub(earliest_ns, next_ns), period_ns)
    return sat_add(next_ns, sat_mul(missed, period_ns)), missed


def left_of_period(period, late):
    over = mod(late, period)
    secs = fits(div(over, 1_000_000_000))
    nanos = fits(mod(over, 1_000_000_000), 32)
    oblige(nanos < 1_000_000_000)
    left = period - (secs * 1_000_000_000 + nanos)
    oblige(left >= 0)
    return left


def timeout_ms(sleep_ns):
    ms = div_ceil(sleep_ns, 1_000_000)
    return ite(sleep_ns == U64, lambda: -1, lambda: min2(ms, 2**31 - 1))


# crates/core/src/time/thread_clock.rs


def rate_of(now_ns, cycles):
    return div(fits(now_ns + 1) * 2**RATE_BITS, cycles)


def raised(rate):
    return fits(rate + div(rate, MARGIN) + 1)


def lasts_of(rate):
    return div(fits(LASTS_NS * 2**RATE_BITS), rate)


def learn(now_ns, cycles, takes):
    def take():
        rate = rate_of(now_ns, cycles)
        is_known = both(rate >= RATE_LEAST, rate <= RATE_MOST)
        return ite(is_known, lambda: (raised(rate), lasts_of(raised(rate))), lambda: (0, 0))

    is_good = both(takes < READ_CYCLES, cycles >= MEASURE_LEAST, cycles <= MEASURE_MOST)
    return ite(is_good, take, lambda: (0, 0))


def carried(set_ns, rate, passed):
    return set_ns + div(passed * rate, 2**RATE_BITS) + 1


def shown(set_ns, rate, lasts, passed):
    def show():
        fits(passed * rate)
        return fits(carried(set_ns, rate, passed))

    return ite(passed < lasts, show, lambda: NONE)


def went_slow(set_ns, rate, passed, later_ns):
    fits(carried(set_ns, rate, passed), 128)
    return flag(later_ns > carried(set_ns, rate, passed))


# crates/core/src/reaper/spin.rs


def part(ns, share):
    return fits(div(fits(ns * share, 128), WHOLE))


def credit_after(credit_ns, ns, share):
    return min2(sat_add(credit_ns, part(ns, share)), part(WINDOW_NS, share))


def plan(margin_ns, share, credit_ns, earned_ns, now_ns, due_ns):
    """Whether it waits in user space, until when it does or sleeps, and the credit then."""
    earned = credit_after(credit_ns, sat_sub(now_ns, earned_ns), share)
    left_ns = sat_sub(due_ns, now_ns)
    asleep_ns = sat_sub(left_ns, margin_ns)
    awake_ns = fits(left_ns - asleep_ns)
    has_credit = credit_after(earned, asleep_ns, share) >= awake_ns
    waits, until_ns = ite(
        has_credit,
        lambda: ite(asleep_ns == 0, lambda: (1, due_ns), lambda: (0, fits(due_ns - awake_ns))),
        lambda: (0, due_ns),
    )
    return waits, until_ns, earned


def spend(credit_ns, spent_ns):
    return sat_sub(credit_ns, spent_ns)


def plans(share, before_ns, now1, due1, spent, now2, due2):
    credit = part(WINDOW_NS, share)
    margin = min2(before_ns, credit)
    if margin == 0:
        return 0, due1, 0, due2
    waits1, until1, credit = plan(margin, share, credit, 0, now1, due1)
    credit = spend(credit, spent)
    waits2, until2, credit = plan(margin, share, credit, now1, now2, due2)
    return waits1, until1, waits2, until2


# crates/sync/src/protocol/pulse.rs

LATE = U64 - 2


def clamped(now_ns):
    return min2(now_ns, LATE - 1)


def is_late(first_ns, beat_ns, timeout_ns):
    """Whether a beat comes too late after the first."""
    return sat_add(clamped(first_ns), timeout_ns) <= clamped(beat_ns)


def expire(first_ns, beat_ns, now_ns, timeout_ns):
    """The time until which the timer waits, or NONE: the beats fell silent."""
    last = max2(clamped(first_ns), clamped(beat_ns))
    until = sat_add(last, timeout_ns)
    waits = ite(until <= now_ns, lambda: NONE, lambda: until)
    return ite(is_late(first_ns, beat_ns, timeout_ns), lambda: NONE, lambda: waits)


# crates/wheel/src/geometry.rs


def widths(reach):
    width, all_widths = 1, []
    while width <= NEVER:
        all_widths.append(width)
        width = step_width(width, reach)
    return all_widths


def step_width(width, reach):
    return sat_mul(width, reach)


def geometry(slots, reach):
    of_levels = widths(reach)
    return len(of_levels), *of_levels


def bucket_of(at, width):
    return div(at, width)


def ahead_of(deadline, start, width):
    return fits(bucket_of(deadline, width) - bucket_of(start, width))


def reaches(ahead, reach):
    return ahead < reach


def slot_of(bucket, slots):
    return mod(bucket, slots)


def opening_of(bucket, width):
    return tick(fits(bucket * width))


def seen_from(deadline, start):
    return max2(deadline, start)


def is_floor(width, power):
    """Whether the search for a distance from `power`, a power of two, to twice that may begin on the level."""
    return width <= power


def place(slots, reach, deadline, start):
    deadline, of_levels = seen_from(deadline, start), widths(reach)
    power = 2 ** (((deadline - start) | 1).bit_length() - 1)
    level = max(level for level, width in enumerate(of_levels, 1) if is_floor(width, power))
    while not reaches(ahead_of(deadline, start, of_levels[level - 1]), reach) and level < len(of_levels):
        level += 1
    bucket = bucket_of(deadline, of_levels[level - 1])
    return level, slot_of(bucket, slots), opening_of(bucket, of_levels[level - 1])


def place_on(slots, reach, at, level):
    width = widths(reach)[level - 1]
    return slot_of(bucket_of(at, width), slots), opening_of(bucket_of(at, width), width)


def opens_in(first, last, width):
    """The first and the last bucket that open in a window; the last is before the first if none does."""
    return div_ceil(first, width), div(last, width)


def roundest(lowest, highest, bit=None):
    """For 64 bits; `bit` is the highest in which the one before the lowest and the highest differ."""
    if bit is None:
        if lowest == 0:
            return 0
        bit = ((lowest - 1) ^ highest).bit_length() - 1
    return highest & (U64 << bit & U64)


def at_number(number, width):
    return tick(fits(number * width))


def best_within(slots, reach, first, last, start):
    if last <= first or first == NEVER:
        return first
    for width in reversed(widths(reach)):
        lowest, highest = opens_in(first, last, width)
        if lowest <= highest:
            break
    low, round_ = at_number(lowest, width), at_number(roundest(lowest, highest), width)
    stays = lambda at: place(slots, reach, at, start)[2] == at
    return low if not stays(round_) and stays(low) else round_


# src/engine/core.rs: due_within


def window(tick_ns, deadline_ns, slack_ns, scale=scale, quotient=quotient):
    """The first and the last tick of a timer with a slack."""
    first = ceil(tick_ns, deadline_ns, scale, quotient)
    last = floor(tick_ns, sat_add(deadline_ns, slack_ns), scale, quotient)
    return first, last


def slack(tick_ns, slots, reach, now_ns, delay_ns, slack_ns):
    if slack_ns == 0:
        due = ceil_after(tick_ns, now_ns, 0, delay_ns)
    else:
        first, last = window(tick_ns, sat_add(now_ns, delay_ns), slack_ns)
        due = best_within(slots, reach, first, last, floor(tick_ns, now_ns))
    # Instants end at 2^63 seconds, so each of these is one.
    return start_ns(tick_ns, due)


# crates/core/src/shard/mod.rs, crates/core/src/wheel/mod.rs


def seen(now, clock):
    return max2(now, clock)


def shard_place(few, slots, reach, clock, now, deadline):
    level, slot, expiration = place(slots, reach, deadline, seen(now, clock))
    if few and 1 < level <= NEAR:
        return 1, slot_of(bucket_of(deadline, 1), slots), opening_of(bucket_of(deadline, 1), 1)
    return level, slot, expiration


def segment_of(slots, level, slot):
    return (level - 1) * div_ceil(slots, SEGMENT) + div(slot, SEGMENT)


def bucket(slots, level, slot):
    segment = segment_of(slots, level, slot)
    per_level = div_ceil(slots, SEGMENT)
    first = mod(segment, per_level) * SEGMENT
    oblige(first + mod(slot, SEGMENT) < slots)
    return div(segment, per_level) + 1, first + mod(slot, SEGMENT)


# crates/wheel/src/rings.rs, crates/wheel/src/rounds.rs


def buckets_to(slot, here, slots):
    """How many buckets of a ring come before the one in `slot`, from the one in slot `here` on."""
    return fits(slot + ite(slot < here, lambda: slots, lambda: 0) - here, 32)


def opens_next(at, slot, slots, width):
    """When the bucket in `slot` opens next, seen from the time `at`."""
    here = bucket_of(at, width)
    ahead = buckets_to(slot, slot_of(here, slots), slots)
    return tick_add(fits(here * width), fits(ahead * width))


def wheel(slots, reach, start, now, *deadlines):
    """When the first bucket expires; after an advance to `now`, how many timers have fired, and when the next expires."""
    of_levels, places = widths(reach), [(at, place(slots, reach, at, start)) for at in deadlines if at < NEVER]
    before = min((opens_next(start, at[1], slots, of_levels[at[0] - 1]) for _, at in places), default=NONE)
    fired, then = 0, []
    for deadline, (level, slot, expiration) in places:
        while expiration <= now and level > 1:
            level, slot, expiration = place(slots, reach, deadline, expiration)
        if expiration <= now:
            fired += 1
        else:
            then.append(opens_next(now, slot, slots, of_levels[level - 1]))
    return before, fired, min(then, default=NONE)


def hashed_rounds(slots, next_, deadline):
    return ite(deadline < NEVER, lambda: div(sat_sub(deadline, next_), slots), lambda: NONE)


def hashed(slots, start, deadline, now):
    fires = deadline <= now
    left = NONE if fires else hashed_rounds(slots, tick_add(now, 1), deadline)
    return hashed_rounds(slots, tick_add(start, 1), deadline), int(fires), left


# crates/core/src/entry/word.rs, crates/core/src/entry/node.rs

LIST, HELD, PHASE, PENDING, VACANT = 0, 1, 2, 0, 1


def field(word, shift, bits):
    return mod(div(word, 2**shift), 2**bits)


def with_field(word, shift, bits, value):
    return word + (value - field(word, shift, bits)) * 2**shift


def next_version(word):
    return mod(field(word, VERSION_SHIFT, VERSION_BITS) + 1, 2**VERSION_BITS)


def packed(deadline, version, phase, held, in_list):
    return fits(
        deadline * 2**DEADLINE_SHIFT + version * 2**VERSION_SHIFT + phase * 2**PHASE + held * 2**HELD + in_list
    )


def pending(word, deadline_and_held):
    held = mod(deadline_and_held, 2)
    return packed(div(deadline_and_held, 2), next_version(word), PENDING, held, 1)


def with_phase(word, phase):
    return with_field(word, PHASE, 2, phase)


def with_deadline(word, deadline):
    return with_field(word, DEADLINE_SHIFT, 64 - DEADLINE_SHIFT, deadline)


def refiled(word, _=0):
    return with_field(word, VERSION_SHIFT, VERSION_BITS, next_version(word))


def unlisted(word, _=0):
    return with_field(word, LIST, 1, 0)


def unheld(word, _=0):
    return with_field(word, HELD, 1, 0)


def fields(word):
    """Deadline and phase, whether it is listed, held, waiting, stranded."""
    phase, listed = field(word, PHASE, 2), field(word, LIST, 1)
    waits = flag(both(phase == PENDING, listed == 1))
    stranded = flag(both(phase == PENDING, listed == 0))
    return tick(div(word, 2**DEADLINE_SHIFT)), phase, listed, field(word, HELD, 1), waits, stranded


def filed(level, expiration):
    bits = fits(expiration * 2**LEVEL_BITS + level)
    return bits, mod(bits, 2**LEVEL_BITS), tick(div(bits, 2**LEVEL_BITS))


# crates/core/src/doorbell/mod.rs


def rings(wakes_at, due):
    return flag(due < wakes_at), tick(wakes_at)


# crates/core/src/reaper/lateness.rs, crates/core/src/reaper/stuck.rs


def upper_ns(ns, length=None):
    """The upper end of the bucket of a number of so many bits."""
    length = ns.bit_length() if length is None else length
    doublings = max(length - (SUB_BITS + 1), 0)
    number = doublings * 2**SUB_BITS + div(ns, 2**doublings)
    oblige(both(number >= 0, number < (64 - SUB_BITS + 1) * 2**SUB_BITS))
    # Back from the number. Below, a bucket has one number.
    back = max2(div(number, 2**SUB_BITS) - 1, 0)
    oblige(back == doublings)
    sub = number - doublings * 2**SUB_BITS
    return fits((sub + 1) * 2**doublings - 1)


def stuck(shard, since_ns):
    unit_ns = 2**STUCK_SHARD_BITS
    since = min2(div_ceil(since_ns, unit_ns), U64 // unit_ns)
    place = fits(since * 2**STUCK_SHARD_BITS + shard + 1)
    return mod(place, 2**STUCK_SHARD_BITS) - 1, fits(div(place, 2**STUCK_SHARD_BITS) * unit_ns)


# crates/core/src/memory/balance.rs


def are_too_many(dead, living):
    return flag(fits(2 * dead) > max2(living, DEAD_AT_LEAST))


def are_a_share(here, shards, dead):
    return flag(fits(here * shards) >= dead)
