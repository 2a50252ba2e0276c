# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: starts the entry point of what `--for` names, in each interpreter of the job."""

from ci_doctor.checks.check import CheckResult, Cost, DoctorCheck, Need
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.entry_points.combined import probe_result
from ci_doctor.checks.entry_points.of_workload import PACKAGES, entry_point_of
from ci_doctor.checks.settings import SERVING


def _run(context: CheckContext) -> CheckResult:
    workload = context.workload
    if workload is None or workload not in PACKAGES:
        return CheckResult(summary="--for names no package that has an entry point")
    entries = [entry_point_of(PACKAGES[workload], target.python) for target in context.targets]
    return probe_result(entries, context, none="no interpreter")


CHECK = DoctorCheck(
    id="imports/workload",
    title="the entry point of what --for names starts",
    need=Need.INTERPRETER,
    cost=Cost.IMPORT,
    needed_for=SERVING,
    run=_run,
)
