# SPDX-License-Identifier: Apache-2.0
"""Acts on ci-doctor's own temporary directories: those that a killed run has left; `--fix` removes."""

import contextlib
import os
import tempfile
from functools import partial
from pathlib import Path

from ci_doctor.checks.check import CheckResult, DoctorCheck, Fix, Problem, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.leftovers.rules import OWN_DIRECTORIES
from ci_doctor.errors import UsageError
from ci_doctor.model.finding import ShellCommand
from ci_doctor.render.formatting import amount, size
from ci_doctor.services.leaks.holding import in_use
from ci_doctor.system import clock
from ci_doctor.system.files.own_directory import abandoned_directories, remove_abandoned

# A run that is beginning has made its directory, and has not locked it yet.
_LEAST_AGE_S = 3600.0
# Files that are counted; the rest is of no use to a reader.
_COUNTED = 2000


def _run(context: CheckContext) -> CheckResult:
    # As /proc shows the paths of open files.
    folder = Path(context.environ.get("TMPDIR") or tempfile.gettempdir()).resolve()
    try:
        left = abandoned_directories(folder, clock.epoch(), _LEAST_AGE_S)
    except (FileNotFoundError, NotADirectoryError):
        return CheckResult(summary=f"there is no directory {folder}")
    # What a killed run has started may work in its directory still.
    used = in_use([str(path) for path in left])
    left = [path for path in left if str(path) not in used]
    if not left:
        return CheckResult(summary=f"nothing of an earlier ci-doctor in {folder}")
    problems = [_problem(path) for path in left]
    summary = f"killed runs of ci-doctor have left {amount(len(left), 'folder')} in {folder}"
    return CheckResult(summary=summary, problems=tuple(problems))


def _problem(path: Path) -> Problem:
    words = f"{path}, {_size(path)}"
    fault = problem(
        OWN_DIRECTORIES,
        f"a killed ci-doctor has left {words}",
        remedy=ShellCommand("ci-doctor doctor --fix leftovers/temporary-directories"),
    )
    return fault.with_fix(Fix(words=f"remove {words}", apply=partial(_remove, path)))


def _remove(path: Path) -> None:
    """Look again, then remove. Raises UsageError if it is in use by now."""
    if in_use([str(path)]):
        raise UsageError(f"{path} is in use")
    remove_abandoned(path)


def _size(path: Path) -> str:
    total = 0
    count = 0
    for folder, _, names in os.walk(path):
        for name in names:
            count += 1
            if count > _COUNTED:
                return f"more than {size(total)}"
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512  # noqa: PTH118
    return size(total)


CHECK = DoctorCheck(
    id="leftovers/temporary-directories",
    title="temporary directories of killed runs of ci-doctor",
    run=_run,
)
