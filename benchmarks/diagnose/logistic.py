# SPDX-License-Identifier: Apache-2.0
"""Fits a logistic regression with a small ridge, by Newton's method. Standard library only."""

import math
from collections.abc import Sequence

_ROUNDS = 12
_RIDGE = 0.003


def fit(samples: Sequence[tuple[dict[str, float], bool]]) -> dict[str, float]:
    """The coefficients by feature that make the outcomes of `samples` most likely."""
    names = sorted({name for values, _ in samples for name in values})
    rows = [[values.get(name, 0.0) for name in names] for values, _ in samples]
    outcomes = [float(outcome) for _, outcome in samples]
    # Not on the constant: it would pull all answers towards one half.
    ridge = [0.0 if name == "constant" else _RIDGE * len(rows) for name in names]
    weights = [0.0] * len(names)
    for _ in range(_ROUNDS):
        slope = [-pull * weight for pull, weight in zip(ridge, weights, strict=True)]
        # A feature that no sample has would leave the equations without a solution.
        curve = [[0.0] * len(names) for _ in names]
        for index, pull in enumerate(ridge):
            curve[index][index] = pull + 1e-9
        for row, outcome in zip(rows, outcomes, strict=True):
            _add(row, outcome, weights, slope, curve)
        steps = _solved(curve, slope)
        weights = [weight + step for weight, step in zip(weights, steps, strict=True)]
    return dict(zip(names, weights, strict=True))


def _add(
    row: Sequence[float],
    outcome: float,
    weights: Sequence[float],
    slope: list[float],
    curve: list[list[float]],
) -> None:
    """Add what one sample gives to the first and second derivative."""
    total = sum(weight * value for weight, value in zip(weights, row, strict=True))
    guess = 1 / (1 + math.exp(-total))
    set_ones = [(index, value) for index, value in enumerate(row) if value]
    for index, value in set_ones:
        slope[index] += (outcome - guess) * value
        line = curve[index]
        for other, other_value in set_ones:
            line[other] += guess * (1 - guess) * value * other_value


def _solved(matrix: Sequence[Sequence[float]], right: Sequence[float]) -> list[float]:
    """The solution of the linear equations, by elimination with the largest pivot."""
    rows = [[*line, value] for line, value in zip(matrix, right, strict=True)]
    size = len(rows)
    for column in range(size):
        pivot = max(range(column, size), key=lambda index: abs(rows[index][column]))
        rows[column], rows[pivot] = rows[pivot], rows[column]
        for index in range(size):
            if index != column:
                factor = rows[index][column] / rows[column][column]
                rows[index] = [
                    value - factor * other
                    for value, other in zip(rows[index], rows[column], strict=True)
                ]
    return [rows[index][size] / rows[index][index] for index in range(size)]
