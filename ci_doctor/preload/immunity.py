# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: whether an interpreter hands a waiting thread the module that was replaced meanwhile."""

from pathlib import Path

from ci_doctor.errors import InfraError
from ci_doctor.preload.race_run import drive

_PACKAGE = "_ci_doctor_self_replacing"
_RULE = f"_ci_doctor_trigger={_PACKAGE}:value"


def self_replacement_race(python: Path, *, timeout_s: float = 60.0) -> bool:
    """Whether `python` is exposed: an import that waits for another thread gets the object that is no longer the module.

    Played with a package of our own that replaces itself in sys.modules (gh-143650 has the cure, and version numbers do
    not tell who has it). Takes 0.1 s. Raises UsageError where `python` cannot be run, InfraError where it does not answer.
    """
    run = drive(python, "immunity", _RULE, shim=False, timeout_s=timeout_s)
    if (
        not run.executed
        or not run.replaced
        or (run.error and "cannot import name 'value'" not in run.error)
    ):
        said = run.error or "the stub was not executed"
        raise InfraError(
            f"{python} could not be probed for the race: {said}", hint=f"run `{python} -c pass`"
        )
    return bool(run.error)
