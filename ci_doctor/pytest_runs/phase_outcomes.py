# SPDX-License-Identifier: Apache-2.0
"""From the outcomes of the phases of a test to its own. Pure."""

from functools import lru_cache

from ci_doctor.pytest_runs.attempt import PytestOutcome

_FAILED = frozenset({"failed", "rerun", "retried"})
_COMBINATIONS = 1024  # of phases and their outcomes; a suite has a dozen


@lru_cache(_COMBINATIONS)
def outcome_of(phases: tuple[tuple[str, str], ...]) -> PytestOutcome:
    """The worst of all phases: a subtest that failed is a phase of its own."""
    outcomes = {outcome for _, outcome in phases}
    if any(outcome in _FAILED for when, outcome in phases if when == "call"):
        return PytestOutcome.FAILED
    if outcomes & _FAILED:
        return PytestOutcome.ERROR
    # `pytest.exit` in a teardown leaves it out.
    if not any(when == "teardown" for when, _ in phases):
        return PytestOutcome.LOST
    for outcome in (PytestOutcome.XFAILED, PytestOutcome.XPASSED, PytestOutcome.SKIPPED):
        if outcome in outcomes:
            return outcome
    # A test is no pass without its call, nor with an outcome that nobody knows.
    if outcomes == {"passed"} and any(when == "call" for when, _ in phases):
        return PytestOutcome.PASSED
    return PytestOutcome.LOST
