# SPDX-License-Identifier: Apache-2.0
"""Pure. One manifest of files that were packed now and files that an earlier manifest holds."""

from collections.abc import Iterable, Sequence

import msgspec

from ci_doctor.store.manifest import (
    FileEntry,
    FilePiece,
    Manifest,
    ManifestHeader,
    PackReference,
    StoredFrame,
)


class PackedFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Entries, and the frames and packs that their pieces refer to."""

    files: Sequence[FileEntry]
    frames: Sequence[StoredFrame]
    packs: Sequence[PackReference]


def assemble(header: ManifestHeader, parts: Iterable[PackedFiles]) -> Manifest:
    """The manifest with the files of all `parts`, and only the frames and packs that they use."""
    packs: dict[PackReference, int] = {}
    frames: dict[StoredFrame, int] = {}
    files: list[FileEntry] = []
    for part in parts:
        renumbered: dict[int, int] = {}
        for entry in part.files:
            for piece in entry.pieces:
                _renumber(piece.frame, part, renumbered, frames, packs)
            files.append(_moved(entry, renumbered))
    files.sort(key=lambda entry: entry.path)
    return Manifest.of(header, packs=packs, frames=frames, files=files)


def _renumber(
    old: int,
    part: PackedFiles,
    renumbered: dict[int, int],
    frames: dict[StoredFrame, int],
    packs: dict[PackReference, int],
) -> None:
    if old in renumbered:
        return
    frame = part.frames[old]
    pack = packs.setdefault(part.packs[frame.pack], len(packs))
    place = msgspec.structs.replace(frame, pack=pack)
    renumbered[old] = frames.setdefault(place, len(frames))


def _moved(entry: FileEntry, renumbered: dict[int, int]) -> FileEntry:
    """The entry with the new indices of its frames; itself if they are the old ones, as in a first save."""
    if all(renumbered[piece.frame] == piece.frame for piece in entry.pieces):
        return entry
    pieces = tuple(
        FilePiece(frame=renumbered[piece.frame], offset=piece.offset, bytes=piece.bytes)
        for piece in entry.pieces
    )
    return msgspec.structs.replace(entry, pieces=pieces)
