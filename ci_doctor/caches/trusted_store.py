# SPDX-License-Identifier: Apache-2.0
"""Acts on files and reads a store as one job may: what somebody vouches for, what a restore would do and has installed where."""

import hashlib
import os
import stat
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path

import msgspec
from msgspec import Struct

from ci_doctor.caches.effect import scan
from ci_doctor.caches.judge import (
    CacheCandidate,
    Inert,
    NearestCache,
    RefusedCache,
    Relocate,
    choose,
    differences_in_words,
    moment,
    nearest,
    origin_at,
    saved_from,
)
from ci_doctor.caches.targets import CacheTarget, IdentifiedCache, tiers_in
from ci_doctor.decodable import decodable
from ci_doctor.identity.identity import Identity
from ci_doctor.model.facts.cache import (
    CacheStatusRow,
    ExplainedCache,
    ExplainedFact,
    VerifiedCache,
    VerifyCacheFacts,
)
from ci_doctor.store.manifest import (
    PACK_BYTES,
    VERSION,
    ColdCost,
    IdentityTier,
    Manifest,
    Origin,
    PackReference,
    pack_name,
    parse_manifest_name,
)
from ci_doctor.store.objects import (
    DamagedError,
    ObjectStore,
    StoreError,
    StoreFailure,
    StoreLimits,
    TooLargeError,
)
from ci_doctor.store.transfer import Deadline, digest, digest_of_file
from ci_doctor.store.trust import (
    CandidateManifest,
    TrustRules,
    UntrustedError,
    manifests,
    read_manifest,
)
from ci_doctor.system.files.access import (
    RECEIPTS,
    STATE_VARIABLE,
    machine_place,
    make_directory,
    open_at_once,
    write_atomically,
)

# --- the one in which the processes of this user on this machine agree ---
# It holds locks, results and receipts. Others must not be able to write to it: a result placed by them
# would be believed.


def machine_directory(environ: Mapping[str, str], *, make: bool = True) -> Path:
    """The directory of mode 0700 that belongs to this user; made if it is missing and `make`.

    It is that of machine_place(). Raises StoreError if it is a link, belongs to somebody else, or cannot
    be made.
    """
    path = machine_place(environ)
    try:
        if make:
            make_directory(path, 0o700)
        status = path.lstat()
    except OSError as error:
        raise _refused(f"cannot use {path}: {error.strerror}") from error
    if not stat.S_ISDIR(status.st_mode):
        raise _refused(f"{path} is no directory")
    if status.st_uid != os.geteuid():
        raise _refused(f"{path} belongs to another user")
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise _refused(f"{path} is open to other users (mode {stat.S_IMODE(status.st_mode):04o})")
    return path


def _refused(message: str) -> StoreError:
    hint = f"remove it, or name another directory in {STATE_VARIABLE}"
    return StoreError(StoreFailure.REFUSED, message, hint=hint)


# --- what a restore has installed where, for `status` and `verify` ---

_SCHEMA = 3


