# SPDX-License-Identifier: Apache-2.0
"""Acts on directories: puts all that a start computes and keeps into one place, and counts its files."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from ci_doctor.environment.cache_table import TABLE, cache_directory, shared_downloads
from ci_doctor.system.files.writing import make_directory


def fresh_caches(directory: Path, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables that put every compile cache of a start, and any other, into `directory`.

    It gets an empty subdirectory for each, because some libraries use theirs only if it exists.
    Given the start's `environ`, what is downloaded stays where it is, because a start without a
    network would fail: weights, packages, and FlashInfer's kernels beside those that it compiles.
    Raises OSError.
    """
    variables = {row.variable: str(directory.absolute() / row.directory) for row in TABLE}
    variables["XDG_CACHE_HOME"] = str(directory.absolute() / "other")
    for path in variables.values():
        make_directory(Path(path))
    environ = environ or {}
    variables |= shared_downloads(environ)
    base = environ.get("FLASHINFER_WORKSPACE_BASE") or environ.get("HOME")
    if base and not environ.get("FLASHINFER_CUBIN_DIR"):
        variables["FLASHINFER_CUBIN_DIR"] = str(Path(base) / ".cache" / "flashinfer" / "cubins")
    return variables


def cache_places(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Where the compile caches of a process with this environment lie.

    Without a home directory, caches without a variable are left out.
    """
    places = {cache_directory(row, environ) for row in TABLE}
    return tuple(sorted(place for place in places if place))


def count_files(*directories: Path) -> int:
    """The files in and below `directories`, without locks and what nobody may read.

    A file that lies in two of them counts once.
    """
    return len(set(_files(directories)))


def added(before: int, after: int) -> int:
    """How many files a start added. 0: it found the caches warm.

    Never negative: libraries remove old files too.
    """
    return max(0, after - before)


def _files(directories: Iterable[Path]) -> Iterable[str]:
    for top in {os.path.realpath(directory) for directory in directories}:
        # os.walk leaves out what it cannot read.
        for directory, _, names in os.walk(top):
            for name in names:
                # No Path, which costs ten times as much.
                if not name.endswith(".lock"):
                    yield os.path.join(directory, name)  # noqa: PTH118
