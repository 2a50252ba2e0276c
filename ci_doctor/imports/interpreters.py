# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: checks which of the recorded interpreters are exposed to the race."""

from pathlib import Path

from ci_doctor.errors import InfraError, UsageError
from ci_doctor.imports.record.recorded import RecordedRun
from ci_doctor.preload.race import self_replacement_race

# Each check starts the interpreter and takes 0.1 s; a job has one or two of them.
_CHECKED = 8


def check_interpreters(recorded: RecordedRun) -> dict[str, bool | None]:
    """Whether each recorded interpreter is exposed to the race of self-replacing modules.

    None if it cannot be checked.
    """
    executables: dict[str, None] = {}
    for process in recorded.processes:
        # A program that embeds Python names itself as executable. Our arguments would mean
        # something else to it.
        if Path(process.executable).name.startswith("python"):
            executables[process.executable] = None
    exposures = {}
    for executable in list(executables)[:_CHECKED]:
        exposures[executable] = _exposed(Path(executable))
    return exposures


def _exposed(python: Path) -> bool | None:
    try:
        return self_replacement_race(python)
    except (UsageError, InfraError):
        return None
