# SPDX-License-Identifier: Apache-2.0
"""Reads restored trees: whether each file is as it was installed."""

import os
import stat
from pathlib import Path

from ci_doctor.caches.receipt import InstalledFile, Receipt, receipts_of
from ci_doctor.caches.targets import CacheTarget
from ci_doctor.model.facts.cache import VerifiedCache
from ci_doctor.store.digest import digest_of_file
from ci_doctor.system.files.opening import open_at_once

_MOST_NAMED = 20


def verify_installed(targets: tuple[CacheTarget, ...], state: Path) -> tuple[VerifiedCache, ...]:
    """Each target that has a receipt, against it."""
    newest = [receipts_of(state, target.family.name)[:1] for target in targets]
    return tuple(_verify(receipt) for receipts in newest for receipt in receipts)


def _verify(receipt: Receipt) -> VerifiedCache:
    changed: list[str] = []
    missing: list[str] = []
    for file in receipt.files:
        path = Path(receipt.root, file.path)
        try:
            if not _is_as_installed(path, file):
                changed.append(file.path)
        except OSError:
            missing.append(file.path)
    return VerifiedCache(
        family=receipt.family,
        directory=receipt.root,
        files=len(receipt.files),
        changed=tuple(changed[:_MOST_NAMED]),
        missing=tuple(missing[:_MOST_NAMED]),
    )


def _is_as_installed(path: Path, file: InstalledFile) -> bool:
    """Without a digest the file was relocated, and its time alone says whether it changed."""
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode):
        return False
    if not file.digest:
        return status.st_mtime_ns == file.mtime_ns
    # What is a file now may be a pipe in a moment, and a link leads anywhere.
    with os.fdopen(open_at_once(path, follow=False), "rb") as content:
        return digest_of_file(content) == file.digest
