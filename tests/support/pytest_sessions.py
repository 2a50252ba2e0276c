# SPDX-License-Identifier: Apache-2.0
"""Attempts and plans of pytest, as tests of what is made of them need them."""

from pathlib import Path
from typing import Any

from ci_doctor.pytest_runs.attempt import PytestOutcome, RunKind, TestAttempt
from ci_doctor.pytest_runs.plan import PytestPlan


def an_attempt(outcome: str = "passed", test: str = "a", **changes: Any) -> TestAttempt:
    """An attempt in the suite; `changes` are fields of TestAttempt."""
    usual: dict[str, Any] = {"run": RunKind.SUITE, "test": test, "outcome": PytestOutcome(outcome)}
    return TestAttempt(**{**usual, **changes})


def a_plan(**changes: Any) -> PytestPlan:
    """A plan of the whole suite without options; `changes` are fields of PytestPlan."""
    usual: dict[str, Any] = {
        "kind": RunKind.SUITE, "python": Path("/py"), "args": (), "environ": {}, "directory": Path("/nowhere"),
    }  # fmt: skip
    return PytestPlan(**{**usual, **changes})
