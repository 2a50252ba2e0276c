# SPDX-License-Identifier: Apache-2.0
"""Fits a logistic regression with a small ridge, by Newton's method."""

from collections.abc import Sequence

import numpy as np

_ROUNDS = 12
_RIDGE = 0.003


def fit(samples: Sequence[tuple[dict[str, float], bool]]) -> dict[str, float]:
    """The coefficients by feature that make the outcomes of `samples` most likely."""
    names = sorted({name for values, _ in samples for name in values})
    rows = np.array([[values.get(name, 0.0) for name in names] for values, _ in samples])
    outcomes = np.array([outcome for _, outcome in samples], dtype=float)
    # Not on the constant: it would pull all answers towards one half.
    ridge = np.array([0.0 if name == "constant" else _RIDGE * len(rows) for name in names])
    weights = np.zeros(len(names))
    for _ in range(_ROUNDS):
        guesses = 1 / (1 + np.exp(-rows @ weights))
        slope = rows.T @ (outcomes - guesses) - ridge * weights
        # A feature that no sample has would leave the equations without a solution.
        curve = rows.T @ (rows * (guesses * (1 - guesses))[:, None]) + np.diag(ridge + 1e-9)
        weights += np.linalg.solve(curve, slope)
    return dict(zip(names, weights.tolist(), strict=True))
