# SPDX-License-Identifier: Apache-2.0
"""Acts on a store: removes old manifests, and the packs to which no manifest has referred for long."""

import secrets
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from ci_doctor.decodable import decodable
from ci_doctor.model.facts.cache import CollectCacheFacts
from ci_doctor.store.manifest import (
    PackName,
    decode,
    parse_manifest_name,
    parse_pack_name,
    signature_name,
)
from ci_doctor.store.objects import (
    TEMPORARY,
    DamagedError,
    ObjectStore,
    StoredObject,
    StoreError,
    StoreLimits,
    TooLargeError,
)
from ci_doctor.store.trust import readable_packs

# --- the packs that earlier collections of garbage saw without a reference, and when ---

_RECORDS: Final = "gc/v1/"
_MOST_BYTES: Final = 64 * 1024 * 1024


class GarbageRecords:
    """The records in `store`. One is ripe if it is at least `grace_ms` old at `now_ms` (since the epoch).

    Raises StoreError if the store fails.
    """

    def __init__(self, store: ObjectStore, *, now_ms: int, grace_ms: int) -> None:
        self._store = store
        self._now_ms = now_ms
        self._ripe: list[StoredObject] = []
        self._young: list[StoredObject] = []
        for entry in store.names(_RECORDS):
            if not entry.name.endswith(".json") or entry.modified_ms > now_ms:
                continue
            is_ripe = entry.modified_ms <= now_ms - grace_ms
            (self._ripe if is_ripe else self._young).append(entry)

    def doomed(self) -> set[str]:
        """The packs in ripe records."""
        return self._names_in(self._ripe)

    def write(self, waiting: Iterable[StoredObject]) -> None:
        """Record the packs that wait and stand in no young record; remove the ripe records."""
        new = sorted({entry.name for entry in waiting} - self._names_in(self._young))
        if new:
            name = f"{_RECORDS}{self._now_ms:013d}-{secrets.token_hex(8)}.json"
            self._store.create(name, msgspec.json.encode(new))
        for entry in self._ripe:
            self._store.remove(entry.name)

    def _names_in(self, records: Iterable[StoredObject]) -> set[str]:
        """A damaged record counts as none."""
        names: set[str] = set()
        for entry in records:
            content = self._store.read(entry.name, _MOST_BYTES)
            try:
                names.update(msgspec.json.decode(content or b"[]", type=decodable(list[str])))
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
        return names


# --- removes old manifests, and the packs to which no manifest has referred for a while ---
# No lock is taken, and jobs may save meanwhile. A pack is removed only if nothing referred to it in an
# earlier collection, at least `grace_ms` ago, nothing refers to it now, and nothing has used it since.
# A job that builds on an older manifest therefore has the whole grace to write its own. What remains
# is a job that finds a pack in the very moment of its removal: its manifest then refers to a pack that
# is missing, which a reader notices and goes on without.

GRACE_MS: Final = 24 * 3_600_000


class GarbageRules(msgspec.Struct, frozen=True, kw_only=True):
    """What to keep: of each family and hard identity in a scope the newest `keep` manifests.

    Of these none that is older than `older_than_ms`. `now_ms` is the time, since the epoch.
    """

    keep: int
    older_than_ms: int
    now_ms: int
    grace_ms: int = GRACE_MS


class _References(msgspec.Struct, frozen=True, kw_only=True):
    packs: frozenset[PackName]
    protected_scopes: frozenset[str]
    unreadable: tuple[str, ...]

    def needs(self, pack: PackName) -> bool:
        return pack in self.packs or pack.scope in self.protected_scopes


class _GarbagePlan(msgspec.Struct, frozen=True, kw_only=True):
    """Names to remove: of manifests, of packs, and of what unfinished writes left.

    unneeded: all packs that no manifest needs now, by their names.
    """

    manifests: tuple[str, ...]
    packs: tuple[str, ...]
    leftovers: tuple[str, ...]
    unneeded: dict[str, StoredObject]
    unreadable: tuple[str, ...]


def collect_garbage(
    store: ObjectStore, rules: GarbageRules, limits: StoreLimits, *, dry_run: bool
) -> CollectCacheFacts:
    """Remove what the rules do not keep. Raises StoreError if the store fails; nothing is undone then."""
    objects = {entry.name: entry for entry in store.names("v1/")}
    records = GarbageRecords(store, now_ms=rules.now_ms, grace_ms=rules.grace_ms)
    old = select_manifests(objects.values(), rules)
    references = _references(store, objects.keys() - set(old), limits)
    unneeded = _unneeded(objects.values(), references, rules)
    plan = _GarbagePlan(
        manifests=tuple(old),
        packs=tuple(sorted(unneeded.keys() & records.doomed())),
        leftovers=tuple(_leftovers(objects.values(), rules)),
        unneeded=unneeded,
        unreadable=references.unreadable,
    )
    packs = plan.packs if dry_run else _remove(store, plan, objects, limits)
    waiting = [entry for name, entry in plan.unneeded.items() if name not in set(packs)]
    if not dry_run:
        records.write(waiting)
    removed = [*plan.manifests, *packs, *plan.leftovers]
    return CollectCacheFacts(
        store=store.location,
        is_dry_run=dry_run,
        manifests=plan.manifests,
        packs=packs,
        leftovers=plan.leftovers,
        freed_bytes=sum(objects[name].bytes for name in removed),
        waiting=len(waiting),
        unreadable=plan.unreadable,
    )


