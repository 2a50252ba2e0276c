# SPDX-License-Identifier: Apache-2.0
"""Pure. From what was restored to an outcome."""

from ci_doctor.caches import rules
from ci_doctor.caches.outcomes.strictness import verdict_of, worst_of
from ci_doctor.caches.wording import build_in_words
from ci_doctor.model.facts.cache import RestoreCacheFacts, RestoredCache
from ci_doctor.model.finding import Finding
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.table import Row, Table, row, seconds, size
from ci_doctor.model.verdict import Verdict

_RULES = {
    "none": rules.NONE_FITS,
    "inert": rules.WOULD_BE_INERT,
    "refused": rules.REFUSED,
    "failed": rules.UNAVAILABLE,
}
_VERDICTS = {
    "none": Verdict.VOID,
    "inert": Verdict.VOID,
    "refused": Verdict.FAILED,
    "failed": Verdict.INFRA,
}


def restore_outcome(facts: RestoreCacheFacts, *, strict: bool) -> Outcome:
    """The outcome. Without `strict` there is no verdict: a job goes on without a cache."""
    findings = tuple(_findings(facts))
    verdicts = [_VERDICTS.get(each.result) for each in facts.caches]
    if facts.problem is not None:
        verdicts.append(Verdict.INFRA)
    return Outcome(
        verdict=verdict_of(findings, worst_of(verdicts), strict=strict),
        summary=_summary(facts),
        findings=findings,
        tables=_tables(facts),
        facts=facts,
    )


def _summary(facts: RestoreCacheFacts) -> str:
    if facts.problem is not None:
        return f"no cache was restored: {facts.problem}"
    restored = [each.family for each in facts.caches if each.result == "restored"]
    others = len(facts.caches) - len(restored)
    if not restored:
        return f"no cache was restored of {others} asked for"
    by = ", by another process of this machine" if facts.is_shared else ""
    rest = f"; {others} not" if others else ""
    return f"restored {', '.join(restored)}{rest}{by}"


def _findings(facts: RestoreCacheFacts) -> list[Finding]:
    if facts.problem is not None:
        sentence = f"{facts.store}: {facts.problem}; the job goes on without caches"
        return [rules.UNAVAILABLE.finding(sentence)]
    findings = []
    for each in facts.caches:
        rule = _RULES.get(each.result)
        if rule is not None:
            findings.append(rule.finding(f"{each.family}: {each.reason}"))
        elif each.reason is not None:
            findings.append(rules.TRUSTED_ANYWAY.finding(f"{each.family}: {each.reason}"))
    return findings


def _tables(facts: RestoreCacheFacts) -> tuple[Table, ...]:
    rows = tuple(_row(each) for each in facts.caches if each.result == "restored")
    if not rows:
        return ()
    columns = ("from", "files", "bytes", "fetched", "seconds")
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
