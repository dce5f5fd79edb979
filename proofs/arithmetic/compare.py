"""Compares the formulas with what the sources have printed."""

import terms


def read(text):
    """The constants, and for each function its calls: inputs and outputs."""
    constants, calls = {}, {}
    for line in text.splitlines():
        name, rest = line.split(" ", 1)
        if name == "const":
            constant, value = rest.split()
            constants[constant] = int(value)
            continue
        inputs, outputs = rest.split("=")
        calls.setdefault(name, []).append((tuple(map(int, inputs.split())), tuple(map(int, outputs.split()))))
    return constants, calls


def difference(formulas, name, calls):
    """The first call that the formula disagrees with, as a text; None: there is none."""
    formula = getattr(formulas, name)
    for inputs, outputs in calls:
        try:
            result = formula(*inputs)
        except (terms.Overflow, ZeroDivisionError, ValueError, IndexError) as error:
            return f"{name}{inputs}: the sources say {outputs}, the formula {type(error).__name__}"
        result = result if isinstance(result, tuple) else (result,)
        if tuple(map(int, result)) != outputs:
            return f"{name}{inputs}: the sources say {outputs}, the formula {result}"
    return None
