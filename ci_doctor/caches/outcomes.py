# SPDX-License-Identifier: Apache-2.0
"""Pure. From what was restored, saved, proven or looked at to outcomes."""

from collections.abc import Mapping, Sequence

from ci_doctor.caches.effect import RestoreEffect
from ci_doctor.caches.judge import build_in_words
from ci_doctor.model.facts.cache import (
    CacheEffect,
    CacheEffectFacts,
    CacheKeyFacts,
    CacheStatusFacts,
    CollectCacheFacts,
    ExplainCacheFacts,
    ExplainedCache,
    JobCacheFacts,
    RestoreCacheFacts,
    RestoredCache,
    SaveCacheFacts,
    SavedCache,
    VerifyCacheFacts,
)
from ci_doctor.model.outcome import (
    Evidence,
    Finding,
    Outcome,
    Row,
    Rule,
    Severity,
    Table,
    Verdict,
    row,
    seconds,
    size,
    text_table,
)
from ci_doctor.render import formatting
from ci_doctor.render.formatting import amount, duration

# --- the rules of findings about JIT caches ---

UNAVAILABLE = Rule(
    id="cache/unavailable",
    severity=Severity.WARNING,
    meaning=(
        "The store of caches could not be used, or not in time. The job goes on and compiles. "
        "`--strict` makes it `infra`."
    ),
    remedy="See whether the store is reachable from this agent; `--budget` bounds the time.",
)
REFUSED = Rule(
    id="cache/refused",
    severity=Severity.WARNING,
    meaning=(
        "A saved cache fits, and was not restored: it is not signed by an allowed signer, has "
        "expired, is damaged or above a limit. What is restored is executed. `--strict` makes it "
        "`failed`."
    ),
    remedy=(
        "Save it in a job that has the key. `ci-doctor cache verify` reads the whole store, and "
        "`ci-doctor cache keygen` makes a key."
    ),
)
TRUSTED_ANYWAY = Rule(
    id="cache/trusted-anyway",
    severity=Severity.WARNING,
    meaning="A cache was restored that nobody vouches for, or its receipt could not be kept.",
    remedy="Sign what is saved (`--key`), and name the signers with `--allowed-signers`.",
)
NONE_FITS = Rule(
    id="cache/none-fits",
    severity=Severity.NOTE,
    meaning="No saved cache has this machine's identity. The job compiles, and can save the result.",
    remedy="`ci-doctor cache explain` names the facts in which the nearest one differs.",
)
WOULD_BE_INERT = Rule(
    id="cache/would-be-inert",
    severity=Severity.WARNING,
    meaning=(
        "A saved cache fits this machine, and its keys hold paths that differ here. The library "
        "would compile everything again, so it was not restored."
    ),
    remedy=(
        "Give this job the same paths as the one that saves: the same place for the virtual "
        "environment, and the same cache directory."
    ),
)
NOT_SAVED = Rule(
    id="cache/not-saved",
    severity=Severity.WARNING,
    meaning="A cache could not be saved, or not whole. The next job may compile again.",
)
FOR_NOBODY = Rule(
    id="cache/for-nobody",
    severity=Severity.WARNING,
    meaning=(
        "What was saved is not signed, and others can write to the store. No job with the trust of "
        "this one restores it. `--strict` makes it `failed`."
    ),
    remedy=(
        "Make a key with `ci-doctor cache keygen cache-key`. Give the file to the jobs that save on "
        "the default branch (`--key`, or its text in CI_DOCTOR_CACHE_KEY_TEXT). Give the line that "
        "it prints to all jobs (`--allowed-signers`)."
    ),
)
INERT = Rule(
    id="cache/inert",
    severity=Severity.WARNING,
    meaning=(
        "A cache was restored and of no use: the job compiled as if it had none, used another "
        "directory, or read nothing of it."
    ),
    remedy="`ci-doctor cache explain` shows in which facts the two machines differ.",
)
PARTLY = Rule(
    id="cache/partly",
    severity=Severity.NOTE,
    meaning="A cache was restored, and a part of it was compiled again.",
    remedy="Save after this job: the next one finds what was compiled now.",
)
UNPROVEN = Rule(
    id="cache/unproven",
    severity=Severity.NOTE,
    meaning=(
        "A cache was restored, and nothing shows that this job used it. The file system keeps no "
        "times of reading, something read every file, another job of this machine restored it, or "
        "all of it was there before the restore. No saving is claimed."
    ),
    remedy="Name the job's log with `--log`.",
)
IGNORED = Rule(
    id="cache/ignored",
    severity=Severity.NOTE,
    meaning=(
        "A cache was restored, and `ci-doctor correctness` starts its servers without it: with "
        "fresh caches no start depends on what another job compiled."
    ),
    remedy='`caches = "restored"` in [correctness] gives each start a copy.',
)
NOT_COPIED = Rule(
    id="cache/not-copied",
    severity=Severity.NOTE,
    meaning="A start of `ci-doctor correctness` has no copy of a restored cache, and compiles.",
)
CHANGED = Rule(
    id="cache/changed",
    severity=Severity.WARNING,
    meaning=(
        "Files of a restored cache are not as they were installed. Some libraries rewrite a file "
        "of their own; anything else is damage."
    ),
)
DAMAGED_STORE = Rule(
    id="cache/damaged-store",
    severity=Severity.ERROR,
    meaning="An object of the store is not what its name says, or is missing.",
    remedy="Remove the object. Jobs that need it compile again and save it.",
)

