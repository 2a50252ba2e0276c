# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest
from msgspec.structs import replace

from ci_doctor.correctness import results
from ci_doctor.correctness.settings import AnswerLevel
from ci_doctor.correctness.verdict import decide as canary_module
from ci_doctor.correctness.verdict.decide import canary_detected
from ci_doctor.correctness.verdict.starts import DifferenceKind
from ci_doctor.load.canonical import check_output, digest
from tests.unit.correctness.experiments import experiment, output, result
from tests.unit.correctness.numbered import digest_at


def test_a_changed_answer_is_found_in_equal_starts_unless_the_comparison_calls_all_equal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = experiment(result("A1", "one two"), result("B1", "one two"))
    assert canary_detected(made, ["r0", "r1"])
    monkeypatch.setattr(
        canary_module, "classify", lambda requests, _: dict.fromkeys(requests, DifferenceKind.EQUAL)
    )
    assert not canary_detected(made, ["r0", "r1"])


def test_a_digest_that_ignores_its_input_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canary_module, "digest", lambda _: "00")
    assert not canary_detected(experiment(result("A1", "one"), result("B1", "one")), ["r0"])


def test_an_outcome_over_passes_that_ignores_them_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = experiment(result("A1", "one one", passes=2), result("B1", "one one", passes=2))
    assert canary_detected(made, ["r0"])
    monkeypatch.setattr(results, "outcome", lambda *_: made.starts[0].answers["r0"])
    assert not canary_detected(made, ["r0"])


def test_without_a_candidate_answer_there_is_nothing_to_change() -> None:
    assert canary_detected(experiment(result("A1", "one"), result("B1", "-")), ["r0"])
    assert canary_detected(experiment(result("A1", "one")), ["r0"])


@pytest.mark.parametrize(
    "said",
    [
        output("one"),
        {"choices": [{"index": 0, "message": {"role": "assistant", "content": "x"}}]},
        {"choices": [{"index": 0, "text": "", "token_ids": [1, 2]}]},
        {"choices": [{"index": 0, "message": {"tool_calls": [{"name": "f", "arguments": ""}]}}]},
    ],
)
def test_every_shape_of_answer_can_be_changed(said: dict[str, Any]) -> None:
    digests = {"r0": {1: digest(said)}}
    made = experiment(result("A1", "one"), result("B1", "one", digests=digests))
    assert canary_detected(replace(made, outputs={digest(said): said}), ["r0"])


def test_an_answer_that_can_no_longer_be_read_proves_nothing() -> None:
    made = replace(experiment(result("A1", "one"), result("B1", "one")), outputs={})
    assert not canary_detected(made, ["r0"])


@pytest.mark.parametrize(
    "answer",
    [
        {"kind": "vector", "items": [{"index": 0, "float32": "AACAPw=="}]},
        {"kind": "label", "items": [{"index": 0, "label": "a", "numbers": [1.0]}]},
        {"kind": "rank", "items": [{"index": 0, "numbers": [0.5]}]},
    ],
)
def test_a_changed_vector_label_or_score_is_detected(answer: dict[str, Any]) -> None:
    changed = canary_module._changed_answer(answer, "\u2600")
    for level in AnswerLevel:
        assert digest_at(changed, level) != digest_at(answer, level)
    check_output(dict(changed))
    other = canary_module._changed_answer(answer, "\u2601")
    assert digest_at(other, AnswerLevel.WORDS) != digest_at(changed, AnswerLevel.WORDS)
