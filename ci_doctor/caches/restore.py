# SPDX-License-Identifier: Apache-2.0
"""Acts on cache directories and a store: the best saved cache of each family is restored; a job's caches are saved."""

import hashlib
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeGuard

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.caches.effect import (
    LogWords,
    ScannedFile,
    compile_seconds,
    compiled_files,
    cost_of,
    forget_listings,
    scan,
)
from ci_doctor.caches.facts import read_counts
from ci_doctor.caches.families import relocate
from ci_doctor.caches.judge import Inert, Relocate, choose, differences_in_words, nearest, origin_at
from ci_doctor.caches.leader import WorkResult, bounded, forget, once
from ci_doctor.caches.targets import IdentifiedCache, tier_of
from ci_doctor.caches.trusted_store import (
    Candidates,
    InstalledFile,
    Receipt,
    TrustedStore,
    forget_receipt,
    keep_receipt,
    read_candidates,
    read_others,
    read_receipt,
)
from ci_doctor.decodable import decodable
from ci_doctor.errors import UsageError
from ci_doctor.model.facts.cache import RestoreCacheFacts, RestoredCache, SaveCacheFacts, SavedCache
from ci_doctor.store.manifest import ColdCost, Manifest, ManifestHeader, Origin
from ci_doctor.store.objects import StoreError, StoreFailure, file_system_error
from ci_doctor.store.restore import RestoredTree, RestoreRules, restore_tree
from ci_doctor.store.save import ManifestSigner, SaveRules, save_tree
from ci_doctor.store.transfer import Deadline
from ci_doctor.store.trust import accepts_unsigned
from ci_doctor.system.files.access import make_directory

# --- the best saved cache of each family is restored, and a receipt kept ---

Tell = Callable[[str], None]

# What is wrong with one saved cache, and says nothing of the others: cut, changed, a pack is gone.
_OF_ONE = frozenset({StoreFailure.DAMAGED, StoreFailure.MISSING})


class RestoreWork(Struct, frozen=True, kw_only=True):
    """What is restored: from where, until when, with receipts in `state`; `job` is kept in them."""

    caches: tuple[IdentifiedCache, ...]
    source: TrustedStore
    deadline: Deadline
    state: Path
    job: str | None


def restore_all(work: RestoreWork, tell: Tell) -> tuple[RestoredCache, ...]:
    """What came of each family. Raises StoreError if the store itself fails."""
    results = []
    for cache in work.caches:
        tell(f"restoring {cache.family.name}")
        earlier = read_receipt(work.state, cache.family.name, cache.directory)
        # One of an earlier job would be judged by what this one does.
        forget_receipt(work.state, cache.family.name, cache.directory)
        try:
            results.append(_restore(work, cache, earlier))
        except StoreError as error:
            if error.is_of_whole_store:
                raise
            result = "refused" if error.reason in _OF_ONE else "failed"
            results.append(_without(cache, result, error.message))
    return tuple(results)


