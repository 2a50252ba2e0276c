# SPDX-License-Identifier: Apache-2.0
"""Pure. From what was saved to an outcome."""

from ci_doctor.caches import rules
from ci_doctor.caches.outcomes.strictness import verdict_of
from ci_doctor.model.facts.cache import SaveCacheFacts
from ci_doctor.model.finding import Finding
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.table import Table, row, seconds, size
from ci_doctor.model.verdict import Verdict


def save_outcome(facts: SaveCacheFacts, *, strict: bool) -> Outcome:
    """The outcome. Without `strict` there is no verdict: the job has succeeded already."""
    findings = tuple(_findings(facts))
    has_failed = facts.problem is not None or any(each.result == "failed" for each in facts.caches)
    worst = Verdict.INFRA if has_failed else None
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
    return [
        rules.NOT_SAVED.finding(f"{each.family}: {each.reason}")
        for each in facts.caches
        if each.result == "failed" or each.skipped
    ]


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
