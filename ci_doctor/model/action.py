# SPDX-License-Identifier: Apache-2.0
"""Pure. A change to the machine as a value, so that `--dry-run` shows exactly what would happen."""

from enum import StrEnum

from msgspec import Struct


class SetVariable(Struct, frozen=True, kw_only=True):
    """Export `name=value`; `why` is one clause for a reader."""

    name: str
    value: str
    why: str


class FileState(StrEnum):
    """What writing a file would do, or did."""

    CREATE = "create"
    REPLACE = "replace"
    UNCHANGED = "unchanged"
    REMOVE = "remove"
