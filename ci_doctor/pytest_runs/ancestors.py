# SPDX-License-Identifier: Apache-2.0
"""Reads git: the base of a change and the commits before it, for questions to a history."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from ci_doctor.git import ask_git

# A history is asked for some of them; most commits of a busy branch have no run.
_MOST: Final = 500


def base_and_ancestors(
    directory: Path, reference: str | None, environ: Mapping[str, str]
) -> tuple[str, ...]:
    """The base of HEAD and its first-parent ancestors, the base first; empty if git knows none.

    The base is the merge base with `reference`, else with the base branch of the pull request, else
    with the default branch. It is `HEAD^` if that is HEAD itself, or if no such branch is known.
    """
    head = ask_git(directory, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    base = None
    for name in _names(reference, environ):
        base = ask_git(directory, "merge-base", "HEAD", name)
        if base:
            break
    if not base or base == head:
        base = ask_git(directory, "rev-parse", "--verify", "--quiet", "HEAD^{commit}^")
    if not base:
        return ()
    words = ("rev-list", "--first-parent", f"--max-count={_MOST}", base)
    return tuple((ask_git(directory, *words) or "").split())


def _names(reference: str | None, environ: Mapping[str, str]) -> Iterator[str]:
    if reference is not None:
        yield reference
        return
    for variable in ("BUILDKITE_PULL_REQUEST_BASE_BRANCH", "BUILDKITE_PIPELINE_DEFAULT_BRANCH"):
        branch = environ.get(variable)
        # A checkout of Buildkite has no branches of its own.
        if branch:
            yield f"refs/remotes/origin/{branch}"
            yield f"refs/heads/{branch}"
            return
    yield "refs/remotes/origin/HEAD"
