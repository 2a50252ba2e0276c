# SPDX-License-Identifier: Apache-2.0
"""Acts on files: reads a repository's, bounded in every direction, and what they say of servers; writes those that are proposed."""

import contextlib
import os
import posixpath
import re
import shlex
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Final

from msgspec.structs import replace

from ci_doctor.config.loading import find_config, load_config
from ci_doctor.errors import UsageError
from ci_doctor.git import ask_git, listed_files
from ci_doctor.model.facts.preparing import InitFile, InitLeftOut
from ci_doctor.scaffold.agents import Callers, agents_by_origin, queues_in
from ci_doctor.scaffold.arms import ExistingFiles, ScaffoldFacts, ranked
from ci_doctor.scaffold.candidates import (
    ServerCandidate,
    app_candidate,
    engine_candidate,
    why_left_out,
    without_secrets,
)
from ci_doctor.scaffold.commands import ServerCommand, server_commands
from ci_doctor.scaffold.propose import Proposal
from ci_doctor.scaffold.servers import (
    LEFT_OUT,
    PYTHON_PROGRAM,
    ListedFiles,
    SourceFile,
    TextKind,
    place_of_file,
    text_kind,
)
from ci_doctor.scaffold.texts import HOOK, PRE_COMMIT, hook_place
from ci_doctor.scaffold.words import without_marks
from ci_doctor.system.files.access import read_regular

# Reads a directory: the files of a repository, and the texts of those that may name a server.
#
# Bounded in every direction: how many files are listed, how large one may be, how much is read in all.
# No symbolic link is followed, so nothing outside of the repository is read.

MOST_FILES: Final = 100_000
LARGEST_FILE: Final = 512 << 10
MOST_BYTES: Final = 64 << 20


def read_files(directory: Path) -> ListedFiles:
    """The files of the repository that holds `directory`. Raises UsageError for a bare repository."""
    directory = directory.resolve()
    if ask_git(directory, "rev-parse", "--is-inside-work-tree") == "false":
        raise UsageError(
            f"{directory} lies in a repository without files: it is bare, or the inside of .git",
            hint="run it in a checkout: `git clone` or `git worktree add`",
        )
    top = ask_git(directory, "rev-parse", "--show-toplevel")
    root = Path(top) if top else directory
    listed = _listed_by_git(root) if top else _walked(root)
    # A name may become a word of a command, and there a mark is a live `$`.
    names = sorted(
        {
            name
            for name in listed
            if not (without_marks(name) != name or not LEFT_OUT.isdisjoint(name.split("/")[:-1]))
        }
    )
    inside = directory.relative_to(root).as_posix() if directory.is_relative_to(root) else "."
    files = names
    if inside != ".":
        files = [name[len(inside) + 1 :] for name in names if name.startswith(f"{inside}/")]
    return ListedFiles(
        root=root,
        directory=directory,
        is_repository=top is not None,
        files=tuple(files[:MOST_FILES]),
        root_files=tuple(names[:MOST_FILES]),
        is_whole=len(names) <= MOST_FILES,
    )


