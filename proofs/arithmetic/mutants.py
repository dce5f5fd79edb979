"""Changes of a formula, a premise or a constant, each of which makes a property false.

title: (property, file or "const", old, new)
"""

MUTANTS = {
    "the reciprocal is not rounded up": (
        "reciprocal", "formulas.py", "tick_ns) + 1)", "tick_ns))"),
}
