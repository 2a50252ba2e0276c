# SPDX-License-Identifier: Apache-2.0
"""Answers with numbers, and starts that gave them, for tests of levels and limits."""

from collections.abc import Mapping, Sequence
from typing import Any

from ci_doctor.correctness.evidence.samples import Sample
from ci_doctor.correctness.results import (
    Experiment,
    ExperimentEnding,
    SameAnswers,
    StartResult,
    Tally,
    level_digests,
)
from ci_doctor.correctness.settings import AnswerLevel, Arm, Comparison
from ci_doctor.load.canonical import digest


def digest_at(output: Mapping[str, Any], level: AnswerLevel) -> str:
    """The digest of a canonical output at one level."""
    levels = level_digests(output)
    words, tokens = levels.words, levels.tokens
    by_level = {AnswerLevel.WORDS: words, AnswerLevel.TOKENS: tokens}
    return by_level.get(level) or digest(output)


def completion(
    text: str,
    *numbers: float,
    tokens: Sequence[int] = (),
    top: Sequence[Mapping[str, float]] = (),
) -> dict[str, Any]:
    """A canonical completion with these log-probabilities, token ids and alternatives."""
    choice: dict[str, Any] = {"index": 0, "text": text, "finish_reason": "stop"}
    if tokens:
        choice["token_ids"] = list(tokens)
    if numbers or top:
        choice["logprobs"] = {"token_logprobs": list(numbers), "top_logprobs": list(top)}
    return {"choices": [choice], "completion_tokens": max(len(tokens), 1)}


def start(
    name: str, *answers: Sequence[dict[str, Any] | None], archived: bool = False
) -> StartResult:
    """The start `name` that gave each of r0, r1 … its answers, one a pass; None is an error."""
    arm = Arm.BASELINE if name[0] == "A" else Arm.CANDIDATE
    tally = Tally(
        arm=arm,
        number=int(name[1:]),
        ids=[f"r{index}" for index in range(len(answers))],
        passes=len(answers[0]),
    )
    for index, passes in enumerate(answers):
        for number, output in enumerate(passes, start=1):
            fields: dict[str, Any] = {"error": "HTTP 500"}
            if output is not None:
                levels = level_digests(output)
                fields = {
                    "output": output,
                    "digest": digest(output),
                    "words_digest": levels.words,
                    "tokens_digest": levels.tokens,
                }
            sample = Sample(
                arm=arm.value, start=tally.number, pass_=number, id=f"r{index}", **fields
            )
            tally.add(sample)
    return tally.result()


def outputs(*answers: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Outputs by their digests."""
    return {digest(each): each for each in answers}


def compared(comparison: Comparison, known: Mapping[str, Any], *results: StartResult) -> Experiment:
    """An experiment of these starts at the gate's level."""
    same = SameAnswers(comparison, known)
    return Experiment(
        results=tuple(map(same.at_gate, results)),
        outputs=known,
        ending=ExperimentEnding.COMPLETE,
        comparison=comparison,
    )
