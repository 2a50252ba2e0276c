# SPDX-License-Identifier: Apache-2.0
"""Reads answers whose numbers differ, and judges collected samples at each level."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ci_doctor.correctness.collected.reread import Collected
from ci_doctor.correctness.report.levels import (
    JudgedStarts,
    NumberSpread,
    level_facts,
    number_spread,
    widest,
)
from ci_doctor.correctness.settings import Rules
from ci_doctor.correctness.verdict.decision import Decision
from ci_doctor.model.facts.answers import LevelFacts


def collected_levels(
    collected: Collected, decision: Decision, rules: Rules
) -> tuple[LevelFacts, ...]:
    """The verdict at each level. Raises InfraError if a file can no longer be read."""
    survey = collected.survey
    # The others are the same in every start, whatever is compared.
    requests = list(survey.odd) or survey.requests[:1]
    judged = JudgedStarts(
        starts=collected.judged,
        requests=requests,
        rules=rules,
        complete=True,
        comparison=collected.comparison,
        decision=decision,
    )
    return level_facts(judged, lambda chosen: _spread(collected, chosen))


def _spread(collected: Collected, requests: Sequence[str]) -> NumberSpread | None:
    spreads = []
    for request in requests:
        spread = number_spread(_outputs(collected, request))
        if spread is not None:
            spreads.append(spread)
    return widest(spreads) if spreads else None


def _outputs(collected: Collected, request: str) -> Iterator[Mapping[str, Any]]:
    for start in collected.starts:
        for number in range(1, collected.survey.passes + 1):
            output = collected.output(start.name, request, number)
            if output is not None:
                yield output
