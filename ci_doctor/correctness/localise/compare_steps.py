# SPDX-License-Identifier: Apache-2.0
"""What a pair of starts shows: for each step, whether the candidate answers otherwise. Pure."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from ci_doctor.correctness.localise.conditions import (
    ReducedCondition,
    ReducedResult,
    ReducedStanding,
)
from ci_doctor.correctness.localise.steps import LocalisationStep

# The answer to each request of a step, as a text that is the same for the same answers; None for an
# error.
StepAnswers = Mapping[str, str | None]


def compare_steps(
    steps: Sequence[LocalisationStep],
    baseline: Sequence[StepAnswers],
    candidate: Sequence[StepAnswers],
    requests: Collection[str],
) -> tuple[ReducedResult, ...]:
    """A result for each step that both starts have ended; the answers are in the order of `steps`.

    A step compares its own request, and one that sends all compares `requests`. Those that the
    baseline does not answer are left out.
    """
    results = []
    for step, left, right in zip(steps, baseline, candidate, strict=False):
        wanted = requests if step.condition.request is None else (step.condition.request,)
        compared = [each for each in wanted if left.get(each) is not None]
        if not compared:
            results.append(_not_compared(step))
            continue
        differing = tuple(each for each in compared if right[each] != left[each])
        result = ReducedResult(
            condition=step.condition,
            standing=ReducedStanding.DIFFERS if differing else ReducedStanding.EQUAL,
            fresh=step.fresh,
            differing=differing,
            compared=len(compared),
        )
        results.append(result)
        results += _after_those_before_it(step, differing)
    return tuple(results)


def _after_those_before_it(
    step: LocalisationStep, differing: Sequence[str]
) -> Iterator[ReducedResult]:
    """What a pass of one request at a time shows of the first that differs, and what came before."""
    if not differing or not step.fresh or step.condition != ReducedCondition():
        return
    ids = [request.id for request in step.sent.requests]
    place = min(map(ids.index, differing))
    if place > 0:
        yield ReducedResult(
            condition=ReducedCondition(request=ids[place], before=tuple(ids[:place])),
            standing=ReducedStanding.DIFFERS,
            differing=(ids[place],),
            compared=1,
        )


def _not_compared(step: LocalisationStep) -> ReducedResult:
    return ReducedResult(
        condition=step.condition,
        standing=ReducedStanding.NOT_TRIED,
        fresh=step.fresh,
        why="the baseline does not answer",
    )


def varies_within(
    steps: Sequence[LocalisationStep], baseline: Sequence[StepAnswers], request: str
) -> bool:
    """Whether a baseline start gives two answers to `request`, the whole prompt in each step.

    A cache that answers otherwise does so, too, and noise within a start.
    """
    answers = set()
    for step, given in zip(steps, baseline, strict=False):
        condition = step.condition
        is_plain = condition.prefix is None and condition.without is None
        if condition.request == request and is_plain:
            answers.add(given.get(request))
    return len(answers) > 1
