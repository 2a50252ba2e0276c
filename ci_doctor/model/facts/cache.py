# SPDX-License-Identifier: Apache-2.0
"""Pure. The facts of the commands of `ci-doctor cache`. Times are RFC 3339 in UTC."""

from msgspec import Struct

from ci_doctor.model.facts import Facts


class SavedFrom(Struct, frozen=True, kw_only=True):
    """The job that saved a cache, as far as it is known, and when."""

    at: str
    pipeline: str | None
    build: str | None
    commit: str | None
    branch: str | None


class RestoredCache(Struct, frozen=True, kw_only=True):
    """What came of one family.

    result: `restored`, `none` (nothing saved fits), `inert` (it would be of no use here), `refused`
    (not trusted, damaged, above a limit), `failed` or `skipped` (there is no directory). reason is a
    sentence. bytes: of the files; fetched_bytes: from the store. kept: files that were there.
    """

    family: str
    directory: str | None
    result: str
    reason: str | None = None
    origin: SavedFrom | None = None
    manifest: str | None = None
    files: int = 0
    bytes: int = 0
    fetched_bytes: int = 0
    kept: int = 0
    seconds: float = 0.0


class RestoreCacheFacts(Facts, frozen=True, kw_only=True):
    """What was restored from where. is_shared: this process left the transfer to another one.

    problem: what kept all of it from being restored; failure its kind (`timeout`, `unreachable`, …).
    """

    store: str
    is_shared: bool
    caches: tuple[RestoredCache, ...]
    problem: str | None = None
    failure: str | None = None


class SavedCache(Struct, frozen=True, kw_only=True):
    """What came of one family.

    result: `saved`, `exists` (another job saved the same), `unchanged`, `empty`, `absent` (its directory
    was named, and is not there) or `failed`.
    new_bytes: of files that the store did not have; stored_bytes: what was sent. skipped: each file
    that was left out, with the reason. cold_s: what compiling has cost, by `cold_source`; None if it is not known.
    """

    family: str
    directory: str | None
    result: str
    reason: str | None = None
    manifest: str | None = None
    files: int = 0
    bytes: int = 0
    new_bytes: int = 0
    stored_bytes: int = 0
    skipped: tuple[str, ...] = ()
    cold_s: float | None = None
    cold_source: str | None = None
    seconds: float = 0.0


class SaveCacheFacts(Facts, frozen=True, kw_only=True):
    """What was saved where, in which scope, and whether it is signed.

    is_accepted: a reader with this job's trust takes it.
    """

    store: str
    scope: str
    is_signed: bool
    is_accepted: bool
    caches: tuple[SavedCache, ...]
    problem: str | None = None
    failure: str | None = None


class CacheStatusRow(Struct, frozen=True, kw_only=True):
    """A family's directory now. would: what a restore would do; None if no store is named."""

    family: str
    directory: str | None
    files: int
    bytes: int
    restored: SavedFrom | None
    would: str | None = None


class CacheStatusFacts(Facts, frozen=True, kw_only=True):
    """What lies where."""

    store: str | None
    caches: tuple[CacheStatusRow, ...]


class VerifiedCache(Struct, frozen=True, kw_only=True):
    """A restored tree against its receipt: files that differ or are gone, by their paths."""

    family: str
    directory: str
    files: int
    changed: tuple[str, ...]
    missing: tuple[str, ...]


class VerifyCacheFacts(Facts, frozen=True, kw_only=True):
    """Restored trees, and the manifests and packs of the store that were read whole."""

    store: str | None
    caches: tuple[VerifiedCache, ...]
    manifests: int = 0
    packs: int = 0
    bytes: int = 0
    damaged: tuple[str, ...] = ()


class CacheEffect(Struct, frozen=True, kw_only=True):
    """Whether a restored cache has paid: effect.RestoreEffect's value, with its reason and causes.

    compiled: files compiled after the restore. cold_s and warm_s are seconds of compiling, by
    `source`. saved_s and saved_gpu_s are None if they were not measured.
    """

    family: str
    directory: str
    effect: str
    reason: str
    causes: tuple[str, ...]
    compiled: int
    read: int | None
    fetched_bytes: int
    cold_s: float | None
    warm_s: float | None
    source: str | None
    saved_s: float | None
    saved_gpu_s: float | None


class CacheEffectFacts(Facts, frozen=True, kw_only=True):
    """The effect of each restored family; the sums are of what was measured."""

    caches: tuple[CacheEffect, ...]
    saved_s: float | None
    saved_gpu_s: float | None
    fetched_bytes: int


class JobCacheFacts(Facts, frozen=True, kw_only=True):
    """What the plugin's hooks did with the caches of a job, one of each for each entry of the plugin.

    Without a command that succeeded, `effects` and `saved` are empty.
    """

    restored: tuple[RestoreCacheFacts, ...] = ()
    effects: tuple[CacheEffectFacts, ...] = ()
    saved: tuple[SaveCacheFacts, ...] = ()


class ExplainedFact(Struct, frozen=True, kw_only=True):
    """A fact of an identity here and in the nearest saved cache; None without such a fact."""

    tier: str
    name: str
    here: str | None
    saved: str | None
    differs: bool


class ExplainedCache(Struct, frozen=True, kw_only=True):
    """A family's identity, and what a restore would do with the nearest saved cache."""

    family: str
    directory: str | None
    hard: str
    would: str
    nearest: SavedFrom | None
    facts: tuple[ExplainedFact, ...]


class ExplainCacheFacts(Facts, frozen=True, kw_only=True):
    """The identities of this machine."""

    store: str | None
    caches: tuple[ExplainedCache, ...]


class CollectCacheFacts(Facts, frozen=True, kw_only=True):
    """What `gc` removed, or would remove, by name.

    leftovers: what broken saves have left. waiting: packs that no manifest needs, and that a later run
    removes. unreadable: manifests that cannot be read; what they may need stays.
    """

    store: str
    is_dry_run: bool
    manifests: tuple[str, ...]
    packs: tuple[str, ...]
    leftovers: tuple[str, ...]
    freed_bytes: int
    waiting: int
    unreadable: tuple[str, ...]


class CacheKeyFacts(Facts, frozen=True, kw_only=True):
    """A new key: its files, and the line for the allowed signers."""

    private: str
    public: str
    allowed_signer: str
