# SPDX-License-Identifier: Apache-2.0
"""Acts on cache directories: the best saved cache of each family is restored, and a receipt kept."""

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeGuard

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.caches.compiled import forget_listings
from ci_doctor.caches.family import relocate
from ci_doctor.caches.judge import Inert, Relocate, choose, differences_in_words, nearest, origin_at
from ci_doctor.caches.leader import WorkResult, bounded, once
from ci_doctor.caches.receipt import (
    InstalledFile,
    Receipt,
    forget_receipt,
    keep_receipt,
    read_receipt,
)
from ci_doctor.caches.targets import IdentifiedCache, tier_of
from ci_doctor.caches.trusted_store import Candidates, TrustedStore, read_candidates, read_others
from ci_doctor.decodable import decodable
from ci_doctor.errors import UsageError
from ci_doctor.model.facts.cache import RestoreCacheFacts, RestoredCache
from ci_doctor.store.objects import StoreError, StoreFailure, file_system_error
from ci_doctor.store.restore import RestoredTree, RestoreRules, restore_tree
from ci_doctor.store.transfer import Deadline
from ci_doctor.system.files.writing import make_directory

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
        agreed = once(leaders, _key(work), deadline.left(), transfer, is_current)
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
            lambda: restore_all(work, tell), deadline.left(), "restoring caches", work.deadline
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
