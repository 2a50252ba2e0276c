# SPDX-License-Identifier: Apache-2.0
"""Reads where an archive lies, and opens its store: a directory, or an object store by its address."""

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from ci_doctor.correctness.archive.identity_file import IDENTITIES
from ci_doctor.store.address import directory_of, is_remote, open_store
from ci_doctor.store.directory_store import DirectoryStore
from ci_doctor.store.errors import StoreError
from ci_doctor.store.objects import ObjectStore, StoredObject

_PLACE = re.compile(rf"{IDENTITIES}[0-9a-f]{{64}}")

# For all requests of one look, or of the starts that one run archives. It bounds no directory.
TIMEOUT_S = 120.0


def archive_place(address: str) -> Path | str:
    """A directory as a path, and an object store by its address. Raises UsageError for other URLs."""
    if is_remote(address):
        return address.rstrip("/")
    return directory_of(address)


def archive_store(place: Path | str) -> ObjectStore:
    """The store at `place`; nothing is sent yet.

    Credentials are those of this process's environment. Raises UsageError for an address that is
    not allowed, and StoreError if the library for object stores is not installed.
    """
    if isinstance(place, Path):
        return DirectoryStore(place)
    return open_store(place, os.environ, timeout_s=TIMEOUT_S)


def archived_objects(
    store: ObjectStore, place: Path | str, skipped: list[str]
) -> list[StoredObject]:
    """The objects of all identities.

    A subdirectory that cannot be listed is added to `skipped`, and the others count: it may be
    another user's. Raises StoreError if an object store cannot be listed.
    """
    if not isinstance(place, Path):
        return list(store.names(IDENTITIES))
    objects: list[StoredObject] = []
    for each in identity_places(place):
        try:
            objects += store.names(f"{each.name}/")
        except StoreError as error:
            skipped.append(error.message)
    return objects


def identity_places(directory: Path) -> Iterator[Path]:
    """The subdirectories of an archive's identities, by name; none if it cannot be listed."""
    try:
        entries = sorted(directory.iterdir())
    except OSError:
        return
    for path in entries:
        with contextlib.suppress(OSError):
            # A link may lead to a directory of somebody else.
            if _PLACE.fullmatch(path.name) and path.is_dir() and not path.is_symlink():
                yield path
