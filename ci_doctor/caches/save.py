# SPDX-License-Identifier: Apache-2.0
"""Acts on a store: the cache directories of a job that succeeded are saved for later jobs."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.caches.compiled import LogWords, ScannedFile, compile_seconds, compiled_files, scan
from ci_doctor.caches.effect import cost_of
from ci_doctor.caches.leader import bounded, forget
from ci_doctor.caches.receipt import Receipt, read_receipt
from ci_doctor.caches.targets import IdentifiedCache, tier_of
from ci_doctor.caches.trusted_store import TrustedStore, read_candidates
from ci_doctor.model.facts.cache import SaveCacheFacts, SavedCache
from ci_doctor.store.manifest import ColdCost, Manifest, ManifestHeader, Origin
from ci_doctor.store.objects import StoreError
from ci_doctor.store.save import ManifestSigner, SaveRules, save_tree
from ci_doctor.store.transfer import Deadline
from ci_doctor.store.trust import accepts_unsigned

# --- the cache directories of a job that succeeded are saved for later jobs ---

Tell = Callable[[str], None]


class SaveWork(Struct, frozen=True, kw_only=True):
    """What is saved: to which scope, signed by whom, for how long (s), by which job.

    logs: what the job's log says of each family, by its name. gpus: those that waited while the job
    compiled, 0 if nobody knows.
    """

    caches: tuple[IdentifiedCache, ...]
    target: TrustedStore
    scope: str
    signer: ManifestSigner | None
    deadline: Deadline
    state: Path
    expires_s: float
    origin: Origin
    logs: Mapping[str, LogWords]
    gpus: int


def save_all(work: SaveWork, tell: Tell) -> tuple[SavedCache, ...]:
    """What came of each family. Raises StoreError if the store itself fails."""
    results = []
    for cache in work.caches:
        started = time.monotonic()
        try:
            result = _save(work, cache, tell)
        except StoreError as error:
            if error.is_of_whole_store:
                raise
            result = _without(cache, "failed", error.message)
        results.append(replace(result, seconds=time.monotonic() - started))
    return tuple(results)


def _save(work: SaveWork, cache: IdentifiedCache, tell: Tell) -> SavedCache:
    files = scan(cache.directory, cache.family)
    if not files:
        return _without(cache, "empty", "the job has no such cache")
    if cache.tiers.hard.unknown:
        unknown = "; ".join(f"{name}: {why}" for name, why in cache.tiers.hard.unknown.items())
        return _without(cache, "failed", f"nobody could restore it: {unknown}")
    receipt = read_receipt(work.state, cache.family.name, cache.directory)
    if receipt is not None and _is_unchanged(receipt, files):
        return _without(cache, "unchanged", "it is as it was restored")
    tell(f"saving {cache.family.name}")
    parent = _parent(work, cache)
    cold = _cold(work, cache, files, receipt)
    rules = SaveRules(
        scope=work.scope,
        deadline=work.deadline,
        parent=parent,
        exclude=cache.family.excludes,
        group=cache.family.group_of,
        signer=work.signer,
    )
    now_ms = time.time_ns() // 1_000_000
    saved = save_tree(
        work.target.store,
        cache.directory,
        ManifestHeader(
            family=cache.family.name,
            hard=tier_of(cache.tiers.hard),
            path=tier_of(cache.tiers.path),
            soft=tier_of(cache.tiers.soft),
            root=str(cache.directory),
            created_ms=now_ms,
            expires_ms=now_ms + round(work.expires_s * 1000),
            origin=work.origin,
            cold=cold,
        ),
        rules,
    )
    return SavedCache(
        family=cache.family.name,
        directory=str(cache.directory),
        result="saved" if saved.created else "exists",
        manifest=saved.manifest_name,
        files=saved.files,
        bytes=saved.bytes,
        new_bytes=saved.new_bytes,
        stored_bytes=saved.stored_bytes,
        skipped=tuple(f"{path} {reason}" for path, reason in saved.skipped),
        cold_s=cold.seconds if cold is not None else None,
        cold_source=cold.source if cold is not None else None,
    )


def _is_unchanged(receipt: Receipt, files: tuple[ScannedFile, ...]) -> bool:
    """Whether no file is new, gone or of another time than it was installed with."""
    installed = {file.path: file.mtime_ns for file in receipt.files}
    return installed == {file.path: file.mtime_ns for file in files}


def _parent(work: SaveWork, cache: IdentifiedCache) -> Manifest | None:
    """The newest trusted manifest of this very directory: what it holds is not sent again."""
    for manifest in read_candidates(work.target, cache).manifests.values():
        if manifest.root == str(cache.directory):
            return manifest
    return None


def _cold(
    work: SaveWork,
    cache: IdentifiedCache,
    files: tuple[ScannedFile, ...],
    receipt: Receipt | None,
) -> ColdCost | None:
    """What it has cost to compile all of the tree.

    Of a restored tree, the restored part is not compiled here: its cost is the one that its manifest
    names, and that of what this job added comes on top if both are of one source.
    """
    before = {file.path for file in receipt.files} if receipt is not None else set()
    compiled = [file for file in compiled_files(files, cache.family) if file.path not in before]
    words = work.logs.get(cache.family.name)
    added = cost_of([file.mtime_ns for file in compiled], compile_seconds(words), work.gpus)
    if receipt is None:
        return added
    if receipt.cold is None or added is None:
        return receipt.cold
    if added.source != receipt.cold.source:
        return receipt.cold
    return replace(
        receipt.cold,
        seconds=receipt.cold.seconds + added.seconds,
        compiled=receipt.cold.compiled + added.compiled,
    )


def _without(cache: IdentifiedCache, result: str, reason: str) -> SavedCache:
    return SavedCache(
        family=cache.family.name, directory=str(cache.directory), result=result, reason=reason
    )


# --- a save that ends by its deadline, whatever hangs ---


def run_save(work: SaveWork, deadline: Deadline, tell: Callable[[str], None]) -> SaveCacheFacts:
    """Save; what goes wrong with the store is a part of the facts."""
    location = work.target.store.location
    is_signed = work.signer is not None
    is_accepted = is_signed or accepts_unsigned(
        work.target.rules.policy, shared=work.target.store.shared
    )
    try:
        caches = bounded(
            lambda: save_all(work, tell), deadline.left(), "saving caches", work.deadline
        )
    except StoreError as error:
        return SaveCacheFacts(
            store=location,
            scope=work.scope,
            is_signed=is_signed,
            is_accepted=is_accepted,
            caches=(),
            problem=error.message,
            failure=error.reason.value,
        )
    if any(each.result == "saved" for each in caches):
        # A restore of before may have found nothing.
        forget(work.state / "leaders")
    return SaveCacheFacts(
        store=location,
        scope=work.scope,
        is_signed=is_signed,
        is_accepted=is_accepted,
        caches=caches,
    )
