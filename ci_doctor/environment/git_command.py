# SPDX-License-Identifier: Apache-2.0
"""Reads git: one command in one checkout, with the variables that point elsewhere left out."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

# Set inside a hook, these would point at another repository (git rev-parse --local-env-vars).
# GIT_CONFIG_* and those of remotes, such as GIT_SSH_COMMAND, are a person's settings.
ELSEWHERE: Final = frozenset(
    {
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_DIR",
        "GIT_GRAFT_FILE",
        "GIT_IMPLICIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_NAMESPACE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_PREFIX",
        "GIT_SHALLOW_FILE",
        "GIT_WORK_TREE",
    }
)


def git_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """`environ` for a git that is to read the checkout of its working directory."""
    kept = {name: value for name, value in environ.items() if name not in ELSEWHERE}
    # A remote that wants a password must not wait for a person.
    kept["GIT_TERMINAL_PROMPT"] = "0"
    return kept


def ask_git(directory: Path, *arguments: str, timeout_s: float = 60) -> str | None:
    """The standard output of a git command; None if it fails or takes longer than `timeout_s`."""
    completed = run_git(directory, arguments, timeout_s=timeout_s)
    return None if completed.returncode else completed.stdout.rstrip("\n")


def run_git(
    directory: Path, arguments: Sequence[str], *, text: str = "", timeout_s: float = 60
) -> "subprocess.CompletedProcess[str]":
    """Run git with `text` on its stdin. A missing git and a time that is over are return codes."""
    environ = git_environment(os.environ)
    command = ["git", *arguments]
    try:
        completed = subprocess.run(
            command,
            cwd=directory,
            env=environ,
            input=text.encode("utf-8", "surrogateescape"),
            capture_output=True,
            check=False,
            timeout=timeout_s,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(command, 124, "", str(error))
    # Not by subprocess, which makes a line end of a carriage return: a file's name may hold one.
    return subprocess.CompletedProcess(
        command,
        completed.returncode,
        completed.stdout.decode("utf-8", "surrogateescape"),
        completed.stderr.decode("utf-8", "surrogateescape"),
    )