# In the order of docs/findings.md.
RULES = (
    UNAVAILABLE,
    REFUSED,
    TRUSTED_ANYWAY,
    NONE_FITS,
    WOULD_BE_INERT,
    NOT_SAVED,
    FOR_NOBODY,
    INERT,
    PARTLY,
    UNPROVEN,
    IGNORED,
    NOT_COPIED,
    CHANGED,
    DAMAGED_STORE,
)


# --- what a problem with a cache means for the exit code: nothing, unless somebody is strict ---


def verdict_of(
    findings: Sequence[Finding], worst: Verdict | None, *, strict: bool
) -> Verdict | None:
    """`worst` of a strict command, `pass` if nothing is wrong there; None of any other."""
    if not strict:
        return None
    return worst if worst is not None and findings else Verdict.PASS


def worst_of(verdicts: Sequence[Verdict | None]) -> Verdict | None:
    """Refused content first, then what could not be reached, then what is missing."""
    for verdict in (Verdict.FAILED, Verdict.INFRA, Verdict.VOID):
        if verdict in verdicts:
            return verdict
    return None


# --- from the effects of restored caches to an outcome ---

_PROVEN_RULES = {
    RestoreEffect.INERT: INERT,
    RestoreEffect.PARTLY: PARTLY,
    RestoreEffect.UNPROVEN: UNPROVEN,
}
_PROVEN_VERDICTS = {RestoreEffect.INERT: Verdict.FAILED, RestoreEffect.UNPROVEN: Verdict.VOID}


def effect_facts(caches: tuple[CacheEffect, ...]) -> CacheEffectFacts:
    """The facts with their sums; a sum of nothing measured is None."""
    return CacheEffectFacts(
        caches=caches,
        saved_s=_sum([each.saved_s for each in caches]),
        saved_gpu_s=_sum([each.saved_gpu_s for each in caches]),
        fetched_bytes=sum(each.fetched_bytes for each in caches),
    )


def effect_outcome(facts: CacheEffectFacts, *, strict: bool) -> Outcome:
    """The outcome. With `strict`, an inert cache is `failed`, and one without proof `void`."""
    findings = tuple(_proven_findings(facts))
    verdicts = [_PROVEN_VERDICTS.get(RestoreEffect(each.effect)) for each in facts.caches]
    verdict = verdict_of(findings, worst_of(verdicts) or Verdict.PASS, strict=strict)
    if strict and not facts.caches:
        verdict = Verdict.VOID
    return Outcome(
        verdict=verdict,
        summary=_proven_summary(facts),
        findings=findings,
        tables=_proven_tables(facts),
        facts=facts,
    )


