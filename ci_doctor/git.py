# SPDX-License-Identifier: Apache-2.0
"""Reads git: the one door to it, by GitPython's command object.

GitPython is imported where a command runs: its import takes 60 ms. Its reading of
references in Python is not used, because it knows neither `safe.directory` nor the reftable format. Its own
deadline is not used, because it needs pgrep or ps, which a slim image has not: a command runs `as_process`.
"""

import os
import shutil
import signal
import subprocess
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ci_doctor.model.words import nearest

if TYPE_CHECKING:
    from git.cmd import Git

# Set inside a hook, these would point at another repository (git rev-parse --local-env-vars).
# GIT_CONFIG_* and those of remotes, such as GIT_SSH_COMMAND, are a person's settings.
ELSEWHERE: Final = (
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
)
# The exit code of timeout(1): the command had no end, or could not be started.
_NO_ANSWER: Final = 124
# Enough for a repository on a slow disk; a report must not wait longer for a line of its header.
_HEADER_LIMIT_S: Final = 5.0
_OBJECT_LIMIT_S: Final = 60.0
# git-ls-remote(1) without a person: ssh has no terminal to ask on, and these ask in its place.
_NOBODY_TO_ASK: Final = {"SSH_ASKPASS": "false", "GIT_ASKPASS": "false"}


# GitPython's import runs `git version` twice, without a deadline: a git that hangs would hang us.
# Both variables are its own (its documentation, "git.refresh"). Nobody can execute a directory, and it does not complain.
_NO_GIT_AT_IMPORT: Final = {
    "GIT_PYTHON_GIT_EXECUTABLE": "/",
    "GIT_PYTHON_REFRESH": "quiet",
}


class GitRun(Struct, frozen=True, kw_only=True):
    """How a git command ended.

    `returncode` is 124 if there is no git, or if the time was over; `stderr` then says which. Bytes that are
    not UTF-8 are surrogates in both texts.
    """

    returncode: int
    stdout: str = ""
    stderr: str = ""


class Head(Struct, frozen=True, kw_only=True):
    """The commit that is checked out, and its branch: None if HEAD is detached."""

    commit: str
    branch: str | None


class Checkout(Struct, frozen=True, kw_only=True):
    """The commit that is checked out, and whether tracked files differ from it (`dirty`).

    `branch` is None if HEAD is detached.
    """

    commit: str
    branch: str | None
    dirty: bool


def git_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """`environ` for a git that is to read the checkout of its working directory."""
    kept = {name: value for name, value in environ.items() if name not in ELSEWHERE}
    # A remote that wants a password must not wait for a person.
    kept["GIT_TERMINAL_PROMPT"] = "0"
    return kept


def run_git(
    directory: Path,
    arguments: Sequence[str],
    *,
    text: str = "",
    timeout_s: float | None = 60,
    variables: Mapping[str, str] | None = None,
) -> GitRun:
    """Run git in `directory` with `text` on its stdin, and `variables` beside those of this process.

    What it started, such as ssh, ends with it if the time is over.
    """
    # GitPython would run in our own directory where it may not enter this one.
    if not os.access(directory, os.X_OK):
        return GitRun(returncode=_NO_ANSWER, stderr=f"{directory}: it cannot be entered")
    try:
        command = _command(directory)
        with _errors_of_gitpython():
            running = command.execute(
                [*_without_elsewhere(), "git", *arguments],
                istream=subprocess.PIPE,
                as_process=True,
                env={**(variables or {}), "GIT_TERMINAL_PROMPT": "0"},
                start_new_session=True,
            )
    except OSError as error:
        return GitRun(returncode=_NO_ANSWER, stderr=str(error))
    try:
        stdout, stderr = running.communicate(
            text.encode("utf-8", "surrogateescape"), timeout=timeout_s
        )
    except subprocess.TimeoutExpired:
        _end_group(running.pid)
        return GitRun(returncode=_NO_ANSWER, stderr=f"no answer within {timeout_s:g} s")
    except BaseException:
        if running.returncode is None:
            _end_group(running.pid)
        raise
    # Not by universal newlines, which make a line end of a carriage return: a file's name may hold one.
    return GitRun(returncode=running.returncode, stdout=_decoded(stdout), stderr=_decoded(stderr))


