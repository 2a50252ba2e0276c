# SPDX-License-Identifier: Apache-2.0
"""Reads git and files: whether files of Git LFS are pointers still."""

import contextlib
from pathlib import Path

from ci_doctor.checks.check import CheckResult, Cost, DoctorCheck, Need, UndeterminedError, problem
from ci_doctor.checks.checkout.git_reading import read_place, run_git
from ci_doctor.checks.checkout.rules import LFS_POINTERS
from ci_doctor.checks.context import CheckContext
from ci_doctor.model.finding import Evidence, Severity, ShellCommand

# How a pointer begins, and the bytes that it has at most (git-lfs, docs/spec.md).
_BEGINS = b"version https://git-lfs.github.com/spec/"
_LONGEST = 1024
_SHOWN = 10


def _run(context: CheckContext) -> CheckResult:
    top = context.shared(read_place).top
    # By the attribute, so that no other file is looked at.
    ran = run_git(context, "-C", str(top), "ls-files", "-z", "--", ":(attr:filter=lfs)")
    if ran.exit_code != 0:
        raise UndeterminedError(f"git ls-files: {ran.last_words}")
    names = [name for name in ran.stdout.split("\0") if name]
    if not names:
        return CheckResult(summary="no file of Git LFS")
    pointers = [name for name in names if _is_pointer(top / name)]
    summary = f"{len(pointers)} of {len(names)} files of Git LFS are pointers"
    if not pointers:
        return CheckResult(summary=summary)
    # Whoever sets it asks git for pointers (git-lfs-smudge(1)).
    is_wanted = context.environ.get("GIT_LFS_SKIP_SMUDGE", "") in {"", "0", "false"}
    unfetched = problem(
        LFS_POINTERS,
        f"{summary}, such as {pointers[0]}",
        evidence=(Evidence(excerpt="\n".join(pointers[:_SHOWN])),),
        remedy=ShellCommand("git lfs install --local && git lfs pull"),
        severity=Severity.WARNING if is_wanted else Severity.NOTE,
    )
    return CheckResult(summary=summary, problems=(unfetched,))


def _is_pointer(path: Path) -> bool:
    with contextlib.suppress(OSError):  # not checked out, or gone
        if path.stat().st_size <= _LONGEST:
            return path.read_bytes().startswith(_BEGINS)
    return False


CHECK = DoctorCheck(
    id="checkout/lfs",
    title="files of Git LFS",
    need=Need.GIT_CHECKOUT,
    cost=Cost.PROGRAM,
    run=_run,
)
