# SPDX-License-Identifier: Apache-2.0
"""Acts on files: those of a report that are uploaded, JUnit files under the names of their job."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from ci_doctor.buildkite.job import JobEnvironment
from ci_doctor.errors import CiDoctorError
from ci_doctor.system.files.writing import write_atomically

# Far below the 5000 artifacts that a job may have; a problem names the files left out.
FILES_PER_REPORT = 200
BYTES_PER_FILE = 100 * 1024 * 1024

_FIRST_FILES = ("report.json", "report.html", "report.md")
# As much as one call of the agent uploads in a moment.
_SMALL_FILES = 50
_SMALL_BYTES = 10 * 1024 * 1024


class Upload(Struct, frozen=True, kw_only=True):
    """Files below `base`, which is the top of the Artifacts tab.

    `first` are those that a reader or `build merge` needs; if the others are large, they wait.
    """

    base: Path
    first: tuple[Path, ...]
    rest: tuple[Path, ...] = ()
    is_large: bool = False


def uploads_of(directory: Path, job: JobEnvironment) -> tuple[Upload, list[str]]:
    """The files of the report in `directory` (absolute), and what is wrong with some of them."""
    renamed = {
        "junit.xml": job.junit_artifact_name(),
        "attempts.xml": job.attempts_artifact_name(),
    }
    problems = []
    copied = set()
    for name, new_name in renamed.items():
        problem = _copy(directory, name, new_name)
        if problem is not None:
            problems.append(problem)
        # A name that JUnit's readers do not look for twice.
        elif (directory / new_name).is_file():
            copied.add(directory / name)
    kept, left_out = _chosen(directory, copied)
    if left_out:
        problems.append(_left_out(directory, left_out))
    return _upload(directory, kept), problems


def _upload(directory: Path, sizes: dict[Path, int]) -> Upload:
    first: list[Path] = []
    rest: list[Path] = []
    for path in sizes:
        is_first = path.parent == directory and path.name in _FIRST_FILES
        (first if is_first else rest).append(path)
    n_bytes = sum(sizes[path] for path in rest)
    return Upload(
        # Two levels up: `<job id>/<command>`, as publish.artifact_folder says.
        base=directory.parent.parent,
        first=tuple(first),
        rest=tuple(rest),
        is_large=len(rest) > _SMALL_FILES or n_bytes > _SMALL_BYTES,
    )


def _copy(directory: Path, name: str, new_name: str) -> str | None:
    """Copy a file beside itself; a sentence if that fails, None if it is not there."""
    source = directory / name
    try:
        if source.is_file():
            write_atomically(directory / new_name, source.read_bytes())
    except (OSError, CiDoctorError) as error:
        return f"{name} keeps its name: {error}"
    return None


def _chosen(directory: Path, skipped: set[Path]) -> tuple[dict[Path, int], list[Path]]:
    """The files to upload with their sizes, the report first, and those that are left out."""
    small: dict[Path, int] = {}
    large: list[Path] = []
    for path, size in _regular_files(directory):
        if path in skipped:
            continue
        if size > BYTES_PER_FILE:
            large.append(path)
        else:
            small[path] = size

    def rank(path: Path) -> tuple[bool, bool, Path]:
        return path.parent != directory, path.name not in _FIRST_FILES, path

    ordered = sorted(small, key=rank)
    kept = {path: small[path] for path in ordered[:FILES_PER_REPORT]}
    return kept, [*sorted(large), *ordered[FILES_PER_REPORT:]]


def _left_out(directory: Path, files: list[Path]) -> str:
    size = f"{BYTES_PER_FILE // 1024**2} MiB"
    limits = f"more than {FILES_PER_REPORT} files, or larger than {size}"
    listed = ", ".join(str(path.relative_to(directory)) for path in files[:10])
    return f"not uploaded from {directory}: {listed} ({limits})"


def _regular_files(directory: Path) -> Iterator[tuple[Path, int]]:
    """Each regular file with its size in bytes."""
    # os.walk passes over what it may not read, and follows no links.
    for folder, _, names in os.walk(directory):
        for name in names:
            # A name with a leading dot is a file that is being written.
            if name.startswith("."):
                continue
            path = Path(folder, name)
            try:
                status = path.lstat()
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode):
                yield path, status.st_size
