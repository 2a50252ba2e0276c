# SPDX-License-Identifier: Apache-2.0
"""Pure. Converts failures and stop results to the facts of reports."""

from msgspec import convert, to_builtins

from ci_doctor.model.facts.services import FailureFacts, LeftBehindFacts, StopFacts
from ci_doctor.services.leaks.left import LeftBehind
from ci_doctor.services.outcome import ServiceFailure, StopResult


def failure_facts(failure: ServiceFailure | None) -> FailureFacts | None:
    """Return `failure` as facts; None if there is none."""
    return None if failure is None else convert(to_builtins(failure), FailureFacts)


def left_facts(left: LeftBehind) -> LeftBehindFacts:
    """Return what was left on the machine as facts."""
    return convert(to_builtins(left), LeftBehindFacts)


def stop_facts(stopped: StopResult | None) -> StopFacts | None:
    """Return what a stop left behind as facts; None if nothing was stopped."""
    return None if stopped is None else convert(to_builtins(stopped), StopFacts)
