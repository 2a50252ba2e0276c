# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: whether an interpreter gives a waiting import a replaced module."""

from pathlib import Path

from ci_doctor.errors import InfraError
from ci_doctor.preload.race_run import drive

_PACKAGE = "_ci_doctor_self_replacing"
_RULE = f"_ci_doctor_trigger={_PACKAGE}:value"


def self_replacement_race(python: Path, *, timeout_s: float = 60.0) -> bool:
    """Whether `python` is exposed: a waiting import gets the object that is no longer the module.

    A package of ours that replaces itself in sys.modules plays the race. gh-143650 is the repair,
    and version numbers do not show which builds have it. Takes 0.1 s. Raises UsageError if `python`
    cannot be run, InfraError if it does not answer.
    """
    run = drive(python, "immunity", _RULE, shim=False, timeout_s=timeout_s)
    lost = "cannot import name 'value'" in run.error
    if not run.executed or not run.replaced or (run.error and not lost):
        reason = run.error or "the stub was not executed"
        raise InfraError(
            f"{python} could not be probed for the race: {reason}", hint=f"run `{python} -c pass`"
        )
    return lost
