# SPDX-License-Identifier: Apache-2.0
"""Reads the repository and /proc: locks that a killed git has left."""

import contextlib
import os
import shlex
from pathlib import Path

from ci_doctor.checks.check import CheckResult, Cost, DoctorCheck, Need, problem
from ci_doctor.checks.checkout.git_reading import CheckoutPlace, read_place
from ci_doctor.checks.checkout.rules import STALE_GIT_LOCK
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.processes import read_processes
from ci_doctor.model.finding import ShellCommand
from ci_doctor.services.leaks.holding import in_use
from ci_doctor.system import clock

# What git makes next to the file that it is going to replace (lockfile.h).
_ENDING = ".lock"
# No locks that stop a command lie there, and there are thousands of files. Other work trees have
# jobs of their own.
_SKIPPED = frozenset({"objects", "lfs", "hooks", "logs", "worktrees", "rr-cache"})
# Our own git commands take locks for an instant, too.
_LEAST_AGE_S = 60.0


def _run(context: CheckContext) -> CheckResult:
    place = context.shared(read_place)
    locks = _old_locks(place)
    if not locks:
        return CheckResult(summary="no lock of git")
    used = in_use(locks)
    stale = sorted(set(locks) - used)
    if not stale or _is_git_at_work(context, place.top):
        return CheckResult(summary=f"git is at work: {', '.join(locks)}")
    summary = f"no git runs, and {', '.join(stale)} is there"
    remedy = ShellCommand(shlex.join(["rm", *stale]))
    return CheckResult(summary=summary, problems=(problem(STALE_GIT_LOCK, summary, remedy=remedy),))


def _old_locks(place: CheckoutPlace) -> list[str]:
    """The locks of the work tree, of references at any depth, and of submodules."""
    now = clock.epoch()
    locks: dict[str, None] = {}
    for top in dict.fromkeys((place.git_dir, place.common_dir)):
        for folder, folders, files in os.walk(top):
            folders[:] = [name for name in folders if name not in _SKIPPED]
            for name in files:
                path = Path(folder, name)
                with contextlib.suppress(FileNotFoundError):
                    if name.endswith(_ENDING) and now - path.stat().st_mtime >= _LEAST_AGE_S:
                        locks[str(path.resolve())] = None
    return list(locks)


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
