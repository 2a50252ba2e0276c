# SPDX-License-Identifier: Apache-2.0
"""The limit that knows the truth, against figures by hand."""

from pathlib import Path
from random import Random
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    from importlib import import_module

    return import_module("simulation.limit")


def test_the_exact_test_has_the_p_value_of_one_labeling_in_all(limit: ModuleType) -> None:
    assert limit.fisher((0, 4), (4, 4)) == pytest.approx(1 / 70)
    assert limit.fisher((2, 2), (4, 4)) == pytest.approx(53 / 70)
    assert limit.fisher((0, 0), (4, 4)) == 1


def test_a_persistent_fault_is_told_after_eight_starts_whatever_flakes_beside_it(
    limit: ModuleType,
) -> None:
    from importlib import import_module

    scenarios = {each.name: each for each in import_module("simulation.scenarios").SCENARIOS}

    for name in ("S2", "S5b", "W20"):
        assert limit.limit(scenarios[name], Random(0), runs=5) == limit.Limit(5, 5, 8.0)


def test_a_world_without_a_fault_is_told_apart_in_few_runs(limit: ModuleType) -> None:
    from importlib import import_module

    scenarios = {each.name: each for each in import_module("simulation.scenarios").SCENARIOS}

    assert limit.limit(scenarios["S1"], Random(0), runs=20).told == 0
