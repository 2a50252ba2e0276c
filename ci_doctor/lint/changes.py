# SPDX-License-Identifier: Apache-2.0
"""Reads git: the lines that differ between a base and the files as they lie in the directory."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ci_doctor.errors import InfraError, UsageError
from ci_doctor.git import ask_git
from ci_doctor.lint.changed_lines import ChangedLines, Lines

# `@@ -3,2 +4,0 @@`; a count of 1 is left out.
_HUNK: Final = re.compile(r"^@@ -\S+ \+(?P<first>\d+)(?:,(?P<count>\d+))? @@", re.MULTILINE)
_FILE: Final = re.compile(r"^diff --git ", re.MULTILINE)
# Whatever a person has configured: one header for each file, no context, binary files as text.
_DIFF: Final = (
    "diff",
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--text",
    "--unified=0",
    "--inter-hunk-context=0",
    "--find-renames",
    "--submodule=short",
    "--ignore-submodules=all",
    "--diff-filter=d",
    "--no-relative",
)
_EVERY_LINE: Final = ((1, 2**31),)


def changed_since(root: Path, reference: str) -> ChangedLines:
    """What differs from the merge base of `reference` and HEAD, uncommitted and new files included.

    Raises UsageError if git knows no such commit, or no common one; InfraError if it cannot compare.
    """
    base = _merge_base(root, reference)
    names = _names(root, base)
    patch = ask_git(root, *_DIFF, base, "--")
    untracked = ask_git(root, "ls-files", "-z", "--others", "--exclude-standard")
    if names is None or patch is None or untracked is None:
        raise _incomparable(base)
    lines = dict(_ranges(names, patch, base))
    for name in untracked.split("\0"):
        if name:
            lines[name] = _EVERY_LINE
    return ChangedLines(base=base, lines=lines)


def _merge_base(root: Path, reference: str) -> str:
    commit = ask_git(
        root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{reference}^{{commit}}"
    )
    if not commit:
        raise UsageError(
            f"git knows no commit {reference}", hint=f"fetch it: git fetch origin {reference}"
        )
    base = ask_git(root, "merge-base", commit, "HEAD")
    if not base:
        raise UsageError(
            f"{reference} and HEAD have no common commit here",
            hint="a shallow clone lacks it: git fetch --unshallow, or --deepen=1000",
        )
    return base.splitlines()[0]


def _names(root: Path, base: str) -> list[str] | None:
    """The present names of the changed files, in the order of the patch."""
    listed = ask_git(root, *_DIFF, "--name-only", "-z", base, "--")
    if listed is None:
        return None
    return [name for name in listed.split("\0") if name]


def _ranges(names: list[str], patch: str, base: str) -> Iterator[tuple[str, Lines]]:
    """The changed ranges of each file. The n-th header of a patch belongs to the n-th name."""
    # A header's own name is quoted in several ways; `--name-only -z` quotes none.
    bodies = _FILE.split(patch)[1:]
    if len(bodies) != len(names):
        raise _incomparable(base)
    for name, body in zip(names, bodies, strict=True):
        yield name, tuple(_hunk_lines(body))


def _hunk_lines(body: str) -> Iterator[tuple[int, int]]:
    for match in _HUNK.finditer(body):
        first = int(match["first"])
        count = int(match["count"] or 1)
        # Lines were only removed: the ones before and after the gap stand beside the change.
        if count == 0:
            yield max(first, 1), first + 1
        else:
            yield first, first + count - 1


def _incomparable(base: str) -> InfraError:
    return InfraError(
        f"git cannot compare the files with {base[:12]}", hint=f"git diff {base[:12]}"
    )
