"""Arithmetic that works on numbers and on z3's terms alike.

A formula is written once, with these functions. On numbers it computes; on terms it builds a term for z3. Whoever
proves something gets two things beside: the definitions of the quotients that occur (`a == q*b + r`), and an
obligation for each place where the code would overflow, with the condition under which that place is reached.
"""

import z3

U64 = 2**64 - 1


class Overflow(Exception):
    """A number does not fit where the code keeps it."""


class Scope:
    """What the terms that are being built have left behind."""

    def __init__(self):
        self.definitions = []
        self.obligations = []
        self.path = []
        self.quotients = {}


scope = Scope()


def begin():
    """Forgets what earlier terms have left behind."""
    global scope
    scope = Scope()
    return scope


def is_term(*values):
    return any(isinstance(value, z3.ExprRef) for value in values)


def divmod_of(a, b):
    """Quotient and remainder, for b > 0."""
    if not is_term(a, b):
        return divmod(a, b)
    key = key_of(a, b)
    if key not in scope.quotients:
        number = len(scope.quotients)
        quotient, rest = z3.Int(f"quotient{number}"), z3.Int(f"rest{number}")
        is_so = z3.And(a == quotient * b + rest, rest >= 0, rest < b)
        scope.definitions.append(is_so if not is_term(b) else z3.Implies(b > 0, is_so))
        scope.quotients[key] = quotient, rest
    if is_term(b):
        oblige(b > 0)
    return scope.quotients[key]


def key_of(a, b):
    return tuple(z3.simplify(value).sexpr() if is_term(value) else value for value in (a, b))


def know_quotient(a, b, quotient, rest):
    """Those of a and b, which the caller has proved."""
    scope.quotients[key_of(a, b)] = quotient, rest


def div(a, b):
    return divmod_of(a, b)[0]


def mod(a, b):
    return divmod_of(a, b)[1]


def div_ceil(a, b):
    quotient, rest = divmod_of(a, b)
    return quotient + ite(rest > 0, lambda: 1, lambda: 0)


def ite(condition, then, otherwise):
    """One of two results, numbers or tuples, which are computed by functions: only one is reached."""
    if not is_term(condition):
        return then() if condition else otherwise()
    results = []
    for holds, branch in [(condition, then), (z3.Not(condition), otherwise)]:
        scope.path.append(holds)
        results.append(branch())
        scope.path.pop()
    if isinstance(results[0], tuple):
        return tuple(z3.If(condition, one, other) for one, other in zip(*results))
    return z3.If(condition, results[0], results[1])


def both(*conditions):
    return z3.And(*conditions) if is_term(*conditions) else all(conditions)


def either(*conditions):
    return z3.Or(*conditions) if is_term(*conditions) else any(conditions)


def implies(one, other):
    return z3.Implies(one, other) if is_term(one, other) else (not one or other)


def flag(condition):
    """1 or 0."""
    return ite(condition, lambda: 1, lambda: 0)


def min2(a, b):
    return ite(a <= b, lambda: a, lambda: b)


def max2(a, b):
    return ite(a >= b, lambda: a, lambda: b)


def oblige(condition):
    """What the code relies on here."""
    if is_term(condition):
        scope.obligations.append(z3.Implies(z3.And(*scope.path), condition))
    elif not condition:
        raise Overflow


def fits(number, bits=64):
    """The number, which is kept in so many bits."""
    oblige(both(number >= 0, number < 2**bits))
    return number


def sat_add(a, b):
    return min2(a + b, U64)


def sat_sub(a, b):
    return max2(a - b, 0)


def sat_mul(a, b):
    return min2(a * b, U64)
