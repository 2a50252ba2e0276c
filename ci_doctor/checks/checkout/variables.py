# SPDX-License-Identifier: Apache-2.0
"""Reads git: whether variables of the job lead it to another repository than that of the checkout."""

import os
from pathlib import Path

from ci_doctor.checks.check import Cost, DoctorCheck, Need
from ci_doctor.checks.checkout.git_reading import read_place
from ci_doctor.checks.checkout.rules import GIT_ELSEWHERE
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.result import CheckResult, problem
from ci_doctor.git import ELSEWHERE
from ci_doctor.model.finding import Evidence, ShellCommand

_PLACES = ("--show-toplevel", "--absolute-git-dir")
# What each of the others replaces, below the directory that git uses.
_PARTS = {"GIT_INDEX_FILE": "index", "GIT_OBJECT_DIRECTORY": "objects"}
_ALWAYS_ELSEWHERE = ("GIT_NAMESPACE", "GIT_SHALLOW_FILE", "GIT_GRAFT_FILE")


def _run(context: CheckContext) -> CheckResult:
    environ = context.environ
    named = sorted(name for name in environ if name in ELSEWHERE and environ[name])
    if not named:
        return CheckResult(summary="no variable leads git elsewhere")
    place = context.shared(read_place)
    ran = context.run(["git", "rev-parse", *_PLACES], environ={**environ, "LC_ALL": "C"})
    lines = ran.stdout.splitlines()
    if ran.exit_code == 0 and len(lines) == len(_PLACES):
        is_same = _is_same(lines[0], place.top) and _is_same(lines[1], place.git_dir)
        where = f"git works in {lines[1]} and not in {place.git_dir}"
    else:
        is_same = False
        where = f"git fails with them ({ran.last_words})"
    parts = [name for name in named if _is_other_part(context, name, place.git_dir)]
    if is_same and not parts:
        return CheckResult(summary=f"{', '.join(named)}: git works in this checkout")
    if is_same:
        where = f"{' and '.join(parts)} replaces a part of {place.git_dir}"
    summary = f"{' and '.join(named)} is set: {where}"
    lines = [f"{name}={environ[name]}" for name in named]
    fault = problem(
        GIT_ELSEWHERE,
        summary,
        evidence=(Evidence(excerpt="\n".join(lines)),),
        remedy=ShellCommand(f"unset {' '.join(named)}"),
    )
    return CheckResult(summary=summary, problems=(fault,))


def _is_same(first: str, second: Path) -> bool:
    return os.path.realpath(first) == os.path.realpath(second)


def _is_other_part(context: CheckContext, name: str, git_dir: Path) -> bool:
    value = context.environ.get(name, "")
    if name in _ALWAYS_ELSEWHERE:
        return bool(value)
    if name not in _PARTS or not value:
        return False
    return not _is_same(str(context.cwd / value), git_dir / _PARTS[name])


CHECK = DoctorCheck(
    id="checkout/variables",
    title="variables that lead git elsewhere",
    need=Need.GIT_CHECKOUT,
    cost=Cost.PROGRAM,
    run=_run,
)
