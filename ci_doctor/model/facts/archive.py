# SPDX-License-Identifier: Apache-2.0
"""Pure. The facts of what a run took from its archive of baseline starts."""

from msgspec import Struct


class ArchiveDrift(Struct, frozen=True, kw_only=True):
    """Today's baseline answers `request` otherwise than the archive, in `today` starts.

    `p` is the p-value of the exact test; None if they share no answer at all.
    """

    request: str
    today: int
    p: float | None


class ArchiveUseFacts(Struct, frozen=True, kw_only=True):
    """The archived `starts` beside those of a run, and how many independent `builds` made them.

    `unknown_builds` of the starts name no build; these count as one build together. With a `drift`
    the archive is off.
    """

    starts: int
    builds: int
    unknown_builds: int
    drift: ArchiveDrift | None