class InstalledFile(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """A file as it was installed: its path below the root, its size, time and digest (hex)."""

    path: str
    bytes: int
    mtime_ns: int
    digest: str


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What was restored. Times are since the epoch.

    created_ms: when it was saved. installed_ns: when the last file was in place. `bytes` are those of the files, fetched_bytes those
    that came from the store. hard, path and soft are the identity of this machine, and saved_* that of
    the manifest. job: the Buildkite job that restored it. installed: how many of the files the restore
    put there; the others were there before. counts: the library's own statistics when it was restored,
    None if it keeps none.
    """

    schema: int = _SCHEMA
    family: str
    root: str
    store: str
    manifest: str
    created_ms: int
    installed_ns: int
    bytes: int
    fetched_bytes: int
    seconds: float
    origin: Origin
    cold: ColdCost | None
    path: IdentityTier
    saved_path: IdentityTier
    soft: IdentityTier
    saved_soft: IdentityTier
    job: str | None
    counts: dict[str, int] | None
    installed: int
    files: tuple[InstalledFile, ...]


def keep_receipt(state: Path, receipt: Receipt) -> None:
    """Write the receipt into `state`, in place of an earlier one of the same family and root.

    Raises UsageError if it cannot be written.
    """
    write_atomically(_path(state, receipt.family, receipt.root), msgspec.json.encode(receipt))


def read_receipt(state: Path, family: str, root: Path) -> Receipt | None:
    """The receipt of this family and directory; None if there is none that can be read."""
    return _read(_path(state, family, str(root)))


def receipts_of(state: Path, family: str) -> list[Receipt]:
    """All receipts of a family, the newest first."""
    receipts = []
    for path in (state / RECEIPTS).glob(f"{family}-*.json"):
        receipt = _read(path)
        if receipt is not None and receipt.family == family:
            receipts.append(receipt)
    return sorted(receipts, key=lambda receipt: -receipt.installed_ns)


def forget_receipt(state: Path, family: str, root: Path) -> None:
    """Remove the receipt: what lies there now was not restored."""
    _path(state, family, str(root)).unlink(missing_ok=True)


def _read(path: Path) -> Receipt | None:
    try:
        receipt = msgspec.json.decode(path.read_bytes(), type=decodable(Receipt))
    except (OSError, msgspec.MsgspecError):
        return None
    return receipt if receipt.schema == _SCHEMA else None


def _path(state: Path, family: str, root: str) -> Path:
    digest = hashlib.sha256(root.encode("utf-8", "surrogateescape")).hexdigest()
    return state / RECEIPTS / f"{family}-{digest[:16]}.json"


# --- its scopes, and only what somebody vouches for ---


class TrustedStore(Struct, frozen=True, kw_only=True):
    """A store, the scopes that are read in order of preference, and whom to believe."""

    store: ObjectStore
    scopes: tuple[str, ...]
    rules: TrustRules

    def names(self, family: str, hard: str) -> list[str]:
        """The manifests of a family and a hard identity, the newest first. Raises StoreError."""
        return manifests(self.store, self.scopes, family, hard)

    def all_names(self, family: str) -> list[str]:
        """The manifests of a family of any identity, the newest first. Raises StoreError."""
        dated = []
        for scope in self.scopes:
            for entry in self.store.names(f"{VERSION}/{scope}/manifests/{family}/"):
                parsed = parse_manifest_name(entry.name)
                if parsed is not None:
                    dated.append((-parsed.created_ms, entry.name))
        return [name for _, name in sorted(dated)]

    def read(self, name: str) -> CandidateManifest:
        """The manifest `name`. Raises UntrustedError, DamagedError, StoreError."""
        return read_manifest(self.store, name, self.rules, StoreLimits())


# --- the saved caches that a family may take, with those that are not trusted ---

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


# --- every manifest this job may read, and every pack that one of them names ---


def verify_store(
    source: TrustedStore, families: tuple[str, ...], deadline: Deadline
) -> VerifyCacheFacts:
    """Read all manifests of `families` and their packs; of no installed cache. Raises StoreError if the store fails."""
    damaged: list[str] = []
    packs: dict[PackReference, None] = {}
    manifests = 0
    for family in families:
        for name in source.all_names(family):
            deadline.check("verifying the store")
            manifests += 1
            try:
                packs.update(dict.fromkeys(source.read(name).manifest.packs))
            except StoreError as error:
                if error.is_of_whole_store:
                    raise
                damaged.append(f"{name}: {error.message}")
    size = 0
    for pack in packs:
        deadline.check("verifying the store")
        try:
            size += _verified_bytes(source, pack)
        except StoreError as error:
            if error.is_of_whole_store:
                raise
            damaged.append(error.message)
    return VerifyCacheFacts(
        store=source.store.location,
        caches=(),
        manifests=manifests,
        packs=len(packs),
        bytes=size,
        damaged=tuple(damaged),
    )


def _verified_bytes(source: TrustedStore, pack: PackReference) -> int:
    """The pack's size. Raises DamagedError, StoreError."""
    name = pack_name(pack.scope, pack.digest)
    content = source.store.read(name, PACK_BYTES)
    if content is None:
        raise DamagedError(f"{name} is missing")
    if digest(content) != pack.digest:
        raise DamagedError(f"{name} was changed: its bytes do not have the digest in its name")
    return len(content)


# --- whether each file is as it was installed ---

_MOST_NAMED = 20


def verify_installed(targets: tuple[CacheTarget, ...], state: Path) -> tuple[VerifiedCache, ...]:
    """Each target that has a receipt, against it."""
    newest = [receipts_of(state, target.family.name)[:1] for target in targets]
    return tuple(_verify(receipt) for receipts in newest for receipt in receipts)


def _verify(receipt: Receipt) -> VerifiedCache:
    changed: list[str] = []
    missing: list[str] = []
    for file in receipt.files:
        path = Path(receipt.root, file.path)
        try:
            if not _is_as_installed(path, file):
                changed.append(file.path)
        except OSError:
            missing.append(file.path)
    return VerifiedCache(
        family=receipt.family,
        directory=receipt.root,
        files=len(receipt.files),
        changed=tuple(changed[:_MOST_NAMED]),
        missing=tuple(missing[:_MOST_NAMED]),
    )


def _is_as_installed(path: Path, file: InstalledFile) -> bool:
    """Without a digest the file was relocated, and its time alone says whether it changed."""
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode):
        return False
    if not file.digest:
        return status.st_mtime_ns == file.mtime_ns
    # What is a file now may be a pipe in a moment, and a link leads anywhere.
    with os.fdopen(open_at_once(path, follow=False), "rb") as content:
        return digest_of_file(content) == file.digest


