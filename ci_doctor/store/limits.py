# SPDX-License-Identifier: Apache-2.0
"""Pure. How much a reader accepts of a manifest, before anything is fetched or written."""

import msgspec

_MIB = 1024 * 1024
_GIB = 1024 * _MIB


class StoreLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The most of each: files, bytes of all files, of one, and of one path (UTF-8).

    `ratio` is bytes of files for one byte in packs, of trees above `plain_bytes`. `manifest_bytes` is of the manifest's JSON.
    """

    files: int = 200_000
    bytes: int = 20 * _GIB
    file_bytes: int = 2 * _GIB
    path_bytes: int = 1024
    ratio: int = 200
    plain_bytes: int = _GIB
    manifest_bytes: int = 64 * _MIB
