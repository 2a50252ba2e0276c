# SPDX-License-Identifier: Apache-2.0
"""Reads cache directories, receipts and a store: what lies where, and what a restore would do."""

from pathlib import Path

from ci_doctor.caches.compiled import scan
from ci_doctor.caches.judge import (
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
from ci_doctor.caches.receipt import read_receipt
from ci_doctor.caches.targets import IdentifiedCache
from ci_doctor.caches.trusted_store import Candidates, TrustedStore, read_candidates, read_others
from ci_doctor.identity.identity import Identity
from ci_doctor.model.facts.cache import CacheStatusRow, ExplainedCache, ExplainedFact


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
