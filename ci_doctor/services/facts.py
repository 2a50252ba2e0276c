# SPDX-License-Identifier: Apache-2.0
"""From the values of this room to the facts of reports. Pure."""

from msgspec import convert, to_builtins

from ci_doctor.model.facts.services import FailureFacts, StopFacts
from ci_doctor.services.outcome import ServiceFailure, StopResult


def failure_facts(failure: ServiceFailure | None) -> FailureFacts | None:
    """The same as plain data."""
    return None if failure is None else convert(to_builtins(failure), FailureFacts)


def stop_facts(stopped: StopResult | None) -> StopFacts | None:
    """The same as plain data."""
    return None if stopped is None else convert(to_builtins(stopped), StopFacts)
