# SPDX-License-Identifier: Apache-2.0
"""Pure. The `[cache]` section; whether a saved cache may be used here, as it is or relocated; sentences about identities."""

from collections.abc import Iterable

from msgspec import Struct

from ci_doctor.caches.families import Family, OwnFamily
from ci_doctor.identity.identity import Difference, Identity, differences
from ci_doctor.model.facts.cache import SavedFrom
from ci_doctor.model.words import moment_text
from ci_doctor.store.manifest import Manifest, Origin
from ci_doctor.store.trust import TrustPolicy

DEFAULT_BUDGET = "60s"


class CacheSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person writes (docs/cache.md).

    store: a directory, or file://, s3://, gs://, az://. families: names, each with `=DIR` for a
    directory other than the library's own. own: a table for each family that the library does not
    know. trust: whose caches are restored; what is restored is executed. key: a private key; with one, what is saved is signed.
    allowed_signers: a file in the format of ssh-keygen(1). budget: the most that one command takes.
    strict: a problem with a cache decides the exit code. expires: how long what is saved may be
    restored. keep: of each family and identity, how many saved caches `gc` leaves.
    """

    store: str | None = None
    families: tuple[str, ...] = ()
    own: dict[str, OwnFamily] = {}
    trust: TrustPolicy = TrustPolicy.LOCAL
    key: str | None = None
    allowed_signers: str | None = None
    budget: str | float = DEFAULT_BUDGET
    strict: bool = False
    expires: str | float = "14d"
    keep: int = 3


# --- the identity of a cache in three tiers ---


class Tiers(Struct, frozen=True, kw_only=True):
    """`hard` facts must be equal; `path` facts are baked into files; `soft` ones only rank."""

    hard: Identity
    path: Identity
    soft: Identity


# --- whether a saved cache may be used here, as it is or relocated, and which one is best ---
# A fact that one side does not know is never taken as equal. If it is a hard one, the cache is not
# restored: what it holds is executed, and may be wrong. If it is one that is baked into the files,
# the cache is taken as inert: it would cost a transfer, and serve nobody.

ROOT = "cache.root"


class Usable(Struct, frozen=True, kw_only=True):
    """It may be restored as it is. `soft`: how it differs in what does not decide."""

    soft: tuple[Difference, ...] = ()


class Relocate(Struct, frozen=True, kw_only=True):
    """It may be restored if its files are rewritten from one root to the other."""

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


# --- sentences about identities and origins, which several commands print ---

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
