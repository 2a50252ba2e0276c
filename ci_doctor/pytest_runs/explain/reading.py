# SPDX-License-Identifier: Apache-2.0
"""From what the plugin wrote to the result of a trial. Pure."""

import msgspec
from msgspec import Struct

from ci_doctor.decodable import decodable
from ci_doctor.pytest_runs.explain.trial import (
    BoundAddress,
    Ending,
    FlakyTrial,
    LeftItem,
    TrialResult,
)

# In place of the class of an exception.
TIMED_OUT = "time limit"
CRASHED = "crash"


class WrittenResult(Struct, frozen=True, kw_only=True):
    """The file of the plugin, `_ci_doctor_trial.py`. `outcome` is None while the target runs."""

    outcome: str | None = None
    began: bool = False
    types: tuple[str, ...] = ()
    duration_s: float = 0.0
    left: tuple[LeftItem, ...] = ()
    bound: tuple[BoundAddress, ...] = ()
    connected: tuple[tuple[str, str], ...] = ()
    absent: tuple[str, ...] = ()


def result_of(
    trial: FlakyTrial, written: bytes | None, exit_code: int | None, error: str | None
) -> TrialResult:
    """The result of a trial whose process ended with `exit_code`, None if its time limit ended it.

    written: None if the plugin wrote nothing. error: the class of the suspect's own exception; a
    failure by another one is not the suspect's. None lets any failure count.
    """
    if written is None:
        return TrialResult(ending=Ending.OTHER)
    raw = msgspec.json.decode(written, type=decodable(WrittenResult))
    types = raw.types
    outcome = raw.outcome
    if raw.began and outcome is None:
        outcome = "failed"
        types = (TIMED_OUT,) if exit_code is None else (CRASHED,)
    return TrialResult(
        ending=_ending(outcome, types, error),
        types=types,
        duration_s=raw.duration_s,
        left=raw.left,
        bound=raw.bound,
        connected=tuple(host for test, host in raw.connected if test == trial.target),
        absent=raw.absent,
    )


def _ending(outcome: str | None, types: tuple[str, ...], error: str | None) -> Ending:
    if outcome == "passed":
        return Ending.PASSED
    if outcome == "failed" and (error is None or error in types):
        return Ending.FAILED
    return Ending.OTHER
