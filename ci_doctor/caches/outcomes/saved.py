# SPDX-License-Identifier: Apache-2.0
"""Pure. From what was saved to an outcome."""

from ci_doctor.caches import rules
from ci_doctor.caches.outcomes.strictness import verdict_of
from ci_doctor.model.facts.cache import SaveCacheFacts
from ci_doctor.model.finding import Evidence, Finding
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.table import Table, row, seconds, size
from ci_doctor.model.verdict import Verdict
from ci_doctor.render.formatting import amount


def save_outcome(facts: SaveCacheFacts, *, strict: bool) -> Outcome:
    """The outcome. Without `strict` there is no verdict: the job has succeeded already."""
    findings = tuple(_findings(facts))
    has_failed = facts.problem is not None or any(each.result == "failed" for each in facts.caches)
    worst = Verdict.INFRA if has_failed else None
    if not has_failed and _is_for_nobody(facts):
        worst = Verdict.FAILED
    return Outcome(
        verdict=verdict_of(findings, worst, strict=strict),
        summary=_summary(facts),
        findings=findings,
        tables=_tables(facts),
        facts=facts,
    )


def _summary(facts: SaveCacheFacts) -> str:
    if facts.problem is not None:
        return f"no cache was saved: {facts.problem}"
    saved = [each for each in facts.caches if each.result == "saved"]
    failed = [each.family for each in facts.caches if each.result == "failed"]
    if not saved and failed:
        return f"no cache was saved; {', '.join(failed)} failed"
    if all(each.result == "empty" for each in facts.caches):
        return "no cache was saved: the job has none"
    if not saved:
        return "no cache was saved: nothing is new"
    names = ", ".join(each.family for each in saved)
    signed = "signed" if facts.is_signed else "unsigned"
    return f"saved {names} to {facts.store}, scope {facts.scope}, {signed}"


def _findings(facts: SaveCacheFacts) -> list[Finding]:
    if facts.problem is not None:
        return [rules.UNAVAILABLE.finding(f"{facts.store}: {facts.problem}")]
    findings = [
        rules.NOT_SAVED.finding(f"{each.family}: {each.reason}")
        for each in facts.caches
        if each.result == "failed"
    ]
    for each in facts.caches:
        if each.skipped:
            sentence = f"{each.family}: {amount(len(each.skipped), 'file')} left out"
            evidence = tuple(Evidence(excerpt=line) for line in each.skipped)
            findings.append(rules.NOT_SAVED.finding(sentence, evidence=evidence))
    if _is_for_nobody(facts):
        sentence = (
            f"no reader takes it from {facts.store}: it is not signed, and others can write there"
        )
        findings.append(rules.FOR_NOBODY.finding(sentence, remedy=rules.FOR_NOBODY.remedy))
    return findings


def _is_for_nobody(facts: SaveCacheFacts) -> bool:
    """Whether something was saved that no reader with this trust restores."""
    kept = any(each.result in {"saved", "exists"} for each in facts.caches)
    return kept and not facts.is_accepted


def _tables(facts: SaveCacheFacts) -> tuple[Table, ...]:
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
