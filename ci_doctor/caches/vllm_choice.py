# SPDX-License-Identifier: Apache-2.0
"""Reads vLLM's cache directories: the one that it chose beside the restored ones, and why.

vLLM names a directory by a digest of its environment, its configuration, the traced code and the
compiler, and writes all four into it (vllm 0.33 compilation/backends.py).
"""

import os
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from ci_doctor.caches.families.family import Family
from ci_doctor.caches.families.vllm_factors import FILE_NAME, factor_differences
from ci_doctor.caches.receipt import Receipt
from ci_doctor.caches.scan import ScannedFile
from ci_doctor.system.files.opening import open_at_once

_FILE_BYTES = 1 << 20
_MOST = 8


def restored_places(receipt: Receipt, family: Family) -> tuple[str, ...]:
    """The directories that were restored: each group of files, or the root if there are no groups."""
    if not family.group:
        return (receipt.root,)
    groups = dict.fromkeys(family.group_of(file.path) for file in receipt.files)
    return tuple(f"{receipt.root}/{group}" for group in groups)


def chosen_beside(files: Iterable[ScannedFile], family: Family, receipt: Receipt) -> str | None:
    """A directory that vLLM has made after the restore, beside the restored ones; None if there is none."""
    if FILE_NAME not in family.markers:
        return None
    groups = {family.group_of(file.path) for file in receipt.files}
    for file in files:
        directory, _, name = file.path.rpartition("/")
        is_new = file.mtime_ns > receipt.installed_ns and family.group_of(file.path) not in groups
        if name == FILE_NAME and is_new:
            return f"{receipt.root}/{directory}"
    return None


def causes_of_choice(chosen: str, family: Family, receipt: Receipt) -> tuple[str, ...]:
    """The factors of vLLM's digest in which `chosen` differs from the nearest restored directory."""
    if FILE_NAME not in family.markers:
        return ()
    here = _content(Path(chosen, FILE_NAME))
    # Of the same rank and the same part of the model, if several were restored.
    tail = PurePosixPath(chosen).parts[-2:]
    nearest: tuple[str, ...] | None = None
    for file in receipt.files:
        path = PurePosixPath(file.path)
        if path.name != FILE_NAME or path.parent.parts[-2:] != tail:
            continue
        try:
            differences = factor_differences(_content(Path(receipt.root, path)), here)
        except ValueError:
            continue
        words = tuple(each.describe() for each in differences)
        if nearest is None or len(words) < len(nearest):
            nearest = words
    return (nearest or ())[:_MOST]


def _content(path: Path) -> bytes:
    """Nothing if it cannot be read; a pipe in its place is at its end."""
    try:
        with os.fdopen(open_at_once(path, follow=False), "rb") as file:
            return file.read(_FILE_BYTES)
    except OSError:
        return b""