def ask_git(directory: Path, *arguments: str, timeout_s: float | None = 60) -> str | None:
    """The standard output of a git command; None if it fails or takes longer than `timeout_s`."""
    ran = run_git(directory, arguments, timeout_s=timeout_s)
    return None if ran.returncode else ran.stdout.rstrip("\n")


def missing_commit_hint(directory: Path, reference: str) -> str:
    """What to do about a `reference` that names no commit here."""
    if reference == "HEAD":
        return "this branch has no commit yet: commit first, or name another one"
    listed = ask_git(
        directory,
        "for-each-ref",
        "--format=%(refname:short)",
        "refs/heads",
        "refs/tags",
        "refs/remotes",
    )
    names = set((listed or "").split())
    remotes = set((ask_git(directory, "remote") or "").split())
    # The short name of `refs/remotes/origin/HEAD` is `origin`.
    names |= {"HEAD", *(f"{remote}/HEAD" for remote in remotes & names)}
    near = nearest(reference, names - remotes)
    asked = f"did you mean `{near}`? Or " if near is not None else ""
    remote, slash, branch = reference.partition("/")
    if slash and remote in remotes:
        refspec = f"{branch}:refs/remotes/{reference}"
        return f"{asked}a clone may lack it: git fetch {remote} {refspec}"
    if near is not None:
        return f"did you mean `{near}`?"
    return f"a clone may lack it: git fetch {min(remotes, default='origin')} {reference}"


def listed_files(root: Path, paths: Sequence[str] = (".",)) -> list[str] | None:
    """Tracked files of `paths`, and untracked ones that are not ignored; None if git cannot list them."""
    options = ("-z", "--cached", "--others", "--exclude-standard")
    listed = ask_git(root, "--literal-pathspecs", "ls-files", *options, "--", *paths)
    if listed is None:
        return None
    return [name for name in listed.split("\0") if name]


def head(directory: Path) -> Head | None:
    """The commit that is checked out, without the state of the files, which git would have to read.

    None if there is no repository, no commit, no git, or if git refuses (another owner).
    """
    if not _may_be_in_a_checkout(directory):
        return None
    words = ("rev-parse", "HEAD", "--abbrev-ref", "HEAD")
    lines = (ask_git(directory, *words, timeout_s=_HEADER_LIMIT_S) or "").splitlines()
    if len(lines) != 2:
        return None
    commit, branch = lines
    return Head(commit=commit, branch=None if branch == "HEAD" else branch)


def checkout(directory: Path) -> Checkout | None:
    """The checkout that holds `directory`; None if there is none, or if git cannot read it."""
    if not _may_be_in_a_checkout(directory):
        return None
    # The form is made for programs (git-status(1), "Porcelain Format Version 2").
    words = ("--porcelain=v2", "--branch", "--untracked-files=no", "--ignore-submodules=all")
    # Without the option, git would write what it has learned into the index.
    printed = ask_git(directory, "--no-optional-locks", "status", *words, timeout_s=None)
    if printed is None:
        return None
    lines = printed.splitlines()
    headers = dict(line[2:].split(" ", 1) for line in lines if line.startswith("# "))
    commit, branch = headers["branch.oid"], headers["branch.head"]
    if commit == "(initial)":
        return None
    return Checkout(
        commit=commit,
        branch=None if branch == "(detached)" else branch,
        dirty=any(not line.startswith("# ") for line in lines),
    )


def origin(directory: Path) -> str | None:
    """The remote `origin` of the repository that holds `directory`, with its credentials, if any."""
    if not _may_be_in_a_checkout(directory):
        return None
    words = ("config", "--get", "remote.origin.url")
    return (ask_git(directory, *words, timeout_s=_HEADER_LIMIT_S) or "").strip() or None


def remote_tags(directory: Path, remote: str, timeout_s: float) -> str | None:
    """What `git ls-remote --tags` prints of `remote`; None if it does not answer. Nobody is asked for a password."""
    words = ("ls-remote", "--tags", "--", remote)
    asking = {name: os.environ.get(name, value) for name, value in _NOBODY_TO_ASK.items()}
    ran = run_git(directory, words, timeout_s=timeout_s, variables=asking)
    return None if ran.returncode else ran.stdout


