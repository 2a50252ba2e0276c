# SPDX-License-Identifier: Apache-2.0
"""Pure. From what the plugin's hooks did with the caches of a job to one outcome."""

from collections.abc import Mapping

from ci_doctor.caches.outcomes.proven import effect_outcome
from ci_doctor.caches.outcomes.restored import restore_outcome
from ci_doctor.caches.outcomes.saved import save_outcome
from ci_doctor.caches.wording import build_in_words
from ci_doctor.model.facts.cache import CacheEffect, JobCacheFacts, RestoredCache, SavedCache
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.table import Row, Table, row, seconds, size
from ci_doctor.model.verdict import Verdict
from ci_doctor.render import formatting

_COLUMNS = ("restored", "effect", "compiled", "saved", "fetched", "sent")
_NOT_RESTORED = {
    "none": "no: nothing fits",
    "inert": "no: it would be inert",
    "refused": "no: it was refused",
    "failed": "no: the store failed",
}
_SENT = frozenset({"saved", "exists"})


def job_outcome(facts: JobCacheFacts, verdict: Verdict | None) -> Outcome:
    """One report of all; `verdict` is that of a restore that ends the job, None for any other."""
    restores = [restore_outcome(each, strict=False) for each in facts.restored]
    effects = [effect_outcome(each, strict=False) for each in facts.effects if each.caches]
    saves = [save_outcome(each, strict=False) for each in facts.saved]
    sentences = [each.summary for each in effects or restores]
    sentences += _moved(facts)
    sentences += [each.summary for each in saves]
    rows = tuple(_rows(facts))
    return Outcome(
        verdict=verdict,
        summary="; ".join(sentences),
        findings=tuple(
            finding for each in (*restores, *effects, *saves) for finding in each.findings
        ),
        tables=(Table(title="Caches", columns=_COLUMNS, rows=rows),) if rows else (),
        facts=facts,
    )


def _moved(facts: JobCacheFacts) -> list[str]:
    """What crossed the network for this job."""
    fetched = sum(_fetched(facts).values())
    sent = sum(cache.stored_bytes for each in facts.saved for cache in each.caches)
    words = []
    if fetched:
        words.append(f"{formatting.size(fetched)} fetched")
    if sent:
        words.append(f"{formatting.size(sent)} sent")
    return [", ".join(words)] if words else []


def _rows(facts: JobCacheFacts) -> list[Row]:
    """A line for each cache that was moved, or should have been."""
    restored = {_place(cache): cache for each in facts.restored for cache in each.caches}
    effects = {_place(cache): cache for each in facts.effects for cache in each.caches}
    saved = {_place(cache): cache for each in facts.saved for cache in each.caches}
    fetched = _fetched(facts)
    rows = []
    for place in dict.fromkeys((*restored, *effects, *saved)):
        effect = effects.get(place)
        sent = saved.get(place)
        is_sent = sent is not None and sent.result in _SENT
        if not is_sent and effect is None and _is_absent(restored.get(place)):
            continue
        rows.append(
            row(
                place[0],
                _origin(restored.get(place)),
                effect.effect if effect is not None else None,
                effect.compiled if effect is not None else None,
                seconds(effect.saved_s if effect is not None else None),
                size(fetched.get(place)),
                size(sent.stored_bytes if sent is not None and is_sent else None),
            )
        )
    return rows


def _place(cache: RestoredCache | CacheEffect | SavedCache) -> tuple[str, str | None]:
    return cache.family, cache.directory


def _fetched(facts: JobCacheFacts) -> Mapping[tuple[str, str | None], int]:
    """Bytes from the store for each restored cache; 0 if another process has fetched them."""
    return {
        _place(cache): 0 if each.is_shared else cache.fetched_bytes
        for each in facts.restored
        for cache in each.caches
        if cache.result == "restored"
    }


def _is_absent(cache: RestoredCache | None) -> bool:
    """Whether a family was looked for, and nobody has saved it."""
    return cache is None or cache.result == "none"


def _origin(cache: RestoredCache | None) -> str | None:
    if cache is None:
        return None
    if cache.origin is not None:
        return build_in_words(cache.origin)
    return _NOT_RESTORED.get(cache.result, cache.result)
