# SPDX-License-Identifier: Apache-2.0
"""What a run takes from the archive, newest first, and of how many builds. Pure."""

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness.archive.archived_start import ArchivedStart
from ci_doctor.correctness.archive.near_misses import NearMiss
from ci_doctor.correctness.archive.revocation import Revocations

# Of one build: more of its starts would leave less room for those of independent builds.
_MOST_OF_A_BUILD = 5


class ArchiveMatches(Struct, frozen=True, kw_only=True):
    """`starts` match, newest first. Without any, `near` holds the nearest misses.

    `unknown` names the facts that neither side knows, so that they are assumed to be equal.
    `skipped` holds one sentence for each unusable file. `revoked` counts the starts that were
    revoked.
    """

    starts: tuple[ArchivedStart, ...] = ()
    near: tuple[NearMiss, ...] = ()
    unknown: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    revoked: int = 0

    @property
    def builds(self) -> int:
        """How many independent builds made the starts; unknown ones count as one together."""
        return len({start.build_id for start in self.starts})

    @property
    def unknown_builds(self) -> int:
        """How many of the starts name no build."""
        return sum(start.origin is None for start in self.starts)


def newest_usable(
    matching: Iterable[ArchivedStart], revocations: Revocations, newest: int
) -> tuple[list[ArchivedStart], int]:
    """The `newest` starts that nothing revokes, and how many were revoked among those before.

    Their number makes their name: a1 is the newest.
    """
    starts: list[ArchivedStart] = []
    by_build: Counter[str | None] = Counter()
    revoked = 0
    for start in matching:
        if revocations.of(start.origin) is not None:
            revoked += 1
            continue
        by_build[start.build_id] += 1
        if by_build[start.build_id] <= _MOST_OF_A_BUILD:
            starts.append(replace(start, number=len(starts) + 1))
        if len(starts) == newest:
            break
    return starts, revoked
