# SPDX-License-Identifier: Apache-2.0
"""Answers that are equal on both sides and show little are named, with figures."""

from collections.abc import Sequence

import pytest

from ci_doctor.correctness.report.suspicious_answers import suspicious_answers
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.starts import ArmStart
from ci_doctor.load.looks import LooksOfAnswers
from ci_doctor.load.requests import Request


def requests(count: int, *, model: str | None = None, prompt: str = "p{}") -> list[Request]:
    body = {} if model is None else {"model": model}
    return [
        Request(id=f"r{n}", path="/", body={**body, "prompt": prompt.format(n)}, line=n + 1)
        for n in range(count)
    ]


def start(texts: Sequence[str], arm: Arm = Arm.BASELINE, model: str | None = None) -> ArmStart:
    looks = LooksOfAnswers()
    facts = {} if model is None else {"model": model}
    for number, text in enumerate(texts):
        looks.add(f"r{number}", {"choices": [{"index": 0, "text": text}]}, facts)
    return ArmStart(arm=arm, number=1, looks=looks.value())


def found(starts: Sequence[ArmStart], asked: Sequence[Request]) -> list[tuple[str, str]]:
    findings = suspicious_answers(starts, asked)
    return [(each.rule.removeprefix("correctness/"), each.summary) for each in findings]


def test_answers_that_differ_by_prompt_are_not_named() -> None:
    words = [f"word {number}" for number in range(40)]
    both = [start(words, model="m"), start(words, Arm.CANDIDATE, model="m")]
    assert found(both, requests(40, model="m")) == []


@pytest.mark.parametrize("count", [3, 40])
def test_one_answer_for_many_prompts_is_named_once(count: int) -> None:
    starts = [start(["same"] * count), start(["same"] * count, Arm.CANDIDATE)]
    text = f"A1 gave one and the same answer to all {count} requests, of {count} different prompts"
    assert found(starts, requests(count)) == [("one-answer", text)]


def test_one_answer_to_one_prompt_sent_many_times_is_no_wonder() -> None:
    assert found([start(["same"] * 40)], requests(40, prompt="the same")) == []
    assert found([start(["yes"] * 2)], requests(2)) == []


def test_white_space_alone_is_named_with_its_count() -> None:
    starts = [start([" \n", "\t", "word"])]
    text = "2 of 3 answers of A1 hold no word"
    assert found(starts, requests(3)) == [("blank-answers", text)]


def test_another_model_than_requested_is_named() -> None:
    words = [f"word {number}" for number in range(3)]
    text = "3 answers of A1 are of another model than requested: small for large"
    assert found([start(words, model="small")], requests(3, model="large")) == [
        ("other-model", text)
    ]


def test_another_model_than_the_other_arms_is_named() -> None:
    words = [f"word {number}" for number in range(3)]
    starts = [start(words, model="one"), start(words, Arm.CANDIDATE, model="other")]
    text = (
        "the arms name different models in 3 answers: one in the baseline, other in the candidate"
    )
    assert found(starts, requests(3)) == [("other-model", text)]
