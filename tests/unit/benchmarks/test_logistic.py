# SPDX-License-Identifier: Apache-2.0
"""The fit of the confidence."""

import math

import pytest

from benchmarks.diagnose.logistic import fit


def test_a_fit_gives_the_share_that_was_seen() -> None:
    samples = [({"constant": 1.0}, outcome) for outcome in (True, True, True, False)]

    assert 1 / (1 + math.exp(-fit(samples)["constant"])) == pytest.approx(0.75, abs=0.001)


def test_a_feature_that_tells_nothing_gets_nothing() -> None:
    samples = [
        ({"constant": 1.0, "told": float(told), "idle": idle, "never": 0.0}, bool(told))
        for told in (0, 1)
        for idle in (0.0, 1.0)
    ] * 10

    fitted = fit(samples)

    assert fitted["told"] > 1
    assert fitted["idle"] == pytest.approx(0, abs=1e-6)
    assert fitted["never"] == pytest.approx(0, abs=1e-6)
