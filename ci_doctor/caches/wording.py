# SPDX-License-Identifier: Apache-2.0
"""Pure. Sentences about identities and origins, which several commands print."""

from collections.abc import Iterable

from ci_doctor.identity.identity import Difference
from ci_doctor.model.facts.cache import SavedFrom
from ci_doctor.model.quantities import moment_text
from ci_doctor.store.manifest import Manifest, Origin

_MOST = 3


def saved_from(manifest: Manifest) -> SavedFrom:
    """The job that saved it, and when."""
    return origin_at(manifest.origin, manifest.created_ms)


def origin_at(origin: Origin, at_ms: int) -> SavedFrom:
    """The same, of a receipt."""
    return SavedFrom(
        at=moment(at_ms),
        pipeline=origin.pipeline,
        build=origin.build,
        commit=origin.commit,
        branch=origin.branch,
    )


def moment(at_ms: int) -> str:
    """RFC 3339 in UTC of ms since the epoch."""
    return moment_text(at_ms / 1000, "seconds")


def build_in_words(origin: SavedFrom) -> str:
    """`build 4711 (main, 0123abc)`, or when it was saved if no build did it."""
    if origin.build is None:
        return f"saved {origin.at}"
    details = [part for part in (origin.branch, (origin.commit or "")[:7]) if part]
    return f"build {origin.build}" + (f" ({', '.join(details)})" if details else "")


def differences_in_words(differences: Iterable[Difference]) -> str:
    """The first differences, saved -> here, and how many more there are."""
    texts = [each.describe() for each in differences]
    more = len(texts) - _MOST
    return "; ".join(texts[:_MOST]) + (f"; {more} more" if more > 0 else "")