def _proven_summary(facts: CacheEffectFacts) -> str:
    if not facts.caches:
        return "nothing to judge: no cache was restored"
    words = [f"{each.family} {each.effect}" for each in facts.caches]
    saved = (
        f"; about {duration(facts.saved_s)} of compiling saved" if facts.saved_s is not None else ""
    )
    gpu = f", {facts.saved_gpu_s / 60:.1f} GPU minutes" if facts.saved_gpu_s is not None else ""
    return ", ".join(words) + saved + gpu


def _proven_findings(facts: CacheEffectFacts) -> list[Finding]:
    findings = []
    for each in facts.caches:
        rule = _PROVEN_RULES.get(RestoreEffect(each.effect))
        if rule is not None:
            evidence = tuple(Evidence(excerpt=cause) for cause in each.causes)
            findings.append(rule.finding(f"{each.family}: {each.reason}", evidence=evidence))
    return findings


def _proven_tables(facts: CacheEffectFacts) -> tuple[Table, ...]:
    rows = tuple(
        row(
            each.family,
            each.effect,
            each.compiled,
            seconds(each.cold_s),
            seconds(each.warm_s),
            seconds(each.saved_s),
            size(each.fetched_bytes),
        )
        for each in facts.caches
    )
    if not rows:
        return ()
    columns = ("effect", "compiled", "cold", "now", "saved", "moved")
    return (Table(title="Caches", columns=columns, rows=rows),)


def _sum(values: list[float | None]) -> float | None:
    measured = [value for value in values if value is not None]
    return sum(measured) if measured else None


# --- from what was restored to an outcome ---

_RESTORED_RULES = {
    "none": NONE_FITS,
    "inert": WOULD_BE_INERT,
    "refused": REFUSED,
    "failed": UNAVAILABLE,
}
_RESTORED_VERDICTS = {
    "none": Verdict.VOID,
    "inert": Verdict.VOID,
    "refused": Verdict.FAILED,
    "failed": Verdict.INFRA,
}


def restore_outcome(facts: RestoreCacheFacts, *, strict: bool) -> Outcome:
    """The outcome. Without `strict` there is no verdict: a job goes on without a cache."""
    findings = tuple(_restored_findings(facts))
    verdicts = [_RESTORED_VERDICTS.get(each.result) for each in facts.caches]
    if facts.problem is not None:
        verdicts.append(Verdict.INFRA)
    return Outcome(
        verdict=verdict_of(findings, worst_of(verdicts), strict=strict),
        summary=_restored_summary(facts),
        findings=findings,
        tables=_restored_tables(facts),
        facts=facts,
    )


def _restored_summary(facts: RestoreCacheFacts) -> str:
    if facts.problem is not None:
        return f"no cache was restored: {facts.problem}"
    restored = [each.family for each in facts.caches if each.result == "restored"]
    others = len(facts.caches) - len(restored)
    if not restored:
        return f"no cache was restored of {others} asked for"
    by = ", by another process of this machine" if facts.is_shared else ""
    rest = f"; {others} not" if others else ""
    return f"restored {', '.join(restored)}{rest}{by}"


def _restored_findings(facts: RestoreCacheFacts) -> list[Finding]:
    if facts.problem is not None:
        sentence = f"{facts.store}: {facts.problem}; the job goes on without caches"
        return [UNAVAILABLE.finding(sentence)]
    findings = []
    for each in facts.caches:
        rule = _RESTORED_RULES.get(each.result)
        if rule is not None:
            findings.append(rule.finding(f"{each.family}: {each.reason}"))
        elif each.reason is not None:
            findings.append(TRUSTED_ANYWAY.finding(f"{each.family}: {each.reason}"))
    return findings


def _restored_tables(facts: RestoreCacheFacts) -> tuple[Table, ...]:
    rows = tuple(_row(each) for each in facts.caches if each.result == "restored")
    if not rows:
        return ()
    columns = ("from", "files", "bytes", "fetched", "time")
    return (Table(title="Restored caches", columns=columns, rows=rows),)


def _row(cache: RestoredCache) -> Row:
    origin = build_in_words(cache.origin) if cache.origin is not None else "unknown"
    return row(
        cache.family,
        origin,
        cache.files,
        size(cache.bytes),
        size(cache.fetched_bytes),
        seconds(cache.seconds),
    )


