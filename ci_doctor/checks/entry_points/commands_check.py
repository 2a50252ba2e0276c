# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: runs the commands of `entry_points` in the configuration."""

import shlex

from ci_doctor.checks.check import CheckResult, Cost, DoctorCheck, UndeterminedError
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.entry_points.combined import probe_result
from ci_doctor.checks.entry_points.entry_point import EntryCommand
from ci_doctor.checks.settings import ALL


def _run(context: CheckContext) -> CheckResult:
    entries = []
    for command in context.settings.entry_points:
        try:
            words = tuple(shlex.split(command))
        except ValueError as error:
            raise UndeterminedError(f"entry_points: `{command}`: {error}") from error
        entries.append(EntryCommand(name=f"`{command}`", words=words))
    return probe_result(entries, context, none="`[doctor] entry_points` names no command")


CHECK = DoctorCheck(
    id="imports/commands",
    title="the commands of `[doctor] entry_points` end well",
    cost=Cost.IMPORT,
    needed_for=ALL,
    run=_run,
)
