# SPDX-License-Identifier: Apache-2.0
"""Reads a store: the saved caches that a family may take, with those that are not trusted."""

from collections.abc import Iterable, Mapping
from itertools import islice

from msgspec import Struct

from ci_doctor.caches.families.judge import CacheCandidate
from ci_doctor.caches.targets import IdentifiedCache, tiers_in
from ci_doctor.caches.trusted_store import TrustedStore
from ci_doctor.store.errors import DamagedError, StoreError, StoreFailure, TooLargeError
from ci_doctor.store.manifest import Manifest
from ci_doctor.store.trust.untrusted import UntrustedError

# The newest first: an older one rarely differs in more than its branch.
_MOST = 8
# With those that are refused: whoever can write to a store can put any number of them before the others.
_MOST_READ = 40
# Of other identities: a fact that differs is as plain in the newest as in all.
_MOST_OTHERS = 20


class Candidates(Struct, frozen=True, kw_only=True):
    """Manifests by their names, the newest first, and why others were refused.

    warnings: of those that are used although nobody vouches for them.
    """

    manifests: dict[str, Manifest]
    refused: tuple[str, ...]
    warnings: dict[str, str]

    @staticmethod
    def compared(manifests: Mapping[str, Manifest]) -> list[CacheCandidate]:
        """As the families compare them."""
        return [
            CacheCandidate(name=name, created_ms=manifest.created_ms, tiers=tiers_in(manifest))
            for name, manifest in manifests.items()
        ]


def read_candidates(source: TrustedStore, cache: IdentifiedCache) -> Candidates:
    """The trusted manifests of a family and a hard identity. Raises StoreError."""
    return read_names(source, source.names(cache.family.name, cache.hard)[:_MOST_READ], _MOST)


def read_others(source: TrustedStore, cache: IdentifiedCache) -> Candidates:
    """The newest trusted manifests of other hard identities. Raises StoreError."""
    own = set(source.names(cache.family.name, cache.hard))
    names = (name for name in source.all_names(cache.family.name) if name not in own)
    return read_names(source, islice(names, _MOST_OTHERS))


def read_names(source: TrustedStore, names: Iterable[str], most: int | None = None) -> Candidates:
    """The trusted manifests among `names`, the first `most` of them. Raises StoreError."""
    manifests: dict[str, Manifest] = {}
    warnings: dict[str, str] = {}
    refused: list[str] = []
    for name in names:
        if len(manifests) == most:
            break
        try:
            candidate = source.read(name)
        except (UntrustedError, DamagedError, TooLargeError) as error:
            refused.append(error.message)
        except StoreError as error:
            # A collection of garbage has removed it since it was listed.
            if error.reason is not StoreFailure.MISSING:
                raise
        else:
            manifests[name] = candidate.manifest
            if candidate.vouched.warning is not None:
                warnings[name] = candidate.vouched.warning
    return Candidates(manifests=manifests, refused=tuple(refused), warnings=warnings)
