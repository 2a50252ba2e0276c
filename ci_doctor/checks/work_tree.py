# SPDX-License-Identifier: Apache-2.0
"""Reads git and the repository: files and submodules that are not as committed, locks, half a rebase."""

import contextlib
import os
import shlex
from pathlib import Path
from typing import Final

from ci_doctor.checks.check import CheckResult, Cost, Findings, Need, check, problem
from ci_doctor.checks.checkout import CheckoutPlace, output_of, read_place
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.processes import read_processes
from ci_doctor.model.finding import Evidence, Rule, Severity, ShellCommand
from ci_doctor.render.formatting import amount
from ci_doctor.services.leak_places import in_use
from ci_doctor.system import clock

_SHOWN = 10

SUBMODULES: Final = Rule(
    id="doctor/submodules",
    severity=Severity.WARNING,
    meaning="Submodules are not checked out, or not at the commit that the checkout names.",
    remedy="git submodule update --init --recursive",
)
# The first character of a line (git-submodule(1), status).
_ABSENT = "not checked out"
_STATES = {"-": _ABSENT, "+": "at another commit", "U": "in a merge conflict"}


@check("checkout/submodules", title="submodules", need=Need.GIT_CHECKOUT, cost=Cost.PROGRAM)
def submodules(context: CheckContext) -> Findings:
    top = context.shared(read_place).top
    if not (top / ".gitmodules").exists():
        return "no submodules"
    lines = output_of(context, "-C", str(top), "submodule", "status").splitlines()
    bad = []
    for line in lines:
        state = _STATES.get(line[:1])
        if state is not None:
            # The path, and after it what describes the commit, if that is known.
            rest = line[1:].split(" ", 1)[1]
            bad.append(f"{rest.rpartition(' (')[0] or rest} is {state}")
    if not bad:
        return f"submodules at their commits: {len(lines)}"
    more = f", and {len(bad) - 1} more submodules" if len(bad) > 1 else ""
    # The checkout of Buildkite's agent obeys it.
    is_wanted = context.environ.get("BUILDKITE_GIT_SUBMODULES", "") != "false"
    is_absent_alone = all(words.endswith(_ABSENT) for words in bad)
    yield problem(
        SUBMODULES,
        f"the submodule {bad[0]}{more}",
        evidence=(Evidence(excerpt="\n".join(bad[:_SHOWN])),),
        remedy=ShellCommand("git submodule update --init --recursive"),
        severity=Severity.WARNING if is_wanted or not is_absent_alone else Severity.NOTE,
    )
    return f"{len(bad)} of {len(lines)} not as committed"


LFS_POINTERS: Final = Rule(
    id="doctor/lfs-pointers",
    severity=Severity.WARNING,
    meaning="Files that Git LFS keeps are pointers here: some lines of text in place of their content.",
    remedy="git lfs install --local && git lfs pull",
)
# How a pointer begins, and the bytes that it has at most (git-lfs, docs/spec.md).
_BEGINS = b"version https://git-lfs.github.com/spec/"
_LONGEST = 1024


@check("checkout/lfs", title="files of Git LFS", need=Need.GIT_CHECKOUT, cost=Cost.PROGRAM)
def lfs(context: CheckContext) -> Findings:
    top = context.shared(read_place).top
    # By the attribute, so that no other file is looked at.
    listed = output_of(context, "-C", str(top), "ls-files", "-z", "--", ":(attr:filter=lfs)")
    names = [name for name in listed.split("\0") if name]
    if not names:
        return "no file of Git LFS"
    pointers = [name for name in names if _is_pointer(top / name)]
    summary = f"{len(pointers)} of {len(names)} files of Git LFS are pointers"
    # Whoever sets it asks git for pointers (git-lfs-smudge(1)).
    is_wanted = context.environ.get("GIT_LFS_SKIP_SMUDGE", "") in {"", "0", "false"}
    if pointers:
        yield problem(
            LFS_POINTERS,
            f"{summary}, such as {pointers[0]}",
            evidence=(Evidence(excerpt="\n".join(pointers[:_SHOWN])),),
            remedy=ShellCommand("git lfs install --local && git lfs pull"),
            severity=Severity.WARNING if is_wanted else Severity.NOTE,
        )
    return summary


def _is_pointer(path: Path) -> bool:
    with contextlib.suppress(OSError):  # not checked out, or gone
        if path.stat().st_size <= _LONGEST:
            return path.read_bytes().startswith(_BEGINS)
    return False


DIRTY_CHECKOUT: Final = Rule(
    id="doctor/dirty-checkout",
    severity=Severity.NOTE,
    meaning="Files under version control differ from the commit. If nothing of this job has changed "
    "them, an earlier one has.",
    remedy="git status; git stash",
)


@check(
    "checkout/changes",
    title="files that differ from the commit",
    need=Need.GIT_CHECKOUT,
    cost=Cost.PROGRAM,
)
def changes(context: CheckContext) -> Findings:
    context.shared(read_place)
    # Submodules have a check of their own.
    options = ("--porcelain", "--untracked-files=no", "--ignore-submodules=all")
    lines = output_of(context, "status", *options).splitlines()
    if not lines:
        return "no file differs from the commit"
    summary = f"{amount(len(lines), 'file')} under version control differ from the commit"
    yield problem(
        DIRTY_CHECKOUT,
        summary,
        evidence=(Evidence(excerpt="\n".join(lines[:_SHOWN])),),
        remedy=ShellCommand(
            "git stash  # what is changed: git diff --stat HEAD; back again: git stash pop"
        ),
    )
    return CheckResult(summary=summary, figures={"files": len(lines)})


