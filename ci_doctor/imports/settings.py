# SPDX-License-Identifier: Apache-2.0
"""The `[import-race]` section. Pure."""

from msgspec import Struct


class ImportRaceSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person writes (docs/import-race.md). `baseline`: the file of known import races."""

    baseline: str | None = None
