# SPDX-License-Identifier: Apache-2.0
"""Pure. Whether a saved cache may be used here, as it is or relocated, and which one is best.

A fact that one side does not know is never taken as equal. If it is a hard one, the cache is not
restored: what it holds is executed, and may be wrong. If it is one that is baked into the files,
the cache is taken as inert: it would cost a transfer, and serve nobody.
"""

from collections.abc import Iterable

from msgspec import Struct

from ci_doctor.caches.families.family import Family
from ci_doctor.caches.families.tiers import Tiers
from ci_doctor.identity.identity import Difference, Identity, differences

ROOT = "cache.root"


class Usable(Struct, frozen=True, kw_only=True):
    """It may be restored as it is. `soft`: how it differs in what does not decide."""

    soft: tuple[Difference, ...] = ()


class Relocate(Struct, frozen=True, kw_only=True):
    """It may be restored if its files are rewritten (`relocate.py`) from one root to the other."""

    old_root: str
    new_root: str
    soft: tuple[Difference, ...] = ()


class Inert(Struct, frozen=True, kw_only=True):
    """Restored here, nothing would hit it: `differences` are in facts baked into it."""

    differences: tuple[Difference, ...]


class RefusedCache(Struct, frozen=True, kw_only=True):
    """Restored here, it could be wrong or crash the job, because of these `differences`."""

    differences: tuple[Difference, ...]


Decision = Usable | Relocate | Inert | RefusedCache


class CacheCandidate(Struct, frozen=True, kw_only=True):
    """A saved cache: its `name` in the store, when it was made (ms since 1970), its identity."""

    name: str
    created_ms: int
    tiers: Tiers


class NearestCache(Struct, frozen=True, kw_only=True):
    """The candidate that differs least, and all of its differences, saved -> here, by tier."""

    candidate: CacheCandidate
    decision: Decision
    hard: tuple[Difference, ...]
    path: tuple[Difference, ...]
    soft: tuple[Difference, ...]


def usable(family: Family, saved: Tiers, here: Tiers) -> Decision:
    """What may be done with a cache that was `saved` with these tiers."""
    if hard := blocking(saved.hard, here.hard):
        return RefusedCache(differences=hard)
    if path := _baked(family, saved, here):
        return Inert(differences=path)
    soft = differences(saved.soft, here.soft)
    old_root, new_root = saved.path.facts.get(ROOT, ""), here.path.facts.get(ROOT, "")
    if family.rewrite is not None and old_root != new_root:
        return Relocate(old_root=old_root, new_root=new_root, soft=soft)
    return Usable(soft=soft)


def blocking(saved: Identity, here: Identity) -> tuple[Difference, ...]:
    """Every fact that is not known to be equal on both sides, by name."""
    unknown_to_both = [
        Difference(
            fact=name,
            left=f"unknown: {saved.unknown[name]}",
            right=f"unknown: {here.unknown[name]}",
            knowledge=True,
        )
        for name in saved.unknown
        if name in here.unknown
    ]
    return tuple(sorted([*differences(saved, here), *unknown_to_both], key=lambda each: each.fact))


def choose(
    family: Family, candidates: Iterable[CacheCandidate], here: Tiers
) -> tuple[CacheCandidate, Usable | Relocate] | None:
    """The usable candidate with the fewest soft differences, of these the newest; None: none is."""
    best = None
    for candidate in sorted(candidates, key=lambda each: (-each.created_ms, each.name)):
        decision = usable(family, candidate.tiers, here)
        if not isinstance(decision, Usable | Relocate):
            continue
        if best is None or len(decision.soft) < len(best[1].soft):
            best = (candidate, decision)
    return best


def nearest(
    family: Family, candidates: Iterable[CacheCandidate], here: Tiers
) -> NearestCache | None:
    """The candidate with the fewest hard, then baked, then soft differences, then the newest."""
    compared = [
        NearestCache(
            candidate=candidate,
            decision=usable(family, candidate.tiers, here),
            hard=blocking(candidate.tiers.hard, here.hard),
            path=_baked(family, candidate.tiers, here),
            soft=differences(candidate.tiers.soft, here.soft),
        )
        for candidate in candidates
    ]
    return min(compared, key=_distance, default=None)


def _distance(near: NearestCache) -> tuple[int, int, int, int, str]:
    made = -near.candidate.created_ms
    return len(near.hard), len(near.path), len(near.soft), made, near.candidate.name


def _baked(family: Family, saved: Tiers, here: Tiers) -> tuple[Difference, ...]:
    """Differences in facts of the path tier that no relocation changes."""
    return tuple(
        each for each in blocking(saved.path, here.path) if each.fact != ROOT or ROOT in family.path
    )
