# SPDX-License-Identifier: Apache-2.0
"""Reads files: the evidence at some paths, which are files, folders or patterns.

They are data of strangers: links in a folder are not followed, and pipes are not read.
"""

import errno
import glob
import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from ci_doctor.errors import UsageError
from ci_doctor.history.evidence import JobEvidence
from ci_doctor.history.reading.forms import OtherXmlError, parsed
from ci_doctor.history.reading.placed_evidence import PlacedFile
from ci_doctor.history.results import UnreadableEvidence
from ci_doctor.system.files.opening import open_at_once

MOST_BYTES: Final = 256 * 1024 * 1024
ENDINGS: Final = (".xml", ".json")


class NamedFile(Struct, frozen=True, kw_only=True):
    """A path to read. is_named: somebody named this very file, and did not mean a folder.

    place: what a reader calls it; None for the path. known: what is known of its job beforehand;
    None for what is known of all files.
    """

    path: Path
    is_named: bool
    place: str | None = None
    known: JobEvidence | None = None

    @property
    def at(self) -> str:
        """Its place."""
        return self.path.as_posix() if self.place is None else self.place


def named_files(paths: Sequence[str]) -> tuple[NamedFile, ...]:
    """Every file at `paths`, once, in the order of their names; of folders those that may be evidence.

    Raises UsageError for a path or a pattern that leads to nothing.
    """
    files: dict[str, NamedFile] = {}
    for text in paths:
        for path in _matching(text):
            for file in _at(path):
                files.setdefault(os.path.realpath(file.path), file)
    return tuple(files[name] for name in sorted(files))


def read_file(file: NamedFile) -> PlacedFile | UnreadableEvidence | None:
    """What a file says; None if it is no evidence, and was not named itself."""
    place = file.at
    try:
        content, modified_ms = _content(file.path)
        evidence = parsed(content)
    except OtherXmlError as error:
        return UnreadableEvidence(place=place, problem=error.message, is_other=not file.is_named)
    except (UsageError, OSError) as error:
        return UnreadableEvidence(place=place, problem=_problem(error))
    except (Exception, MemoryError) as error:  # noqa: BLE001 - of strangers, and the other files must come in
        return UnreadableEvidence(place=place, problem=f"{type(error).__name__}: {error}")
    if evidence is not None:
        digest = hashlib.sha256(content).hexdigest()
        return PlacedFile(
            place=place,
            sha256=digest,
            modified_ms=modified_ms,
            parsed=evidence,
            known=file.known,
        )
    if file.is_named or file.path.suffix == ".xml":
        return UnreadableEvidence(place=place, problem="it has none of the forms that are read")
    return None


def _matching(text: str) -> list[Path]:
    path = Path(text)
    if path.exists():
        return [path]
    matches = sorted(glob.glob(text, recursive=True))  # noqa: PTH207 - Path.glob takes no absolute pattern
    if not matches:
        raise UsageError(f"there is no {text}", hint="name files, folders, or a pattern in quotes")
    return [Path(match) for match in matches]


def _at(path: Path) -> Iterator[NamedFile]:
    if not path.is_dir():
        yield NamedFile(path=path, is_named=True)
        return
    # os.walk follows no links.
    unreadable: list[str] = []
    for folder, folders, names in os.walk(
        path, onerror=lambda error: unreadable.append(error.filename)
    ):
        folders.sort()
        for name in sorted(names):
            file = Path(folder, name)
            # A link may lead anywhere on this machine, and the folder is an artifact of strangers.
            if name.endswith(ENDINGS) and not file.is_symlink():
                yield NamedFile(path=file, is_named=False)
    # To read it gives the same error, which is then named as that of any file.
    for name in unreadable:
        yield NamedFile(path=Path(name), is_named=True)


def _content(path: Path) -> tuple[bytes, int]:
    """The bytes of a regular file, and when it was last written. Raises UsageError or OSError."""
    descriptor = open_at_once(path)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UsageError("it is not a regular file")
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise UsageError(f"it is larger than {MOST_BYTES // 1024**2} MiB, and was not read")
    return content, status.st_mtime_ns // 1_000_000


def _problem(error: Exception) -> str:
    if isinstance(error, UsageError):
        return error.message
    if isinstance(error, OSError) and error.errno == errno.ELOOP:
        return "it is a link in a circle"
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return str(error)