class TextReader:
    """Reads the texts of one directory, up to all that may be read."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory.resolve()
        self._left = MOST_BYTES
        self.skipped: list[str] = []

    def text(self, name: str) -> str | None:
        """The text of a file; None for a link, for what is no file, and beyond the limits.

        Bytes that are not UTF-8 become U+FFFD: a command is read all the same. So do the characters
        that mark a `$` of the shell here.
        """
        path = self._directory / name
        if path.parent.resolve() != path.parent:
            return None  # a link above it
        try:
            is_large = path.lstat().st_size > min(LARGEST_FILE, self._left)
            content = b"" if is_large else read_regular(path, LARGEST_FILE, follow=False)
        except OSError:
            return None
        if is_large:
            self.skipped.append(name)
            return None
        self._left -= len(content)
        text = without_marks(content.decode("utf-8-sig", "replace"))
        return text.replace("\r\n", "\n").replace("\r", "\n")


def _listed_by_git(root: Path) -> list[str]:
    listed = listed_files(root)
    if listed is None:
        raise UsageError(f"git cannot list the files of {root}", hint="run `git ls-files` there")
    return listed


def _walked(root: Path) -> Iterator[str]:
    """All files below `root`, links to directories not followed."""
    count = 0
    for directory, subdirectories, names in os.walk(root):
        subdirectories[:] = sorted(name for name in subdirectories if name not in LEFT_OUT)
        for name in sorted(names):
            yield (Path(directory) / name).relative_to(root).as_posix()
            count += 1
            if count > MOST_FILES:
                return


# Reads a repository: its servers, pipelines, scripts, tests and packaging, as facts.


def install_command(
    directory: str, files: Collection[str], texts: Mapping[str, str], prefix: str
) -> str | None:
    """What installs the project in `directory`, where the server runs, or else the one at the top.

    texts: those of each pyproject.toml. prefix: what stands before each name from the top.
    """
    for place in dict.fromkeys((directory, "")):
        here = f"{place}/" if place else ""
        target = "/".join(part for part in (prefix, place) if part)
        for name in ("requirements.txt", "requirements/base.txt"):
            if f"{here}{name}" in files:
                path = f"{target}/{name}" if target else name
                return f"python -m pip install -r {shlex.quote(path)}"
        is_project = "[project]" in texts.get(f"{here}pyproject.toml", "")
        if is_project or f"{here}setup.py" in files:
            # A bare name would be a package of the index.
            return f"python -m pip install {shlex.quote(f'./{target}') if target else '.'}"
    return None


_PLUGIN: Final = re.compile(r"(?:^|/)ci-doctor/plugin\.yml$")
_MOST_BYTES: Final = 1_000_000


def look(files: ListedFiles) -> ScaffoldFacts:
    """The facts of a repository. Raises ConfigError if its ci-doctor.toml cannot be read."""
    reader = TextReader(files.directory)
    scripts = list(_sources(files, reader))
    commands = [command for source in scripts for command in server_commands(source)]
    servers, left_out = _candidates(commands, files, reader)
    callers = Callers(scripts, files.files)
    first = servers[0] if servers else None
    prefix = files.directory.relative_to(files.root).as_posix()
    prefix = "" if prefix == "." else prefix
    return ScaffoldFacts(
        root=str(files.root),
        is_repository=files.is_repository,
        servers=servers,
        commands=len(commands),
        left_out=left_out,
        pipelines=tuple(callers.pipelines),
        workflows=tuple(
            name
            for name in files.root_files
            if name.startswith(".github/workflows/") and name.endswith((".yml", ".yaml"))
        ),
        queues=queues_in(callers.steps),
        steps=agents_by_origin(
            ((each.command.file, each.command.line) for each in servers), callers
        ),
        install=install_command(
            first.cwd if first else "",
            frozenset(files.files),
            {each.path: each.text for each in scripts if each.kind is TextKind.TOML},
            prefix,
        ),
        existing=_existing(files),
        files=len(files.files),
        unread=tuple(reader.skipped),
        is_whole=files.is_whole,
        prefix=prefix,
    )


def _sources(files: ListedFiles, reader: TextReader) -> Iterator[SourceFile]:
    for name in files.files:
        kind = text_kind(name)
        if kind is None:
            continue
        text = reader.text(name)
        if text is not None:
            yield SourceFile(path=name, kind=kind, place=place_of_file(name, kind), text=text)


def _candidates(
    commands: list[ServerCommand], files: ListedFiles, reader: TextReader
) -> tuple[tuple[ServerCandidate, ...], tuple[InitLeftOut, ...]]:
    """The servers that can be proposed, and the other commands with the reason."""
    names = frozenset(files.files)
    text_of = cache(reader.text)
    made = []
    left_out = []
    for command in commands:
        if command.is_template:
            candidate = None
        elif command.kind.is_app:
            candidate = app_candidate(command, names, text_of)
        else:
            candidate = engine_candidate(command)
        candidate = without_secrets(candidate) if candidate is not None else None
        if candidate is not None:
            made.append(_in_listed(candidate, files))
        # Most programs that are run by Python are no servers.
        elif command.kind.name != PYTHON_PROGRAM:
            origin = f"{command.file}:{command.line}"
            left_out.append(InitLeftOut(origin=origin, why=why_left_out(command)))
    return ranked(made), tuple(left_out)


def _in_listed(candidate: ServerCandidate, files: ListedFiles) -> ServerCandidate:
    """The candidate in its directory; without one if that is not here: `~/x`, `..`, `/workspace`."""
    directory = posixpath.normpath(candidate.cwd) if candidate.cwd else ""
    if directory in {"", "."}:
        return replace(candidate, cwd="")
    if any(name.startswith(f"{directory}/") for name in files.files):
        return replace(candidate, cwd=directory)
    note = "there it runs in a directory that is not a known one of this repository"
    return replace(candidate, cwd="", notes=(*candidate.notes, note))


def _existing(files: ListedFiles) -> ExistingFiles:
    """What is there already. Raises ConfigError."""
    directory = files.directory
    config = find_config(directory)
    if config is not None:
        load_config(config, directory)
    # A link to nothing is a file that somebody means to have.
    elif (directory / "ci-doctor.toml").is_symlink():
        config = directory / "ci-doctor.toml"
    plugin = next((name for name in files.root_files if _PLUGIN.search(name)), None)
    hooks = files.root / PRE_COMMIT
    return ExistingFiles(
        config=(
            config.relative_to(files.root).as_posix()
            if config.is_relative_to(files.root)
            else str(config)
        )
        if config is not None
        else None,
        pre_commit=hooks.exists(),
        has_hook=HOOK in (of_hooks := _text(hooks)),
        hook_place=hook_place(of_hooks),
        ignores_reports="ci-doctor-report" in _text(files.root / ".gitignore"),
        plugin=plugin.removesuffix("/plugin.yml") if plugin else None,
        has_buildkite=(files.root / ".buildkite").is_dir(),
        has_workflows=(files.root / ".github" / "workflows").is_dir(),
    )


def _text(path: Path) -> str:
    """The text of a small file; empty if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES).decode("utf-8-sig", "replace")
    except OSError:
        return ""


