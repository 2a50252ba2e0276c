# SPDX-License-Identifier: Apache-2.0
"""Pure. The attempts of one test -> its history."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Final

from ci_doctor.errors import UsageError
from ci_doctor.history.evidence import AttemptOutcome
from ci_doctor.history.kept_attempts import KeptAttempt
from ci_doctor.history.named_test import NamedTest
from ci_doctor.history.rates import rate_facts
from ci_doctor.history.reading.moments import utc_text
from ci_doctor.model.facts.history import AgentRateFacts, HistoryAttemptFacts, OneTestFacts

_LAST: Final = 20
_RED: Final = frozenset({AttemptOutcome.FAILED, AttemptOutcome.ERROR})
_UNKNOWN: Final = "unknown"


def one_test_facts(test: NamedTest, attempts: Sequence[KeptAttempt]) -> OneTestFacts:
    """What is known of `test`. Raises UsageError if it has no attempt."""
    if not attempts:
        raise UsageError(
            f"{test.suite}::{test.name} has no attempt in this time, or on this branch",
            hint="look further back with --days",
        )
    counts = Counter(each.outcome for each in attempts)
    failed = counts[AttemptOutcome.FAILED] + counts[AttemptOutcome.ERROR]
    passed = counts[AttemptOutcome.PASSED]
    causes = Counter(each.cause for each in attempts if each.cause is not None)
    lengths = [each.duration_ms for each in attempts if each.duration_ms is not None]
    return OneTestFacts(
        suite=test.suite,
        name=test.name,
        passed=passed,
        failed=failed,
        infra=counts[AttemptOutcome.INFRA],
        skipped=counts[AttemptOutcome.SKIPPED],
        failure_rate=rate_facts(failed, passed + failed),
        first_at=utc_text(attempts[0].started_ms),
        last_at=utc_text(attempts[-1].started_ms),
        median_s=median(lengths) / 1000 if lengths else None,
        causes=dict(causes.most_common()),
        agents=_agents(attempts),
        last=tuple(_facts(each) for each in reversed(attempts[-_LAST:])),
    )


def _agents(attempts: Iterable[KeptAttempt]) -> tuple[AgentRateFacts, ...]:
    """The agents, that with the surest failures first."""
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for each in attempts:
        if each.outcome == AttemptOutcome.PASSED:
            sums[each.agent or _UNKNOWN][0] += 1
        elif each.outcome in _RED:
            sums[each.agent or _UNKNOWN][1] += 1
    facts = [
        AgentRateFacts(
            agent=agent,
            passed=passed,
            failed=failed,
            failure_rate=rate_facts(failed, passed + failed),
        )
        for agent, (passed, failed) in sums.items()
    ]
    return tuple(sorted(facts, key=lambda each: (-each.failure_rate.low, each.agent)))


def _facts(attempt: KeptAttempt) -> HistoryAttemptFacts:
    duration = attempt.duration_ms
    return HistoryAttemptFacts(
        at=utc_text(attempt.started_ms),
        outcome=AttemptOutcome(attempt.outcome).name.lower(),
        duration_s=None if duration is None else duration / 1000,
        branch=attempt.branch,
        commit=attempt.commit,
        build=attempt.build,
        agent=attempt.agent,
        cause=attempt.cause,
    )
