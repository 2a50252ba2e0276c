# SPDX-License-Identifier: Apache-2.0
"""Pure. Which files of manifests are joined, taken again and fetched."""

import enum
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from ci_doctor.store.manifest import (
    FileEntry,
    FilePiece,
    Manifest,
    ManifestHeader,
    PackReference,
    StoredFrame,
)

# --- which files of a manifest join a tree that exists: nothing in it is ever overwritten ---


class Merge(enum.StrEnum):
    """How the entries of a cache join those that are there.

    A group is installed whole or not at all: `union`: each file is a group; `last-writer`: the files
    of one directory are (an index written in place belongs to its neighbours); `whole-directories`:
    each directory at the top is, and it is installed by one rename.
    """

    UNION = "union"
    LAST_WRITER = "last-writer"
    WHOLE_DIRECTORIES = "whole-directories"


class PresentFile(msgspec.Struct, frozen=True, kw_only=True):
    """What stands at a path of the tree already."""

    bytes: int
    mtime_ns: int


class MergePlan(msgspec.Struct, frozen=True, kw_only=True):
    """Files to install one by one, directories to install by a rename, and how many files stay as they are."""

    files: tuple[FileEntry, ...]
    directories: dict[str, tuple[FileEntry, ...]]
    kept_existing: int

    def entries(self) -> tuple[FileEntry, ...]:
        """All files that are fetched."""
        return (*self.files, *(entry for group in self.directories.values() for entry in group))


def default_group(merge: Merge) -> Callable[[str], str]:
    """The function from a path to the name of its group."""
    match merge:
        case Merge.UNION:
            return lambda path: path
        case Merge.LAST_WRITER:
            return lambda path: path.rpartition("/")[0] or path
        case Merge.WHOLE_DIRECTORIES:
            return lambda path: path.partition("/")[0]


def plan_merge(
    entries: Iterable[FileEntry],
    merge: Merge,
    group: Callable[[str], str],
    present: Mapping[str, PresentFile],
) -> MergePlan:
    """The plan for `entries`, given what is present at their paths and at the names of groups.

    A group of which something else is present stays as it is. A file with the size and the time of
    its entry counts as the same: a restore that was killed has put it there, and this one goes on.
    """
    groups: dict[str, list[FileEntry]] = defaultdict(list)
    for entry in entries:
        groups[group(entry.path)].append(entry)
    files: list[FileEntry] = []
    directories: dict[str, tuple[FileEntry, ...]] = {}
    kept = 0
    for name, members in groups.items():
        whole = merge is Merge.WHOLE_DIRECTORIES and _is_directory(name, members)
        missing = [entry for entry in members if entry.path not in present]
        if whole and name not in present:
            directories[name] = tuple(members)
        elif not whole and all(_is_same(entry, present) for entry in members):
            files += missing
            kept += len(members) - len(missing)
        else:
            kept += len(members)
    return MergePlan(files=tuple(files), directories=directories, kept_existing=kept)


def _is_directory(name: str, members: list[FileEntry]) -> bool:
    return all(entry.path.startswith(f"{name}/") for entry in members)


def _is_same(entry: FileEntry, present: Mapping[str, PresentFile]) -> bool:
    there = present.get(entry.path)
    return there is None or (there.bytes, there.mtime_ns) == (entry.bytes, entry.mtime_ns)


# --- which parts of which packs are fetched for some files, and what is made of each part ---

# A smaller gap is fetched along: it costs less than another request.
_GAP_BYTES: Final = 64 * 1024


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """Frames beside each other in one pack: `bytes` from `offset` hold all of them."""

    pack: int
    offset: int
    bytes: int
    frames: tuple[int, ...]


class FetchPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Files by the one frame that holds them, in runs; files of several frames; files without bytes."""

    runs: tuple[Run, ...]
    by_frame: dict[int, list[FileEntry]]
    large: tuple[FileEntry, ...]
    empty: tuple[FileEntry, ...]


def plan_fetch(manifest: Manifest, entries: Iterable[FileEntry], run_bytes: int) -> FetchPlan:
    """What to fetch for `entries` of a manifest that was checked; each frame of small files once.

    A run has at most `run_bytes`, or one frame.
    """
    by_frame: dict[int, list[FileEntry]] = defaultdict(list)
    large = []
    empty = []
    for entry in entries:
        if not entry.pieces:
            empty.append(entry)
        elif len(entry.pieces) == 1:
            by_frame[entry.pieces[0].frame].append(entry)
        else:
            large.append(entry)
    return FetchPlan(
        runs=_runs(manifest, by_frame, run_bytes),
        by_frame=dict(by_frame),
        large=tuple(sorted(large, key=lambda entry: -entry.bytes)),
        empty=tuple(empty),
    )


def _runs(manifest: Manifest, wanted: Iterable[int], run_bytes: int) -> tuple[Run, ...]:
    runs: list[Run] = []
    frames = manifest.frames
    for index in sorted(wanted, key=lambda index: (frames[index].pack, frames[index].offset)):
        frame = frames[index]
        end = frame.offset + frame.bytes
        last = runs[-1] if runs else None
        if (
            last is not None
            and last.pack == frame.pack
            and frame.offset <= last.offset + last.bytes + _GAP_BYTES
            and end - last.offset <= run_bytes
        ):
            length = max(last.bytes, end - last.offset)
            frames_of_run = (*last.frames, index)
            runs[-1] = msgspec.structs.replace(last, bytes=length, frames=frames_of_run)
        else:
            run = Run(pack=frame.pack, offset=frame.offset, bytes=frame.bytes, frames=(index,))
            runs.append(run)
    return tuple(runs)


# --- one manifest of files that were packed now and files that an earlier manifest holds ---


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
