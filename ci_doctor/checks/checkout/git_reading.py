# SPDX-License-Identifier: Apache-2.0
"""Reads git: the checkout of the job, for all checks of this area."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.result import UndeterminedError
from ci_doctor.git import git_environment
from ci_doctor.system.processes.limited_runs import SeparateRun


class CheckoutPlace(Struct, frozen=True, kw_only=True):
    """Where a checkout is.

    `top` is its first directory. `git_dir` is its own part of the repository, `common_dir` what all
    work trees share.
    """

    top: Path
    git_dir: Path
    common_dir: Path
    is_shallow: bool


def run_git(context: CheckContext, *words: str) -> SeparateRun:
    """Run git in the job's directory; it takes no lock and changes nothing. Raises OSError."""
    environ = git_environment(context.environ)
    environ["GIT_OPTIONAL_LOCKS"] = "0"
    environ["LC_ALL"] = "C"
    return context.run(["git", *words], environ=environ)


def read_place(context: CheckContext) -> CheckoutPlace:
    """Where the checkout is. Raises UndeterminedError if git does not read it.

    For CheckContext.shared.
    """
    ran = context.shared(read_git_directory)
    lines = ran.stdout.splitlines()
    if ran.exit_code != 0 or len(lines) != 4:
        # One check says why; the others need not repeat it.
        raise UndeterminedError("git does not read this checkout: see checkout/owner")
    top, git_dir, common, shallow = lines
    # The shared part is relative to the working directory, unlike the others.
    return CheckoutPlace(
        top=Path(top),
        git_dir=Path(git_dir),
        common_dir=context.cwd / common,
        is_shallow=shallow == "true",
    )


def read_git_directory(context: CheckContext) -> SeparateRun:
    """What git says of the checkout. Raises UndeterminedError if there is no git.

    For CheckContext.shared.
    """
    try:
        return run_git(
            context,
            "rev-parse",
            "--show-toplevel",
            "--absolute-git-dir",
            "--git-common-dir",
            "--is-shallow-repository",
        )
    except FileNotFoundError as error:
        raise UndeterminedError("there is no git on PATH") from error


def read_git_config(context: CheckContext) -> Mapping[str, str]:
    """The configuration that holds in the checkout, with names in lower case; of several, the last.

    For CheckContext.shared. Raises UndeterminedError.
    """
    context.shared(read_place)
    ran = run_git(context, "config", "--list", "-z")
    if ran.exit_code != 0:
        raise UndeterminedError(f"git config: {ran.last_words}")
    values = {}
    for entry in ran.stdout.split("\0"):
        name, _, value = entry.partition("\n")
        values[name.lower()] = value
    return values


def first_line(text: str) -> str:
    """The first line of what git says, without `fatal: `."""
    lines = text.strip().splitlines() or ["no reason given"]
    return lines[0].removeprefix("fatal: ")
