# SPDX-License-Identifier: Apache-2.0
"""Pure. From what lies where, from identities and from checks to outcomes."""

from ci_doctor.caches import rules
from ci_doctor.caches.wording import build_in_words
from ci_doctor.model.facts.cache import (
    CacheKeyFacts,
    CacheStatusFacts,
    CollectCacheFacts,
    ExplainCacheFacts,
    ExplainedCache,
    VerifyCacheFacts,
)
from ci_doctor.model.finding import Finding
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.table import Row, Table, row, size, text_table
from ci_doctor.model.verdict import Verdict
from ci_doctor.render import formatting


def status_outcome(facts: CacheStatusFacts) -> Outcome:
    """What lies where: a table for each cache that has files or would be restored."""
    there = [each for each in facts.caches if each.files or each.restored]
    tables = []
    for each in facts.caches:
        rows = [row("directory", each.directory), row("files", each.files)]
        rows.append(row("bytes", size(each.bytes)))
        if each.restored is not None:
            rows.append(row("restored from", build_in_words(each.restored)))
        if each.would is not None:
            rows.append(row("a restore would", each.would))
        tables.append(Table(title=each.family, rows=tuple(rows)))
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
    findings = [rules.DAMAGED_STORE.finding(each) for each in facts.damaged]
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
    return [rules.CHANGED.finding(f"{family}: {path} {what}") for path in paths]


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
