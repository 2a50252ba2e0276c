# SPDX-License-Identifier: Apache-2.0
"""Pure. Whether a manifest may be restored at all: its limits, its paths, its references.

Anyone may have written a manifest of a shared store, so none of it is believed before all of this holds.
"""

import re
from typing import Final

from ci_doctor.store.errors import DamagedError, LimitError
from ci_doctor.store.limits import StoreLimits
from ci_doctor.store.manifest import (
    FRAME_BYTES,
    PACK_BYTES,
    ColdCost,
    FileEntry,
    Manifest,
    StoredFrame,
)
from ci_doctor.store.tree_paths import check_paths

_SEGMENT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)
_DIGEST: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_MOST_NS: Final = 2**62  # in the year 2116
# Of a cost: three years, and more of anything than a job has.
_MOST_S: Final = 1e8
_MOST: Final = 10**9
_MOST_GPUS: Final = 10**5
# What zstd makes of 4 MiB of noise (ZSTD_compressBound), generously.
MOST_FRAME_BYTES: Final = FRAME_BYTES + FRAME_BYTES // 128


def is_segment(text: str) -> bool:
    """Whether `text` can be one segment of an object's name, such as a scope or a family."""
    return _SEGMENT.fullmatch(text) is not None


def check_manifest(manifest: Manifest, limits: StoreLimits) -> None:
    """Raise LimitError if `manifest` holds too much, DamagedError if it contradicts itself.

    Nothing is read but the manifest. After it, each path is safe to join below a directory, and
    each piece lies in a frame that lies in a pack.
    """
    _check_counts(manifest, limits)
    _check_packs(manifest)
    for frame in manifest.frames:
        _check_frame(frame, manifest)
    check_paths([entry.path for entry in manifest.files], limits)
    frames = manifest.frames
    for entry in manifest.files:
        _check_entry(entry, frames, limits)
    _check_ratio(manifest, limits)
    if manifest.cold is not None:
        _check_cost(manifest.cold)


def _check_counts(manifest: Manifest, limits: StoreLimits) -> None:
    files = len(manifest.files)
    content = manifest.bytes()
    if not is_segment(manifest.family):
        raise DamagedError("the manifest names no family")
    if files > limits.files:
        raise LimitError(f"the manifest has {files} files, more than {limits.files}")
    if content > limits.bytes:
        raise LimitError(f"the manifest has {content} bytes of files, more than {limits.bytes}")


def _check_ratio(manifest: Manifest, limits: StoreLimits) -> None:
    """Of frames that a file needs, each place counts once, whatever number of times it is listed."""
    content = manifest.bytes()
    frames = manifest.frames
    used = {piece.frame for entry in manifest.files for piece in entry.pieces}
    places = {
        (manifest.packs[frames[index].pack].digest, frames[index].offset): frames[index].bytes
        for index in used
    }
    stored = sum(places.values())
    # An honest tree may be of zeros; what fills no disk is no bomb.
    if content > max(limits.ratio * stored, limits.plain_bytes):
        raise LimitError(f"{content} bytes of files for {stored} stored: above 1:{limits.ratio}")


def _check_cost(cold: ColdCost) -> None:
    """Raise DamagedError for a cost that no job has, such as one without end."""
    is_cost = 0 <= cold.seconds <= _MOST_S
    if not is_cost or not 0 <= cold.compiled <= _MOST or not 0 <= cold.gpus <= _MOST_GPUS:
        raise DamagedError("the manifest names a cost that no job has")


def _check_packs(manifest: Manifest) -> None:
    for pack in manifest.packs:
        if not is_segment(pack.scope) or _DIGEST.fullmatch(pack.digest) is None:
            raise DamagedError("the manifest refers to a pack that has no proper name")
        if not 0 < pack.bytes <= PACK_BYTES:
            raise LimitError(f"a pack of {pack.bytes} bytes, more than {PACK_BYTES}")


def _check_frame(frame: StoredFrame, manifest: Manifest) -> None:
    if not 0 <= frame.pack < len(manifest.packs):
        raise DamagedError("a frame lies in no pack")
    if frame.offset < 0 or frame.bytes <= 0:
        raise DamagedError("a frame has no place in its pack")
    if _DIGEST.fullmatch(frame.digest) is None:
        raise DamagedError("a frame has no digest")
    if frame.offset + frame.bytes > manifest.packs[frame.pack].bytes:
        raise DamagedError("a frame ends after its pack")
    if frame.bytes > MOST_FRAME_BYTES:
        raise LimitError(f"a frame of {frame.bytes} stored bytes, more than {MOST_FRAME_BYTES}")
    if not 0 < frame.raw_bytes <= FRAME_BYTES:
        raise LimitError(f"a frame of {frame.raw_bytes} bytes, more than {FRAME_BYTES}")


def _check_entry(entry: FileEntry, frames: tuple[StoredFrame, ...], limits: StoreLimits) -> None:
    if entry.bytes > limits.file_bytes:
        raise LimitError(f"{entry.path} has {entry.bytes} bytes, more than {limits.file_bytes}")
    if not 0 <= entry.mtime_ns <= _MOST_NS or _DIGEST.fullmatch(entry.digest) is None:
        raise DamagedError(f"{entry.path} has no proper time or digest")
    whole = len(entry.pieces) > 1
    content = 0
    for piece in entry.pieces:
        raw_bytes = frames[piece.frame].raw_bytes if 0 <= piece.frame < len(frames) else -1
        if piece.offset < 0 or piece.bytes <= 0 or piece.offset + piece.bytes > raw_bytes:
            raise DamagedError(f"{entry.path} has a piece outside its frame")
        # Else a frame could be asked for again and again, for a byte each time.
        if whole and piece.bytes != raw_bytes:
            raise DamagedError(f"{entry.path} has several pieces that are no whole frames")
        content += piece.bytes
    if content != entry.bytes:
        raise DamagedError(f"{entry.path} has {entry.bytes} bytes and pieces of {content}")