# --- files that are proposed: each written whole or not at all, none that exists ---


def taken_names(root: Path, proposal: Proposal) -> Mapping[str, str]:
    """The paths that cannot be made below `root`, each with what follows its name in a sentence.

    One exists, also as a link to nothing, or as a file that git ignores and the listing left out. Or a
    folder above it is a file, or a link that leads out of the repository.
    """
    taken = {}
    for each in proposal.files:
        obstacle = _obstacle(root, PurePosixPath(each.path))
        if obstacle is not None:
            taken[each.path] = f"cannot be written: {obstacle}"
        elif os.path.lexists(root / each.path):
            taken[each.path] = "exists and is not changed"
    return taken


def _obstacle(root: Path, path: PurePosixPath) -> str | None:
    """What is in the way of the directory of `path`; None if it is there or can be made."""
    # From the top; the last of the parents is `.`.
    for folder in reversed(path.parents[:-1]):
        at = root / folder
        if not os.path.lexists(at):
            return None
        if not os.path.isdir(at):  # noqa: PTH112 - it raises nothing
            return f"{folder} is no directory"
        if not at.resolve().is_relative_to(root.resolve()):
            return f"{folder} leads out of the repository"
    return None


def write_files(root: Path, files: Sequence[InitFile]) -> None:
    """Write all of `files` below `root`, or none.

    Raises UsageError if one of them exists by now or cannot be written; what was written before it is
    removed again, also if a signal ends it.
    """
    written: list[Path] = []
    made: list[Path] = []
    try:
        for file in files:
            path = root / file.path
            _make_parents(path.parent, root, made)
            _write_new(path, file.text.encode("utf-8", "replace"))
            written.append(path)
    except BaseException as error:
        _remove(written, made)
        if not isinstance(error, OSError):
            raise
        raise UsageError(
            f"cannot write {error.filename2 or error.filename or root}: {error.strerror or error}; nothing was written",
            hint="`ci-doctor init --dry-run` prints the files as a diff",
        ) from error


def _make_parents(directory: Path, root: Path, made: list[Path]) -> None:
    """Make the directories above a file. Raises OSError, also for one that is a link to elsewhere."""
    if directory == root or directory.is_dir():
        if not directory.resolve().is_relative_to(root.resolve()):
            raise OSError(0, f"{directory} leads out of the repository")
        return
    _make_parents(directory.parent, root, made)
    directory.mkdir()
    made.append(directory)


def _write_new(path: Path, content: bytes) -> None:
    """Write a file that is not there. Raises FileExistsError if it is, also as a link to nothing."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
        os.fchmod(file.fileno(), 0o644)
        # A link refuses a name that is taken, which a rename does not.
        try:
            os.link(file.name, path)
        except OSError:
            # Without hard links, as on vfat and in some containers. This refuses a taken name as well.
            with path.open("xb") as own:
                own.write(content)


def _remove(written: Sequence[Path], made: Sequence[Path]) -> None:
    for path in written:
        path.unlink(missing_ok=True)
    for directory in reversed(made):
        # Somebody else may have put something there meanwhile.
        with contextlib.suppress(OSError):
            directory.rmdir()
