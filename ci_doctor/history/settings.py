# SPDX-License-Identifier: Apache-2.0
"""Pure. The `[history]` section."""

from msgspec import Struct


class HistorySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person writes (docs/history.md).

    database: a file, relative to the file naming it or to the working directory, or
    postgresql://…; None for `ci-doctor-history.sqlite`, and then reports of other commands are not
    written there. days: how far back a question looks.
    """

    database: str | None = None
    days: int = 30
