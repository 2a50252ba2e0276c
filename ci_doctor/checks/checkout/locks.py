# SPDX-License-Identifier: Apache-2.0
"""Reads the repository and /proc: locks that a killed git has left."""

import os
import shlex
from pathlib import Path

from ci_doctor.checks.check import Cost, DoctorCheck, Need
from ci_doctor.checks.checkout.git_reading import read_place
from ci_doctor.checks.checkout.rules import STALE_GIT_LOCK
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.processes import read_processes
from ci_doctor.checks.result import CheckResult, problem
from ci_doctor.model.finding import ShellCommand
from ci_doctor.services.leaks.holding import in_use
from ci_doctor.system import clock

_NAMES = ("index.lock", "HEAD.lock", "config.lock", "shallow.lock", "packed-refs.lock")
# Our own git commands take locks for an instant, too.
_LEAST_AGE_S = 60.0


def _run(context: CheckContext) -> CheckResult:
    place = context.shared(read_place)
    now = clock.epoch()
    locks = []
    for folder in dict.fromkeys((place.git_dir, place.common_dir)):
        for name in _NAMES:
            path = folder / name
            if path.exists() and now - path.stat().st_mtime >= _LEAST_AGE_S:
                locks.append(str(path.resolve()))
    if not locks:
        return CheckResult(summary="no lock of git")
    used = in_use(locks)
    stale = sorted(set(locks) - used)
    if not stale or _is_git_at_work(context, place.top):
        return CheckResult(summary=f"git is at work: {', '.join(locks)}")
    summary = f"no git runs, and {', '.join(stale)} is there"
    remedy = ShellCommand(shlex.join(["rm", *stale]))
    return CheckResult(summary=summary, problems=(problem(STALE_GIT_LOCK, summary, remedy=remedy),))


def _is_git_at_work(context: CheckContext, top: Path) -> bool:
    """Whether a git that is none of ours works in the checkout, or where we may not look."""
    for process in context.shared(read_processes).values():
        # Other checks run git at this moment.
        if process.kin.name != "git" or process.kin.parent == os.getpid():
            continue
        try:
            directory = (context.proc / str(process.pid) / "cwd").readlink()
        except FileNotFoundError:
            continue
        except OSError:
            return True
        if directory.is_relative_to(top):
            return True
    return False


CHECK = DoctorCheck(
    id="checkout/locks",
    title="locks that a killed git has left",
    need=Need.GIT_CHECKOUT,
    cost=Cost.PROGRAM,
    run=_run,
)
