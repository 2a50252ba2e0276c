# SPDX-License-Identifier: Apache-2.0
"""Pure. The `[diagnose]` section."""

from msgspec import Struct


class DiagnoseSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person writes (docs/diagnose.md).

    `rules`: files with rules of the repository, relative to the file naming them, or to the working
    directory.
    """

    rules: tuple[str, ...] = ()
