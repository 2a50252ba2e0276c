# SPDX-License-Identifier: Apache-2.0
"""Pure. What lint could not read: it is counted and said, and never taken for clean."""

from msgspec import Struct


class Unreadable(Struct, frozen=True, kw_only=True):
    """A file, or lines of it, that no rule has looked at.

    reason: one sentence without a full stop. is_partial: rules have looked at the rest of the file.
    """

    file: str
    line: int
    reason: str
    is_partial: bool = False
