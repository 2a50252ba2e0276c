# SPDX-License-Identifier: Apache-2.0
"""Pure. Which parts of which packs are fetched for some files, and what is made of each part."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

import msgspec

from ci_doctor.store.manifest import FileEntry, Manifest

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
