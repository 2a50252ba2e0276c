# SPDX-License-Identifier: Apache-2.0
"""Pure. What lint could not read: it is counted and said, and never taken for clean."""

from msgspec import Struct


class Unreadable(Struct, frozen=True, kw_only=True):
    """A file, or lines of it, that no rule has looked at. `reason` is one sentence without a full stop."""

    file: str
    line: int
    reason: str
