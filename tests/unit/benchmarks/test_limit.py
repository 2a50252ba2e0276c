# SPDX-License-Identifier: Apache-2.0
"""Figures of benchmarks, against figures by hand."""

import json
import math
from importlib import import_module
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest

from benchmarks.diagnose.logistic import fit
from benchmarks.real_servers.readings import Reading, answers, reading

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return import_module("simulation.limit")


@pytest.fixture
def scenarios(limit: ModuleType) -> dict[str, Any]:
    return {each.name: each for each in import_module("simulation.scenarios").SCENARIOS}


def test_the_exact_test_has_the_p_value_of_one_labeling_in_all(limit: ModuleType) -> None:
    assert limit.fisher((0, 4), (4, 4)) == pytest.approx(1 / 70)
    assert limit.fisher((2, 2), (4, 4)) == pytest.approx(53 / 70)
    assert limit.fisher((0, 0), (4, 4)) == 1


def test_a_persistent_fault_is_told_after_eight_starts_whatever_flakes_beside_it(
    limit: ModuleType, scenarios: dict[str, Any]
) -> None:
    for name in ("S2", "S5b", "W20"):
        assert limit.limit(scenarios[name], Random(0), runs=5) == limit.Limit(5, 5, 8.0)


def test_a_world_without_a_fault_is_told_apart_in_few_runs(
    limit: ModuleType, scenarios: dict[str, Any]
) -> None:
    assert limit.limit(scenarios["S1"], Random(0), runs=20).told == 0


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


def line(arm: str, text: str, number: float, *, number_of: int = 1) -> str:
    choice: dict[str, Any] = {
        "index": 0,
        "text": text,
        "finish_reason": "length",
        "token_ids": [len(text)],
        "logprobs": {"tokens": [text], "token_logprobs": [number], "top_logprobs": [{"z": -4.0}]},
    }
    sample = {"arm": arm, "start": 1, "pass": number_of, "id": "r0"}
    return json.dumps(sample | {"output": {"choices": [choice]}})


def read(*lines: str) -> Reading:
    return reading(answers(lines))


def test_equal_answers_differ_nowhere() -> None:
    assert read(line("baseline", "a", -1.0), line("candidate", "a", -1.0)) == (0, 0, 0, 0.0)


def test_numbers_alone_leave_words_and_tokens_the_same() -> None:
    assert read(line("baseline", "a", -1.0), line("candidate", "a", -1.5)) == (0, 0, 1, 0.5)


def test_numbers_of_other_words_are_not_held_beside_each_other() -> None:
    assert read(line("baseline", "a", -1.0), line("candidate", "bb", -9.0)) == (1, 1, 1, 0.0)


def test_a_start_that_differs_in_one_pass_differs() -> None:
    baseline = [line("baseline", "a", -1.0, number_of=number) for number in (1, 2)]
    candidate = [line("candidate", "a", -number, number_of=number) for number in (1, 2)]

    assert read(*baseline, *candidate) == (0, 0, 1, 1.0)


def test_a_control_is_no_answer() -> None:
    control = line("candidate", "other", -1.0, number_of=0)

    assert read(line("baseline", "a", -1.0), line("candidate", "a", -1.0), control).words == 0


def test_a_request_that_failed_is_no_answer() -> None:
    failed = json.loads(line("candidate", "", -1.0)) | {"output": None, "error": "HTTP 500"}

    assert read(line("baseline", "a", -1.0), json.dumps(failed)) == (0, 0, 0, 0.0)