# --- from what was saved to an outcome ---


def save_outcome(facts: SaveCacheFacts, *, strict: bool) -> Outcome:
    """The outcome. Without `strict` there is no verdict: the job has succeeded already."""
    findings = _saved_findings(facts)
    nothing = facts.problem is None and all(each.result == "empty" for each in facts.caches)
    if strict and nothing:
        places = "; ".join(f"{each.family}: {each.reason}" for each in facts.caches)
        findings.append(NOT_SAVED.finding(f"no cache has a file: {places}"))
    has_failed = facts.problem is not None or any(each.result == "failed" for each in facts.caches)
    is_void = nothing or any(each.result == "absent" for each in facts.caches)
    worst = Verdict.VOID if is_void else None
    if has_failed:
        worst = Verdict.INFRA
    elif _is_for_nobody(facts):
        worst = Verdict.FAILED
    return Outcome(
        verdict=verdict_of(findings, worst, strict=strict),
        summary=_saved_summary(facts),
        findings=tuple(findings),
        tables=_saved_tables(facts),
        facts=facts,
    )


def _saved_summary(facts: SaveCacheFacts) -> str:
    if facts.problem is not None:
        return f"no cache was saved: {facts.problem}"
    saved = [each for each in facts.caches if each.result == "saved"]
    failed = [each.family for each in facts.caches if each.result == "failed"]
    if not saved and failed:
        return f"no cache was saved; {', '.join(failed)} failed"
    if all(each.result in {"empty", "absent"} for each in facts.caches):
        absent = [str(each.reason) for each in facts.caches if each.result == "absent"]
        return f"no cache was saved: {'; '.join(absent) or 'the job has none'}"
    if not saved:
        return "no cache was saved: nothing is new"
    names = ", ".join(each.family for each in saved)
    signed = "signed" if facts.is_signed else "unsigned"
    return f"saved {names} to {facts.store}, scope {facts.scope}, {signed}"


def _saved_findings(facts: SaveCacheFacts) -> list[Finding]:
    if facts.problem is not None:
        return [UNAVAILABLE.finding(f"{facts.store}: {facts.problem}")]
    findings = [
        NOT_SAVED.finding(f"{each.family}: {each.reason}")
        for each in facts.caches
        if each.result in {"failed", "absent"}
    ]
    for each in facts.caches:
        if each.skipped:
            sentence = f"{each.family}: {amount(len(each.skipped), 'file')} left out"
            evidence = tuple(Evidence(excerpt=line) for line in each.skipped)
            findings.append(NOT_SAVED.finding(sentence, evidence=evidence))
    if _is_for_nobody(facts):
        sentence = (
            f"no reader takes it from {facts.store}: it is not signed, and others can write there"
        )
        findings.append(FOR_NOBODY.finding(sentence, remedy=FOR_NOBODY.remedy))
    return findings


def _is_for_nobody(facts: SaveCacheFacts) -> bool:
    """Whether something was saved that no reader with this trust restores."""
    kept = any(each.result in {"saved", "exists"} for each in facts.caches)
    return kept and not facts.is_accepted


def _saved_tables(facts: SaveCacheFacts) -> tuple[Table, ...]:
    rows = tuple(
        row(
            each.family,
            each.files,
            size(each.bytes),
            size(each.new_bytes),
            size(each.stored_bytes),
            seconds(each.cold_s),
        )
        for each in facts.caches
        if each.result in {"saved", "exists"}
    )
    if not rows:
        return ()
    columns = ("files", "bytes", "new", "sent", "compiled in")
    return (Table(title="Saved caches", columns=columns, rows=rows),)


# --- from what lies where, from identities and from checks to outcomes ---


