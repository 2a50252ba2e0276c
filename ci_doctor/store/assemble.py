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
            pieces = tuple(
                _moved(piece, _frame_index(piece.frame, part, renumbered, frames, packs))
                for piece in entry.pieces
            )
            files.append(msgspec.structs.replace(entry, pieces=pieces))
    files.sort(key=lambda entry: entry.path)
    return Manifest.of(header, packs=packs, frames=frames, files=files)


def _frame_index(
    old: int,
    part: PackedFiles,
    renumbered: dict[int, int],
    frames: dict[StoredFrame, int],
    packs: dict[PackReference, int],
) -> int:
    index = renumbered.get(old)
    if index is None:
        frame = part.frames[old]
        pack = packs.setdefault(part.packs[frame.pack], len(packs))
        place = msgspec.structs.replace(frame, pack=pack)
        index = renumbered[old] = frames.setdefault(place, len(frames))
    return index


def _moved(piece: FilePiece, frame: int) -> FilePiece:
    return FilePiece(frame=frame, offset=piece.offset, bytes=piece.bytes)