STALE_GIT_LOCK: Final = Rule(
    id="doctor/stale-git-lock",
    severity=Severity.WARNING,
    meaning="A killed git has left its lock, so git refuses each command that would take it again.",
    remedy="Remove the file, if no git runs in this checkout.",
)
# No locks that stop a command lie there, and there are thousands of files. Other work trees have
# jobs of their own.
_SKIPPED = frozenset({"objects", "lfs", "hooks", "logs", "worktrees", "rr-cache"})
# Our own git commands take locks for an instant, too.
_LEAST_AGE_S = 60.0


@check(
    "checkout/locks",
    title="locks that a killed git has left",
    need=Need.GIT_CHECKOUT,
    cost=Cost.PROGRAM,
)
def locks(context: CheckContext) -> Findings:
    place = context.shared(read_place)
    old = _old_locks(place)
    if not old:
        return "no lock of git"
    stale = sorted(set(old) - in_use(old))
    if not stale or _is_git_at_work(context, place.top):
        return f"git is at work: {', '.join(old)}"
    summary = f"no git runs, and {', '.join(stale)} is there"
    yield problem(STALE_GIT_LOCK, summary, remedy=ShellCommand(shlex.join(["rm", *stale])))
    return summary


def _old_locks(place: CheckoutPlace) -> list[str]:
    """The locks of the work tree, of references at any depth, and of submodules."""
    now = clock.epoch()
    old: dict[str, None] = {}
    for top in dict.fromkeys((place.git_dir, place.common_dir)):
        for folder, folders, files in os.walk(top):
            folders[:] = [name for name in folders if name not in _SKIPPED]
            # What git makes next to the file that it is going to replace (lockfile.h).
            for name in files:
                path = Path(folder, name)
                with contextlib.suppress(FileNotFoundError):
                    if name.endswith(".lock") and now - path.stat().st_mtime >= _LEAST_AGE_S:
                        old[str(path.resolve())] = None
    return list(old)


def _is_git_at_work(context: CheckContext, top: Path) -> bool:
    """Whether a git that is none of ours works in the checkout, or where we may not look."""
    for process in context.shared(read_processes).values():
        # Other checks run git at this moment.
        if process.kin.name != "git" or process.kin.parent == os.getpid():
            continue
        try:
            if (context.proc / str(process.pid) / "cwd").readlink().is_relative_to(top):
                return True
        except FileNotFoundError:
            continue
        except OSError:
            return True
    return False


UNFINISHED: Final = Rule(
    id="doctor/git-unfinished",
    severity=Severity.WARNING,
    meaning="A rebase, merge, cherry-pick, revert or bisection has begun in this checkout and not "
    "ended. Files and HEAD may not be those of the commit, and git refuses the next one.",
    remedy="The command in the report ends it and keeps the commit. `--abort` goes back to the "
    "commit at which it began.",
)
# The commit that the job has checked out stays: `--abort` would go back to where it began.
_CLEAN = "git reset --quiet --hard"
# What git keeps in its directory meanwhile (wt-status.c, wt_status_get_state), and what forgets it.
_BEGUN = (
    ("rebase-merge", "a rebase", f"git rebase --quit && {_CLEAN}"),
    ("rebase-apply/applying", "git am", f"git am --quit && {_CLEAN}"),
    ("rebase-apply", "a rebase", f"git rebase --quit && {_CLEAN}"),
    # Before Git 2.35, `--quit` of these two keeps CHERRY_PICK_HEAD; a hard reset removes it.
    ("CHERRY_PICK_HEAD", "a cherry-pick", f"git cherry-pick --quit; {_CLEAN}"),
    ("REVERT_HEAD", "a revert", f"git revert --quit; {_CLEAN}"),
    ("MERGE_HEAD", "a merge", f"git merge --quit && {_CLEAN}"),
    ("BISECT_LOG", "a bisection", "git bisect reset HEAD"),
)
# A part of another one: `git am` applies, and a rebase picks each commit by a cherry-pick of its own.
_PARTS_OF = {"rebase-apply": "rebase-apply/applying", "CHERRY_PICK_HEAD": "rebase-merge"}


@check(
    "checkout/unfinished",
    title="a rebase, merge or bisection that is not ended",
    need=Need.GIT_CHECKOUT,
    cost=Cost.PROGRAM,
)
def unfinished(context: CheckContext) -> Findings:
    place = context.shared(read_place)
    there = {row[0] for row in _BEGUN if (place.git_dir / row[0]).exists()}
    begun = [row for row in _BEGUN if row[0] in there and _PARTS_OF.get(row[0]) not in there]
    if not begun:
        return "no rebase, merge or bisection is under way"
    names = " and ".join(dict.fromkeys(name for _, name, _ in begun))
    steps = " && ".join(dict.fromkeys(command for _, _, command in begun))
    summary = f"{names} was begun in {place.top} and is not ended"
    yield problem(
        UNFINISHED,
        summary,
        evidence=tuple(Evidence(file=str(place.git_dir / file)) for file, _, _ in begun),
        remedy=ShellCommand(f"{steps}  # keeps the commit, drops what the half of it has changed"),
    )
    return summary