def _remove(
    store: ObjectStore, plan: _GarbagePlan, objects: dict[str, StoredObject], limits: StoreLimits
) -> tuple[str, ...]:
    """Carry the plan out; the packs that were removed."""
    # Signatures last: a manifest without one could be taken for an unsigned one.
    signatures = [signature_name(name) for name in plan.manifests]
    for name in [*plan.manifests, *signatures, *plan.leftovers]:
        store.remove(name)
    packs = _still_unneeded(store, plan.packs, objects, limits)
    for name in packs:
        store.remove(name)
    return tuple(packs)


def select_manifests(objects: Iterable[StoredObject], rules: GarbageRules) -> list[str]:
    """The names of the manifests that the rules do not keep.

    A name that claims a later time than that of its writing does not live longer for it.
    """
    groups: dict[tuple[str, str, str], list[tuple[int, str]]] = defaultdict(list)
    for entry in objects:
        parsed = parse_manifest_name(entry.name)
        if parsed is not None:
            age = min(parsed.created_ms, entry.modified_ms)
            groups[parsed.scope, parsed.family, parsed.hard].append((age, entry.name))
    oldest = rules.now_ms - rules.older_than_ms
    removed = []
    for group in groups.values():
        group.sort(reverse=True)
        removed += [name for _, name in group[rules.keep :]]
        removed += [name for created_ms, name in group[: rules.keep] if created_ms < oldest]
    return sorted(removed)


def _leftovers(objects: Iterable[StoredObject], rules: GarbageRules) -> list[str]:
    """Unfinished writes, and signatures whose manifests never came; both older than the grace."""
    entries = list(objects)
    present = {entry.name for entry in entries}
    youngest = rules.now_ms - rules.grace_ms
    return sorted(
        entry.name
        for entry in entries
        if entry.modified_ms <= youngest and _is_leftover(entry.name, present)
    )


def _is_leftover(name: str, present: set[str]) -> bool:
    if name.rpartition("/")[2].startswith(TEMPORARY):
        return True
    signed = name.removesuffix(".sig")
    return signed != name and parse_manifest_name(signed) is not None and signed not in present


def _references(store: ObjectStore, names: Iterable[str], limits: StoreLimits) -> _References:
    """The packs that manifests of these names refer to. Raises StoreError if the store fails."""
    packs: set[PackName] = set()
    protected: set[str] = set()
    unreadable = []
    for name in names:
        parsed = parse_manifest_name(name)
        if parsed is None:
            continue
        named = _packs_of(store, name, limits)
        if named is None:
            unreadable.append(name)
            protected |= readable_packs(parsed.scope)
        else:
            packs |= named
    return _References(
        packs=frozenset(packs),
        protected_scopes=frozenset(protected),
        unreadable=tuple(sorted(unreadable)),
    )


def _packs_of(store: ObjectStore, name: str, limits: StoreLimits) -> set[PackName] | None:
    """The packs of a manifest; None if it cannot be read."""
    content: bytes | None = None
    try:
        content = store.read(name, limits.manifest_bytes)
        if content is None:  # somebody else has removed it
            return set()
        manifest = decode(content, limits)
    except StoreError as error:
        # A store that does not answer ends the collection. What is damaged stays as it is.
        if content is None and not isinstance(error, DamagedError | TooLargeError):
            raise
        return None
    return {PackName(scope=pack.scope, digest=pack.digest) for pack in manifest.packs}


def _unneeded(
    objects: Iterable[StoredObject], references: _References, rules: GarbageRules
) -> dict[str, StoredObject]:
    """Packs that nothing refers to, and that nobody has written or used within the grace."""
    youngest = rules.now_ms - rules.grace_ms
    by_name = {}
    for entry in objects:
        pack = parse_pack_name(entry.name)
        if pack is None or entry.modified_ms > youngest or references.needs(pack):
            continue
        by_name[entry.name] = entry
    return by_name


def _still_unneeded(
    store: ObjectStore,
    packs: Sequence[str],
    before: dict[str, StoredObject],
    limits: StoreLimits,
) -> list[str]:
    """Those of `packs` that nobody has used, and no new manifest refers to, since `before`."""
    if not packs:
        return []
    now = {entry.name: entry for entry in store.names("v1/")}
    references = _references(store, now.keys() - before.keys(), limits)
    kept = []
    for name in packs:
        pack = parse_pack_name(name)
        if name in now and now[name] == before[name] and pack and not references.needs(pack):
            kept.append(name)
    return kept
