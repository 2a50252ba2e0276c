# SPDX-License-Identifier: Apache-2.0
"""Acts on git: reads the commits of a range, and makes checkouts of them in worktrees of their own."""

import re
import shutil
from pathlib import Path

from msgspec import Struct

from ci_doctor.correctness.localise.bisection import CommitNode
from ci_doctor.errors import InfraError, UsageError
from ci_doctor.git import missing_commit_hint, run_git
from ci_doctor.system.files.access import make_directory

# How git-revert(1) names what it reverts.
_REVERTS = re.compile(r"This reverts commit ([0-9a-f]{7,40})")
# The matrix of ancestors takes a byte for each pair.
_MOST = 5000
_FIELDS = "%H%x00%P%x00%s%x00%B%x01"


class CommitRange(Struct, frozen=True, kw_only=True):
    """The commits that are reachable from `bad` and not from `good`, each after its parents."""

    repository: Path
    good: str
    bad: str
    commits: tuple[CommitNode, ...]


def read_range(directory: Path, words: str) -> CommitRange:
    """The range `GOOD..BAD` of the repository that holds `directory`.

    Raises UsageError for another form, unknown commits, a good one that is no ancestor of the bad one, an
    empty range, and one of more than 5,000 commits.
    """
    good_word, dots, bad_word = words.partition("..")
    if not dots or not good_word or not bad_word or bad_word.startswith("."):
        raise UsageError(f"{words}: not GOOD..BAD", hint="write v0.9.0..HEAD")
    top = run_git(directory, ("rev-parse", "--show-toplevel"))
    if top.returncode:
        raise UsageError(
            f"{directory} is in no checkout that git reads", hint="run it inside the repository"
        )
    repository = Path(top.stdout.rstrip("\n"))
    good, bad = (_commit(repository, each) for each in (good_word, bad_word))
    if run_git(repository, ("merge-base", "--is-ancestor", good, bad)).returncode:
        base = run_git(repository, ("merge-base", good, bad)).stdout.strip()
        raise UsageError(
            f"{good_word} is no ancestor of {bad_word}",
            hint=_range_hint(good_word, bad_word, base, is_swapped=base == bad),
        )
    listed = run_git(
        repository,
        ("log", "--topo-order", "--reverse", "-z", f"--format={_FIELDS}", bad, f"^{good}"),
        timeout_s=None,
    )
    if listed.returncode:
        raise UsageError(f"git cannot list {words}: {listed.stderr.strip()}")
    commits = _commits(listed.stdout)
    if not commits:
        raise UsageError(f"{words} holds no commit", hint="name the good commit first")
    if len(commits) > _MOST:
        raise UsageError(
            f"{words} holds {len(commits)} commits; {_MOST} are searched at most",
            hint="name a good commit that is newer",
        )
    return CommitRange(repository=repository, good=good, bad=bad, commits=commits)


def _range_hint(good_word: str, bad_word: str, base: str, *, is_swapped: bool) -> str:
    """What to write where the good end is no ancestor of the bad one; `base` is their merge base, if any."""
    if not base:
        return "a shallow clone may hide it: git fetch --unshallow"
    # The merge base of swapped ends is the bad one, and would leave an empty range.
    if is_swapped:
        return f"write {bad_word}..{good_word}, the good end first"
    return f"write {base[:12]}..{bad_word}, from their merge base on"


def _commit(repository: Path, word: str) -> str:
    ran = run_git(repository, ("rev-parse", "--verify", "--quiet", f"{word}^{{commit}}"))
    if ran.returncode:
        raise UsageError(f"git knows no commit {word}", hint=missing_commit_hint(repository, word))
    return ran.stdout.strip()


def _commits(listed: str) -> tuple[CommitNode, ...]:
    rows = [each.lstrip("\0\n").split("\0") for each in listed.split("\x01") if each.strip("\0\n")]
    numbers = {row[0]: number for number, row in enumerate(rows)}
    made = []
    for number, (commit, parents, subject, body) in enumerate(rows):
        match = _REVERTS.search(body)
        reverted = None
        if match is not None:
            before = (numbers[row[0]] for row in rows[:number] if row[0].startswith(match[1]))
            reverted = next(before, None)
        known = tuple(numbers[each] for each in parents.split() if each in numbers)
        made.append(CommitNode(id=commit, parents=known, reverts=reverted, subject=subject))
    return tuple(made)


def make_worktree(repository: Path, commit: str, directory: Path) -> None:
    """A checkout of `commit` in `directory`, without any hook of the repository; one that is whole stays.

    Neither the user's checkout nor any branch changes. Raises InfraError if git cannot make it.
    """
    head = run_git(directory, ("rev-parse", "HEAD")) if directory.is_dir() else None
    top = run_git(directory, ("rev-parse", "--show-toplevel")) if head else None
    is_own = top is not None and Path(top.stdout.rstrip("\n")) == directory.resolve()
    if head is not None and is_own and head.stdout.strip() == commit:
        return
    remove_worktree(repository, directory)
    make_directory(directory.parent)
    words = ("-c", "core.hooksPath=/dev/null", "worktree", "add", "--detach", "--force")
    made = run_git(repository, (*words, str(directory), commit), timeout_s=None)
    if made.returncode:
        remove_worktree(repository, directory)
        raise InfraError(f"git makes no worktree of {commit[:12]}: {made.stderr.strip()}")


def remove_worktree(repository: Path, directory: Path) -> None:
    """Remove a worktree, and what git notes of it."""
    # Not `prune`: it forgets worktrees of others on a disk that is not mounted now.
    run_git(
        repository, ("worktree", "remove", "--force", "--force", str(directory)), timeout_s=None
    )
    shutil.rmtree(directory, ignore_errors=True)
