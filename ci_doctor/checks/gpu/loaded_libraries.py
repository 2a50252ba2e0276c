# SPDX-License-Identifier: Apache-2.0
"""Reads whether a process on a GPU has loaded one library of CUDA from two places."""

from typing import Final

from ci_doctor.checks.check import CheckResult, Cost, DoctorCheck, Need, Problem, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.gpu.gpu_processes import describe_holder
from ci_doctor.checks.gpu.library_files import mapped_twice
from ci_doctor.checks.gpu.nvidia_smi import gpus_of
from ci_doctor.checks.gpu.rules import CUDA_LIBRARY_TWICE
from ci_doctor.checks.gpu.smi_log import SmiProcess

_MOST: Final = 16


def _run(context: CheckContext) -> CheckResult:
    processes: dict[int, SmiProcess] = {}
    gpus = gpus_of(context)
    unlisted = [gpu.label for gpu in gpus if gpu.processes is None]
    for gpu in gpus:
        for process in gpu.processes or ():
            processes[process.pid] = process
    problems: list[Problem] = []
    hidden = max(0, len(processes) - _MOST)
    for process in list(processes.values())[:_MOST]:
        try:
            problems.extend(_of_process(process, context))
        except OSError:  # another user's
            hidden += 1
    unknown = None
    if hidden:
        unknown = f"{hidden} of {len(processes)} processes on the GPUs may not be looked into"
    if unlisted:
        unknown = f"the driver does not list the processes on {', '.join(unlisted)}"
    summary = "no library is loaded twice"
    if problems:
        summary = problems[0].finding.summary
    return CheckResult(summary=summary, problems=tuple(problems), unknown=unknown)


def _of_process(process: SmiProcess, context: CheckContext) -> list[Problem]:
    """Raises OSError if this user may not look into it."""
    if describe_holder(process, context).facts is None:
        return []
    problems = []
    for library, paths in mapped_twice(context.proc / str(process.pid) / "maps"):
        words = f"pid {process.pid} has loaded {library} from {' and '.join(paths)}"
        remedy = "Restart it in an environment with one version of the library."
        problems.append(problem(CUDA_LIBRARY_TWICE, words, remedy=remedy))
    return problems


CHECK = DoctorCheck(
    id="gpu/loaded-libraries",
    title="CUDA libraries that a process on a GPU has loaded twice",
    need=Need.GPU,
    cost=Cost.GPU_DRIVER,
    run=_run,
)