class GitObjects:
    """The objects of one repository, read through one `git cat-file --batch` that stays."""

    def __init__(self, repository: Path) -> None:
        self._repository = repository
        self._command: Git | None = None
        self._close: weakref.finalize[..., GitObjects] | None = None
        self._lock = threading.Lock()

    def blob(self, name: str, largest: int) -> bytes:
        """The content of the blob with this object id.

        Raises OSError if git cannot give it within 60 s, or if it is larger than `largest` bytes.
        """
        with self._lock:
            command = self._command = self._command or self._open()
            # A clone without blobs asks its remote for each of them.
            watch = threading.Timer(_OBJECT_LIMIT_S, _kill_readers, [command])
            watch.daemon = True
            watch.start()
            try:
                with _errors_of_gitpython():
                    _, kind, size = command.get_object_header(name)
                    # GitPython calls the kind a text, and gives bytes.
                    kind = os.fsdecode(kind)
                    is_read = kind == "blob" and size <= largest
                    content: bytes = command.get_object_data(name)[3] if is_read else b""
            except OSError as error:
                self._end()
                raise OSError(f"git cannot read {name}: {error}") from error
            finally:
                watch.cancel()
        if not is_read:
            raise OSError(
                f"git: {name} is a {kind} of {size} bytes; blobs of {largest} bytes are read at most"
            )
        return content

    def _open(self) -> "Git":
        command = _command(self._repository)
        if any(name in os.environ for name in ELSEWHERE):
            place = (
                "rev-parse",
                "--absolute-git-dir",
                "--path-format=absolute",
                "--git-path",
                "objects",
            )
            lines = (ask_git(self._repository, *place) or "").splitlines()
            if len(lines) != 2:
                raise OSError(f"git does not read {self._repository}")
            # A variable can be replaced for this process, and not taken away.
            command.update_environment(GIT_DIR=lines[0], GIT_OBJECT_DIRECTORY=lines[1])
        # With this object, and in this order: a collector would close the pipes before git is ended.
        self._close = weakref.finalize(self, _end_readers, command)
        return command

    def _end(self) -> None:
        if self._close is not None:
            self._close()
        self._command = None


def _may_be_in_a_checkout(directory: Path) -> bool:
    """Whether it is worth loading GitPython to ask: `.git` stands here or above, or this is a bare repository."""
    place = directory.absolute()
    # Path.exists() raises an error below a folder that may not be entered.
    marks = (above / name for above in (place, *place.parents) for name in (".git", "HEAD"))
    return any(os.access(mark, os.F_OK) for mark in marks)


def _command(directory: Path) -> "Git":
    """GitPython's command object. Raises OSError if there is no git."""
    if shutil.which("git") is None:
        raise FileNotFoundError("there is no git on PATH")
    with _variables(_NO_GIT_AT_IMPORT):
        from git.cmd import Git
    # What `run_git` starts, whatever the variable of this name says.
    Git.GIT_PYTHON_GIT_EXECUTABLE = Git.git_exec_name
    return Git(str(directory))


@contextmanager
def _variables(wanted: Mapping[str, str]) -> Iterator[None]:
    earlier = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in earlier.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _errors_of_gitpython() -> Iterator[None]:
    """Raises OSError for what GitPython raises, such as GitCommandNotFound, which is none."""
    from git.exc import GitError

    try:
        yield
    except (GitError, ValueError) as error:
        # The text of GitCommandNotFound holds the whole command, and so the credentials of an address.
        raise OSError(str(error.__cause__ or error)) from error


def _without_elsewhere() -> list[str]:
    """Words before a command: GitPython replaces variables, and takes none away."""
    names = [name for name in ELSEWHERE if name in os.environ]
    return ["env", *(word for name in names for word in ("-u", name))] if names else []


def _end_group(group: int) -> None:
    """End git, which leads a group of its own, and what it started; it has not been waited for."""
    os.killpg(group, signal.SIGKILL)


def _end_readers(command: "Git") -> None:
    _kill_readers(command)
    # It closes the pipes, and waits for the processes.
    command.clear_cache()


def _kill_readers(command: "Git") -> None:
    for reader in (command.cat_file_header, command.cat_file_all):
        if reader is not None and reader.proc is not None:
            reader.proc.kill()


def _decoded(output: bytes) -> str:
    return output.decode("utf-8", "surrogateescape")
