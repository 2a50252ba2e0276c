# SPDX-License-Identifier: Apache-2.0
"""Pure. Warnings about answers that show little: one text for all, blank ones, another model."""

from collections.abc import Iterator, Mapping, Sequence

from ci_doctor.correctness import rules
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.starts import ArmStart, of_arm
from ci_doctor.correctness.verdict.validity import models_within
from ci_doctor.load.looks import count_prompts
from ci_doctor.load.requests import Request
from ci_doctor.model.finding import Finding

_SHOWN = 3


def suspicious_answers(
    starts: Sequence[ArmStart], requests: Sequence[Request]
) -> Iterator[Finding]:
    """A finding for each kind; the first start that shows it stands for the others."""
    yield from one_answer(starts, count_prompts(requests))
    yield from blank_answers(starts)
    yield from _not_as_requested(starts, requests)
    yield from other_model(starts)
    yield from _within_an_arm(starts)
    yield from _cut_answers(starts)


def one_answer(starts: Sequence[ArmStart], prompts: int) -> Iterator[Finding]:
    """One and the same text for different prompts."""
    for start in starts:
        if start.looks.is_one_answer(prompts):
            message = f"{start.name} gave one and the same answer to all {start.looks.answered} "
            yield rules.ONE_ANSWER.finding(
                f"{message}requests, of {prompts} different prompts", remedy=rules.ONE_ANSWER.remedy
            )
            return


def blank_answers(starts: Sequence[ArmStart]) -> Iterator[Finding]:
    """White space or tokens alone; answers without both have a finding of their own."""
    for start in starts:
        if start.looks.blank > start.empty:
            message = f"{start.looks.blank} of {start.looks.answered} answers of {start.name} hold "
            yield rules.BLANK_ANSWERS.finding(
                f"{message}no word", remedy=rules.BLANK_ANSWERS.remedy
            )
            return


def _not_as_requested(starts: Sequence[ArmStart], requests: Sequence[Request]) -> Iterator[Finding]:
    """Answers of another model than the request names."""
    wanted = {request.id: request.body.get("model") for request in requests}
    for start in starts:
        others = []
        for request, model in start.looks.models.items():
            name = wanted.get(request)
            if name is not None and name != model:
                others.append(f"{model} for {name}")
        if others:
            which = _few(sorted(set(others)))
            message = f"{len(others)} answers of {start.name} are of another model than requested"
            yield rules.OTHER_MODEL.finding(f"{message}: {which}", remedy=rules.OTHER_MODEL.remedy)
            return


def other_model(starts: Sequence[ArmStart]) -> Iterator[Finding]:
    """The two arms name different models in answers to the same requests."""
    baseline = _models(of_arm(starts, Arm.BASELINE))
    candidate = _models(of_arm(starts, Arm.CANDIDATE))
    differing = []
    for request, model in candidate.items():
        before = baseline.get(request, model)
        if before != model:
            differing.append(f"{before} in the baseline, {model} in the candidate")
    if differing:
        which = _few(sorted(set(differing)))
        message = f"the arms name different models in {len(differing)} answers: {which}"
        yield rules.OTHER_MODEL.finding(message, remedy=rules.OTHER_MODEL.remedy)


def _within_an_arm(starts: Sequence[ArmStart]) -> Iterator[Finding]:
    """Starts of one arm that name different models."""
    for arm in Arm:
        reason = models_within(of_arm(starts, arm))
        if reason is not None:
            yield rules.OTHER_MODEL.finding(reason, remedy=rules.OTHER_MODEL.remedy)


def _cut_answers(starts: Sequence[ArmStart]) -> Iterator[Finding]:
    """Answers that end at their first token by their length."""
    for start in starts:
        looks = start.looks
        if looks.cut:
            yield rules.CUT_ANSWERS.finding(
                f"the length ended {looks.cut} of {looks.longer} answers of {start.name} at their "
                "first token, though the requests ask for more",
                remedy=rules.CUT_ANSWERS.remedy,
            )
            return


def _models(starts: Sequence[ArmStart]) -> Mapping[str, str]:
    models: dict[str, str] = {}
    for start in starts:
        models.update(start.looks.models)
    return models


def _few(texts: Sequence[str]) -> str:
    shown = "; ".join(texts[:_SHOWN])
    more = len(texts) - _SHOWN
    if more > 0:
        return f"{shown}; and {more} more"
    return shown
