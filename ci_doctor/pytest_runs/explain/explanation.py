# SPDX-License-Identifier: Apache-2.0
"""What the trials of one suspect show: a kind with its culprit, or how often it fails. Pure."""

from msgspec import Struct

from ci_doctor.pytest_runs.explain.kinds import FlakyKind
from ci_doctor.pytest_runs.explain.trial import Ending, FlakyTrial


class Explanation(Struct, frozen=True, kw_only=True):
    """Why a test is flaky.

    kind: None if no condition decides how it ends. culprit: the test, the condition or the address
    that decides it. left: a sentence for each thing that the culprit leaves and that matters.
    cause ends as `expected`, and control in the opposite way. plain_runs: trials alone, with
    nothing controlled; plain_failures of them failed. is_searched: each condition was tried, and each item that the
    culprit leaves; otherwise the time was over before. reason: why nothing could be tried.
    """

    test: str
    kind: FlakyKind | None = None
    culprit: str = ""
    left: tuple[str, ...] = ()
    cause: FlakyTrial | None = None
    control: FlakyTrial | None = None
    expected: Ending = Ending.FAILED
    plain_runs: int = 0
    plain_failures: int = 0
    is_searched: bool = True
    reason: str | None = None


class ExplainedSuspect(Struct, frozen=True, kw_only=True):
    """An explanation, the number of trials behind it, and their time in seconds."""

    explanation: Explanation
    trials: int
    duration_s: float