def status_outcome(facts: CacheStatusFacts) -> Outcome:
    """What lies where: a table for each cache that has files or was restored, and one of the others."""
    there = [each for each in facts.caches if each.files or each.restored]
    tables = []
    for each in there:
        rows = [row("directory", each.directory), row("files", each.files)]
        rows.append(row("bytes", size(each.bytes)))
        if each.restored is not None:
            rows.append(row("restored from", build_in_words(each.restored)))
        if each.would is not None:
            rows.append(row("a restore would", each.would))
        tables.append(Table(title=each.family, rows=tuple(rows)))
    empty = [each for each in facts.caches if each not in there]
    if empty:
        # What a restore would do is known of each, or of none.
        wanted = empty[0].would is not None
        rows = [row(each.family, each.directory, *([each.would] * wanted)) for each in empty]
        columns = ("directory", "a restore would") if wanted else ("directory",)
        tables.append(Table(title="Caches without files", columns=columns, rows=tuple(rows)))
    total = sum(each.bytes for each in facts.caches)
    summary = (
        f"{len(there)} of {len(facts.caches)} caches have files, {formatting.size(total)} in all"
    )
    return Outcome(verdict=None, summary=summary, tables=tuple(tables), facts=facts)


def explain_outcome(facts: ExplainCacheFacts) -> Outcome:
    """The identities: a table of each tier, and a line on what a restore would do."""
    tables = []
    for each in facts.caches:
        tables.append(text_table(each.family, (f"a restore would {each.would}",)))
        tables += [_tier(each, tier) for tier in ("hard", "path", "soft")]
    names = ", ".join(each.family for each in facts.caches)
    return Outcome(
        verdict=None,
        summary=f"identities of {names}",
        tables=tuple(table for table in tables if table.rows),
        facts=facts,
    )


def _tier(cache: ExplainedCache, tier: str) -> Table:
    rows: list[Row] = []
    for fact in cache.facts:
        if fact.tier != tier:
            continue
        here = fact.here if fact.here is not None else "absent"
        rows.append(row(fact.name, here))
        if fact.differs:
            saved = fact.saved if fact.saved is not None else "absent"
            rows.append(row("  differs, saved with", saved))
    return Table(title=f"{cache.family}: {tier} tier", rows=tuple(rows))


def verify_outcome(facts: VerifyCacheFacts) -> Outcome:
    """`failed` if the store is damaged, `void` if nothing could be looked at."""
    findings = [DAMAGED_STORE.finding(each) for each in facts.damaged]
    for each in facts.caches:
        findings += _changes(each.family, each.changed, "is not as it was installed")
        findings += _changes(each.family, each.missing, "is gone")
    looked = facts.manifests or facts.caches
    verdict = Verdict.PASS if looked else Verdict.VOID
    if facts.damaged:
        verdict = Verdict.FAILED
    restored = f"{len(facts.caches)} restored caches"
    store = f"{facts.manifests} manifests and {facts.packs} packs of the store"
    return Outcome(
        verdict=verdict,
        summary=f"read {restored}, {store}" if looked else "nothing was restored or saved",
        findings=tuple(findings),
        facts=facts,
    )


def _changes(family: str, paths: tuple[str, ...], what: str) -> list[Finding]:
    return [CHANGED.finding(f"{family}: {path} {what}") for path in paths]


def collect_outcome(facts: CollectCacheFacts) -> Outcome:
    """What was removed."""
    verb = "would remove" if facts.is_dry_run else "removed"
    counts = f"{len(facts.manifests)} manifests and {len(facts.packs)} packs"
    rows = (
        row("freed", size(facts.freed_bytes)),
        row("unused packs that a later run removes", facts.waiting),
        row("manifests that cannot be read", len(facts.unreadable)),
    )
    return Outcome(
        verdict=None,
        summary=f"{verb} {counts} of {facts.store}",
        tables=(Table(title="Store", rows=rows),),
        facts=facts,
    )


def key_outcome(facts: CacheKeyFacts) -> Outcome:
    """Where the key is, and the line for those who read."""
    lines = (
        f"private key: {facts.private} (for the jobs that save on the default branch, and nobody else)",
        f"public key: {facts.public}",
        "line for the allowed signers:",
        facts.allowed_signer,
    )
    return Outcome(
        verdict=None,
        summary="a new key to sign caches",
        tables=(text_table("Key", lines),),
        facts=facts,
    )


# --- from what the plugin's hooks did with the caches of a job to one outcome ---

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
