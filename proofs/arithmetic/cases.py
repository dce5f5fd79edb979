"""What a property is made of: cases, each of which is a claim about whole numbers that z3 refutes or not."""

import z3

import terms

# Steps of the solver, not a time: what is decided does not depend on how busy the machine is. Whether
# it finds numbers soon is luck, so it begins anew with other seeds before it may take long.
ATTEMPTS = [(seed, 10_000_000) for seed in range(6)] + [(0, 200_000_000)]


class Refuted(Exception):
    """There are numbers for which a claim does not hold."""


class Undecided(Exception):
    """z3 gave up."""


class Case:
    """Unknown numbers, what is assumed of them, and what is claimed.

    Each unknown comes with an example. The examples have to satisfy all that is assumed, so nothing is proved from
    assumptions that contradict each other.
    """

    def __init__(self, label="", hints=None):
        self.scope = terms.begin()
        self.label = label
        self.examples = []
        self.assumed = []
        self.hints = hints or {}

    def int(self, name, example, low=0, high=terms.U64):
        """An unknown from `low` to `high`."""
        return self._unknown(z3.Int(name), example, low, high)

    def real(self, name, example):
        """An unknown that is no whole number, and not negative."""
        return self._unknown(z3.Real(name), example, 0, None)

    def bits(self, name, example):
        """An unknown of 64 bits."""
        return self._unknown(z3.BitVec(name, 64), example, None, None)

    def _unknown(self, unknown, example, low, high):
        self.examples.append(unknown == example)
        self.assumed += [unknown >= low] if low is not None else []
        self.assumed += [unknown <= high] if high is not None else []
        return unknown

    def assume(self, *conditions):
        self.assumed += conditions

    def lemma(self, claim):
        """Proves something, and uses it from there on."""
        self._refute(z3.Not(claim))
        self.assumed.append(claim)

    def divides(self, number, by, quotient, rest):
        """Proves what a quotient and its remainder are, and uses it: there is one such pair."""
        self._refute(z3.Not(z3.And(number == quotient * by + rest, rest >= 0, rest < by)))
        terms.know_quotient(number, by, quotient, rest)

    def multiples(self, count, unit):
        """Helps z3 with a product: it is as far from zero as its factors say."""
        self.lemma(z3.Implies(count >= 1, count * unit >= unit))
        self.lemma(z3.Implies(count <= -1, count * unit <= -unit))

    def prove(self, *claims):
        """Proves the claims, and that nothing overflows in the formulas that were used."""
        self._satisfy_examples()
        self._refute(z3.Not(z3.And(*claims, *self.scope.obligations)))

    def _check(self, *claims):
        """Whether the claims can hold, and the solver that knows."""
        for seed, limit in ATTEMPTS:
            solver = z3.Solver()
            solver.set("random_seed", seed)
            solver.set("rlimit", limit)
            solver.add(*self.assumed, *self.scope.definitions, *claims)
            verdict = solver.check()
            if verdict != z3.unknown:
                return verdict, solver
        raise Undecided(f"{self.label}: z3 says {solver.reason_unknown()}")

    def _satisfy_examples(self):
        if self._check(*self.examples)[0] != z3.sat:
            raise Undecided(f"{self.label}: the examples do not satisfy the assumptions")

    def _refute(self, negation):
        verdict, solver = self._check(negation)
        if verdict == z3.sat:
            raise Refuted(self.describe(solver.model()))

    def describe(self, model):
        numbers = sorted((str(unknown), model[unknown]) for unknown in model.decls())
        named = [f"{name} = {value}" for name, value in numbers if not name.startswith(("quotient", "rest"))]
        return ", ".join([self.label] * bool(self.label) + named)


class Property:
    """A statement, where the code is that it is about, and the function that proves it."""

    def __init__(self, name, statement, functions, prove):
        self.name, self.statement, self.functions, self.prove = name, statement, functions.split(), prove


def registry():
    """An empty list of properties, and the decorator that fills it."""
    properties = {}

    def holds(name, statement, functions):
        def add(prove):
            properties[name] = Property(name, statement, functions, prove)
            return prove

        return add

    return properties, holds