def _restore(work: RestoreWork, cache: IdentifiedCache, earlier: Receipt | None) -> RestoredCache:
    if cache.tiers.hard.unknown:
        unknown = "; ".join(f"{name}: {why}" for name, why in cache.tiers.hard.unknown.items())
        return _without(cache, "none", f"the identity is uncertain: {unknown}")
    candidates = read_candidates(work.source, cache)
    refused = list(candidates.refused)
    left = dict(candidates.manifests)
    while left:
        chosen = choose(cache.family, Candidates.compared(left), cache.tiers)
        if chosen is None:
            break
        candidate, decision = chosen
        manifest = left.pop(candidate.name)
        try:
            is_moved = isinstance(decision, Relocate)
            family = cache.family
            rules = RestoreRules(
                deadline=work.deadline,
                rewrite=relocate(family, str(cache.directory)) if is_moved else None,
                merge=family.merge,
                markers=family.is_marker,
                group=family.group_of,
            )
            tree = restore_tree(work.source.store, manifest, cache.directory, rules)
        except StoreError as error:
            if error.reason not in _OF_ONE:
                raise
            # An older one may be whole.
            refused.append(error.message)
            continue
        # As they are installed; a relocated one has other content than the manifest says.
        rewrite = relocate(cache.family, str(cache.directory))
        moved = rewrite is not None
        receipt = Receipt(
            family=cache.family.name,
            root=str(cache.directory),
            store=work.source.store.location,
            manifest=candidate.name,
            created_ms=manifest.created_ms,
            installed_ns=time.time_ns(),
            bytes=tree.bytes,
            fetched_bytes=tree.fetched_bytes,
            seconds=tree.seconds,
            origin=manifest.origin,
            cold=manifest.cold,
            path=tier_of(cache.tiers.path),
            saved_path=manifest.path,
            soft=tier_of(cache.tiers.soft),
            saved_soft=manifest.soft,
            job=work.job,
            counts=read_counts(cache.family, cache.directory),
            installed=tree.files,
            files=tuple(
                InstalledFile(
                    path=entry.path,
                    bytes=entry.bytes,
                    mtime_ns=entry.mtime_ns,
                    # The content of a file that may be rewritten is not known before.
                    digest="" if moved and cache.family.is_marker(entry.path) else entry.digest,
                )
                for entry in manifest.files
            ),
        )
        if not tree.files and _is_of_this(earlier, receipt):
            receipt = earlier
        else:
            forget_listings(cache.directory)
        restored = _installed(work, receipt, tree)
        warning = candidates.warnings.get(candidate.name)
        return restored if warning is None else replace(restored, reason=warning)
    return _nothing(work, cache, candidates, refused)


def _is_of_this(earlier: Receipt | None, receipt: Receipt) -> TypeGuard[Receipt]:
    """Whether this very job has restored the same before: then that receipt says what it was worth."""
    if earlier is None:
        return False
    return (earlier.manifest, earlier.job) == (receipt.manifest, receipt.job)


def _installed(work: RestoreWork, receipt: Receipt, tree: RestoredTree) -> RestoredCache:
    reason = None
    try:
        keep_receipt(work.state, receipt)
    except UsageError as error:
        reason = f"no receipt is kept: {error.message}"
    return RestoredCache(
        family=receipt.family,
        directory=receipt.root,
        result="restored",
        reason=reason,
        origin=origin_at(receipt.origin, receipt.created_ms),
        manifest=receipt.manifest,
        files=tree.files,
        bytes=tree.bytes,
        fetched_bytes=tree.fetched_bytes,
        kept=tree.kept_existing,
        seconds=tree.seconds,
    )


def _nothing(
    work: RestoreWork, cache: IdentifiedCache, candidates: Candidates, refused: list[str]
) -> RestoredCache:
    if refused:
        return _without(cache, "refused", refused[0])
    near = nearest(cache.family, candidates.compared(candidates.manifests), cache.tiers)
    if near is not None and isinstance(near.decision, Inert):
        words = differences_in_words(near.decision.differences)
        return _without(cache, "inert", f"its keys hold other paths: {words}")
    return _without(
        cache, "none", f"nothing saved has this identity{_nearest_of_others(work, cache)}"
    )


def _nearest_of_others(work: RestoreWork, cache: IdentifiedCache) -> str:
    """In which facts the nearest cache of another identity differs; empty if there is none."""
    others = read_others(work.source, cache)
    near = nearest(cache.family, others.compared(others.manifests), cache.tiers)
    if near is None:
        return ""
    return f"; the nearest differs in {differences_in_words((*near.hard, *near.path))}"


def _without(cache: IdentifiedCache, result: str, reason: str) -> RestoredCache:
    return RestoredCache(
        family=cache.family.name, directory=str(cache.directory), result=result, reason=reason
    )


# --- one restore for all processes of this machine that ask for the same ---

# A job's ranks start within seconds. What is missing may be saved at any time.
_HOLDS_S = 600.0
_PROBLEM_HOLDS_S = 120.0


