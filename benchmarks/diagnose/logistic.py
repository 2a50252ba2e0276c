# SPDX-License-Identifier: Apache-2.0
"""Fits a logistic regression with a small ridge, by gradient ascent. Standard library only."""

import math
from collections.abc import Sequence

_ROUNDS = 3000
_RATE = 0.5
_RIDGE = 0.003


def fit(samples: Sequence[tuple[dict[str, float], bool]]) -> dict[str, float]:
    """The coefficients by feature that make the outcomes of `samples` most likely."""
    names = sorted({name for values, _ in samples for name in values})
    rows = [[values.get(name, 0.0) for name in names] for values, _ in samples]
    outcomes = [float(outcome) for _, outcome in samples]
    weights = [0.0] * len(names)
    for _ in range(_ROUNDS):
        slope = [0.0] * len(names)
        for row, outcome in zip(rows, outcomes, strict=True):
            total = sum(weight * value for weight, value in zip(weights, row, strict=True))
            error = outcome - 1 / (1 + math.exp(-total))
            for index, value in enumerate(row):
                slope[index] += error * value
        for index, each in enumerate(slope):
            pull = 0.0 if names[index] == "constant" else _RIDGE * weights[index]
            weights[index] += _RATE * (each / len(rows) - pull)
    return dict(zip(names, weights, strict=True))
