# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from ci_doctor.correctness.comparison import AnswerLevel, read_comparison
from ci_doctor.correctness.localise.gate_answers import GateAnswers
from ci_doctor.errors import InfraError
from ci_doctor.load.canonical import digest


def output(text: str, logprob: float) -> dict[str, Any]:
    choice = {"index": 0, "text": text, "logprobs": {"token_logprobs": [logprob]}}
    return {"choices": [choice]}


A, B, C = output("so", -0.5), output("so", -0.501), output("no", -0.5)
OUTPUTS = {digest(each): each for each in (A, B, C)}


@pytest.mark.parametrize(
    ("level", "limit", "same"),
    [
        (AnswerLevel.NUMBERS, None, False),
        (AnswerLevel.TOKENS, None, True),
        (AnswerLevel.WORDS, None, True),
        (AnswerLevel.NUMBERS, "0.01 nat", True),
        (AnswerLevel.NUMBERS, "0.0001 nat", False),
    ],
)
def test_answers_are_the_same_at_the_level_and_within_the_limit_of_the_gate(
    level: AnswerLevel, limit: str | None, same: bool
) -> None:
    gate = GateAnswers(read_comparison(level, limit), OUTPUTS)
    first, second, other = (gate.key("r0", digest(each)) for each in (A, B, C))
    assert (first == second) is same
    assert first != other


def test_an_answer_that_is_gone_is_no_answer_of_another_kind() -> None:
    gate = GateAnswers(read_comparison(AnswerLevel.WORDS, None), {})
    with pytest.raises(InfraError, match="no output has the digest"):
        gate.key("r0", "0" * 64)
