# SPDX-License-Identifier: Apache-2.0
"""Acts on interpreters: reads their preload shims, and repairs with `--fix` what was cut off."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ci_doctor.checks.check import Cost, DoctorCheck, Need
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.leftovers.rules import DAMAGED_SHIM
from ci_doctor.checks.result import CheckResult, Fix, Problem, problem
from ci_doctor.model.finding import ShellCommand

if TYPE_CHECKING:  # the room of shims is loaded if there is an interpreter to look at
    from ci_doctor.preload.site import FileCondition
    from ci_doctor.preload.status import ShimStatus


def _run(context: CheckContext) -> CheckResult:
    from ci_doctor.preload.status import status

    problems: list[Problem] = []
    clauses = []
    for target in context.targets:
        shim = status(target.python)
        clauses.append(f"{target.python}: {_state(shim)}")
        bad = _bad_files(shim)
        if bad:
            problems.append(_problem(shim, bad))
    return CheckResult(summary=", ".join(clauses), problems=tuple(problems))


def _state(shim: "ShimStatus") -> str:
    if shim.installed:
        return "a whole shim"
    if _bad_files(shim):
        return "a damaged shim"
    return "no shim"


def _bad_files(shim: "ShimStatus") -> dict[str, "FileCondition"]:
    from ci_doctor.preload.site import FileCondition

    bad = {FileCondition.DAMAGED, FileCondition.EDITED}
    return {name: each for name, each in shim.files.items() if each in bad}


def _problem(shim: "ShimStatus", bad: dict[str, "FileCondition"]) -> Problem:
    from ci_doctor.preload.preload_rule import format_rules
    from ci_doctor.preload.site import FileCondition

    files = ", ".join(f"{name} ({condition})" for name, condition in bad.items())
    python = shim.target.python
    summary = f"the preload shim in {shim.target.site_dir} is not whole: {files}"
    if FileCondition.EDITED in bad.values():
        remedy = ShellCommand(f"ci-doctor preload status --python {python}")
        return problem(DAMAGED_SHIM, summary, remedy=remedy)
    remedy = ShellCommand("ci-doctor doctor --fix leftovers/shims")
    found = problem(DAMAGED_SHIM, summary, remedy=remedy)
    if shim.rules:
        rules = ", ".join(format_rules(shim.rules))
        words = f"write the preload shim in {shim.target.site_dir} anew, with {rules}"
    else:
        words = f"remove what is left of the preload shim in {shim.target.site_dir}"
    return found.with_fix(Fix(words=words, apply=partial(_repair, python)))


def _repair(python: Path) -> None:
    """Look again, then install the rules that are known, or remove the rest. Raises CiDoctorError."""
    from ci_doctor.preload.install import install_shims, remove_shims
    from ci_doctor.preload.site import FileCondition
    from ci_doctor.preload.status import status

    shim = status(python)
    if FileCondition.DAMAGED not in shim.files.values():
        return
    if shim.rules:
        install_shims([python], shim.rules, dry_run=False)
    else:
        remove_shims([python], dry_run=False)


CHECK = DoctorCheck(
    id="leftovers/shims",
    title="preload shims that were cut off",
    need=Need.INTERPRETER,
    cost=Cost.PROGRAM,
    run=_run,
)