def run_restore(
    work: RestoreWork, deadline: Deadline, tell: Callable[[str], None]
) -> RestoreCacheFacts:
    """Restore, or take the result of the process that does; it ends by `deadline`, whatever hangs.

    What goes wrong with the store is a part of the facts.
    """
    location = work.source.store.location

    def transfer() -> WorkResult:
        facts = _transfer(work, deadline, tell)
        is_whole = facts.problem is None and all(each.result == "restored" for each in facts.caches)
        holds_s = _HOLDS_S if is_whole else _PROBLEM_HOLDS_S
        return WorkResult(content=msgspec.json.encode(facts), holds_s=holds_s)

    def is_current(content: bytes) -> bool:
        # Whether what was restored still lies there: an agent may clean up between two jobs.
        facts = msgspec.json.decode(content, type=decodable(RestoreCacheFacts))
        return all(
            _is_there(work.state, each.family, Path(each.directory))
            for each in facts.caches
            if each.result == "restored" and each.directory is not None
        )

    try:
        leaders = work.state / "leaders"
        _make(leaders)
        agreed = once(leaders, _key(work), deadline.left(), transfer, is_current, tell)
    except StoreError as error:
        # It has only waited.
        return msgspec.structs.replace(_problem(location, error), is_shared=True)
    facts = msgspec.json.decode(agreed.content, type=decodable(RestoreCacheFacts))
    return msgspec.structs.replace(facts, is_shared=agreed.is_shared)


def _make(leaders: Path) -> None:
    """Raises StoreError."""
    try:
        make_directory(leaders, 0o700)
    except OSError as error:
        raise file_system_error("make", leaders, error) from error


def _transfer(
    work: RestoreWork, deadline: Deadline, tell: Callable[[str], None]
) -> RestoreCacheFacts:
    location = work.source.store.location
    try:
        caches = bounded(
            lambda: restore_all(work, tell),
            deadline.left(),
            "restoring caches",
            work.deadline,
            tell=tell,
        )
    except StoreError as error:
        return _problem(location, error)
    return RestoreCacheFacts(store=location, is_shared=False, caches=caches)


def _problem(location: str, error: StoreError) -> RestoreCacheFacts:
    return RestoreCacheFacts(
        store=location,
        is_shared=False,
        caches=(),
        problem=error.message,
        failure=error.reason.value,
    )


def _key(work: RestoreWork) -> str:
    """A name for all that decides the result."""
    rules = work.source.rules
    allowed = rules.allowed
    parts: list[object] = [
        work.source.store.location,
        work.source.scopes,
        rules.policy.value,
        [signer.public_key.hex() for signer in allowed.signers] if allowed is not None else None,
    ]
    for cache in work.caches:
        tiers = (tier_of(each).digest() for each in (cache.tiers.hard, cache.tiers.path))
        parts.append([cache.family.name, str(cache.directory), *tiers])
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()


def _is_there(state: Path, family: str, directory: Path) -> bool:
    receipt = read_receipt(state, family, directory)
    if receipt is None:  # none could be kept
        return directory.is_dir()
    return all((directory / file.path).exists() for file in receipt.files)


# --- the cache directories of a job that succeeded are saved for later jobs ---


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
            result = _not_saved(cache, "failed", error.message)
        results.append(replace(result, seconds=time.monotonic() - started))
    return tuple(results)


def _save(work: SaveWork, cache: IdentifiedCache, tell: Tell) -> SavedCache:
    files = scan(cache.directory, cache.family)
    if not files:
        result = "absent" if cache.is_named else "empty"
        return _not_saved(cache, result, f"{cache.directory} {_directory_fault(cache.directory)}")
    if cache.tiers.hard.unknown:
        unknown = "; ".join(f"{name}: {why}" for name, why in cache.tiers.hard.unknown.items())
        return _not_saved(cache, "failed", f"nobody could restore it: {unknown}")
    receipt = read_receipt(work.state, cache.family.name, cache.directory)
    if receipt is not None and _is_unchanged(receipt, files):
        return _not_saved(cache, "unchanged", "it is as it was restored")
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


def _directory_fault(directory: Path) -> str:
    """Why there is nothing to save in the directory, as its predicate."""
    try:
        with os.scandir(directory):
            return "holds no file of the cache"
    except FileNotFoundError:
        return "does not exist"
    except NotADirectoryError:
        return "is no directory"
    except OSError as error:
        return f"cannot be read: {error.strerror}"


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


def _not_saved(cache: IdentifiedCache, result: str, reason: str) -> SavedCache:
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
            lambda: save_all(work, tell),
            deadline.left(),
            "saving caches",
            work.deadline,
            tell=tell,
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
