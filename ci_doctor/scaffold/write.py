# SPDX-License-Identifier: Apache-2.0
"""Acts on files: writes those that are proposed, each whole or not at all, and none that exists."""

import contextlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from ci_doctor.errors import UsageError
from ci_doctor.model.facts.config import InitFile
from ci_doctor.scaffold.propose import Proposal


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