def status_row(cache: IdentifiedCache, state: Path, source: TrustedStore | None) -> CacheStatusRow:
    """A family's directory now. Raises StoreError if the store fails."""
    files = scan(cache.directory, cache.family)
    receipt = read_receipt(state, cache.family.name, cache.directory)
    return CacheStatusRow(
        family=cache.family.name,
        directory=str(cache.directory),
        files=len(files),
        bytes=sum(file.bytes for file in files),
        restored=origin_at(receipt.origin, receipt.created_ms) if receipt is not None else None,
        would=would_restore(cache, read_candidates(source, cache)) if source is not None else None,
    )


def explain(cache: IdentifiedCache, source: TrustedStore | None) -> ExplainedCache:
    """The identity fact by fact, against the nearest saved cache. Raises StoreError."""
    near = None
    nearest_origin = None
    would = "no store is named"
    if source is not None:
        own = read_candidates(source, cache)
        others = read_others(source, cache)
        manifests = {**others.manifests, **own.manifests}
        near = nearest(cache.family, Candidates.compared(manifests), cache.tiers)
        would = would_restore(cache, own if own.manifests or own.refused else others)
        if near is not None:
            nearest_origin = saved_from(manifests[near.candidate.name])
    return ExplainedCache(
        family=cache.family.name,
        directory=str(cache.directory),
        hard=cache.hard,
        would=would,
        nearest=nearest_origin,
        facts=_facts(cache, near),
    )


def would_restore(cache: IdentifiedCache, candidates: Candidates) -> str:
    """What a restore would do, as a sentence."""
    compared = candidates.compared(candidates.manifests)
    chosen = choose(cache.family, compared, cache.tiers)
    if chosen is not None:
        candidate, decision = chosen
        at = moment(candidate.created_ms)
        moved = ", relocated" if isinstance(decision, Relocate) else ""
        return f"restore what was saved {at}{moved}"
    near = nearest(cache.family, compared, cache.tiers)
    if near is None:
        return f"refuse it: {candidates.refused[0]}" if candidates.refused else "nothing is saved"
    if isinstance(near.decision, Inert | RefusedCache):
        words = differences_in_words(near.decision.differences)
        verb = "would be inert" if isinstance(near.decision, Inert) else "is of another identity"
        return f"not restore: the nearest {verb}: {words}"
    return "not restore"


def _facts(cache: IdentifiedCache, near: NearestCache | None) -> tuple[ExplainedFact, ...]:
    facts: list[ExplainedFact] = []
    for tier in ("hard", "path", "soft"):
        here: Identity = getattr(cache.tiers, tier)
        saved: Identity | None = getattr(near.candidate.tiers, tier) if near is not None else None
        different = {each.fact for each in getattr(near, tier)} if near is not None else set()
        names = {*here.facts, *here.unknown}
        if saved is not None:
            names |= {*saved.facts, *saved.unknown}
        facts += [
            ExplainedFact(
                tier=tier,
                name=name,
                here=_text(here, name),
                saved=_text(saved, name) if saved is not None else None,
                differs=name in different,
            )
            for name in sorted(names)
        ]
    return tuple(facts)


def _text(identity: Identity, name: str) -> str | None:
    if name in identity.unknown:
        return f"unknown: {identity.unknown[name]}"
    return identity.facts.get(name)
