# SPDX-License-Identifier: Apache-2.0
"""What starts did with files that both arms reach, for people and for the verdict. Pure."""

from msgspec import Struct


class SharedRead(Struct, frozen=True, kw_only=True):
    """A start has opened the file `path` for reading, which changed while the start `writer` ran."""

    path: str
    writer: str


class SharedUse(Struct, frozen=True, kw_only=True):
    """What a start did with files outside its own directories.

    `written` changed while it ran, a few of them, and `count` is their number. `read` are those that it
    read of the other arm's. `unseen`: why a reading might have been missed, in words.
    """

    written: tuple[str, ...] = ()
    count: int = 0
    read: tuple[SharedRead, ...] = ()
    unseen: str = ""
