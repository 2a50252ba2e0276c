# SPDX-License-Identifier: Apache-2.0
"""Differences to localise, and servers that are a function of the condition, for tests."""

from collections.abc import Callable, Sequence
from typing import Any

from ci_doctor.correctness.localise.compare_steps import StepAnswers, compare_steps
from ci_doctor.correctness.localise.conditions import (
    LocalisedDifference,
    ReducedCondition,
    ReducedResult,
    ReducedStanding,
    merged,
)
from ci_doctor.correctness.localise.steps import LocalisationStep, next_steps
from ci_doctor.load.requests import Request
from ci_doctor.load.shorter_prompt import prompt_length

# Whether the candidate answers otherwise: by the prompt, how many are at once, and the prompts
# that this start got before.
Fault = Callable[[str, int, Sequence[str]], bool]

PROMPTS = ("a" * 64, "b" * 64, "c" * 64, "d" * 64, "e" * 64)


def subject(**changes: Any) -> LocalisedDifference:
    """A difference on r0 of five requests, in each of 24 pairs, at four at once, in two passes."""
    requests = tuple(
        Request(id=f"r{number}", path="/v1/completions", body={"prompt": prompt}, line=number + 1)
        for number, prompt in enumerate(PROMPTS)
    )
    fields: dict[str, Any] = {
        "request": requests[0],
        "requests": requests,
        "differing": tuple(request.id for request in requests),
        "concurrency": 4,
        "passes": 2,
        "resets": False,
        "length": prompt_length(requests[0]),
        "pairs": 24,
        "differing_pairs": 24,
        **changes,
    }
    return LocalisedDifference(**fields)


def of_experiment(of: LocalisedDifference, *, first_pass: bool) -> tuple[ReducedResult, ...]:
    """What the experiment shows: a difference, and whether the first pass has it too."""
    own = ReducedResult(
        condition=of.original, standing=ReducedStanding.DIFFERS, pairs=0, compared=5
    )
    first = ReducedResult(
        condition=ReducedCondition(concurrency=of.concurrency),
        standing=ReducedStanding.DIFFERS if first_pass else ReducedStanding.EQUAL,
        pairs=0,
        compared=5,
    )
    return own, first


def answered(steps: Sequence[LocalisationStep], fault: Fault | None) -> list[StepAnswers]:
    """What a start answers to the steps; the baseline has no fault."""
    before: list[str] = []
    answers: list[StepAnswers] = []
    for step in steps:
        given: dict[str, str | None] = {}
        asked = [str(request.body["prompt"]) for request in step.sent.requests]
        for request, prompt in zip(step.sent.requests, asked, strict=True):
            is_wrong = fault is not None and fault(prompt, step.sent.concurrency, before)
            given[request.id] = "wrong" if is_wrong else "right"
            before.append(prompt)
        answers.append(given)
    return answers


def searched(
    of: LocalisedDifference, fault: Fault, *, first_pass: bool, pairs: int = 2
) -> tuple[ReducedResult, ...]:
    """The results once nothing smaller is left to try, or so many pairs of starts are made."""
    results = of_experiment(of, first_pass=first_pass)
    for _ in range(pairs):
        steps = next_steps(of, results)
        if not steps:
            break
        new = compare_steps(steps, answered(steps, None), answered(steps, fault), of.differing)
        results = merged(results, new)
    return results
