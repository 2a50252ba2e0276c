"""Makes git repositories in a test's own directory."""

import os
import subprocess
from pathlib import Path

# Nothing of the user's own configuration decides a test.
_ENVIRONMENT = {
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
}


def git(directory: Path, *words: str) -> str:
    """What git prints; its failure is an error of the test."""
    ran = subprocess.run(
        ["git", *words],
        cwd=directory,
        env={**os.environ, **_ENVIRONMENT},
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout.strip()


def make_repository(directory: Path, files: dict[str, str] | None = None) -> Path:
    """A repository in `directory` with one commit of `files`."""
    directory.mkdir(parents=True, exist_ok=True)
    git(directory, "init", "--quiet", "--initial-branch=main")
    commit(directory, files or {"README": "x\n"})
    return directory


def commit(directory: Path, files: dict[str, str]) -> None:
    """One more commit, with these `files`."""
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)
    git(directory, "add", "--all")
    git(directory, "commit", "--quiet", "--message=x")
