# SPDX-License-Identifier: Apache-2.0
"""Pure. From the effects of restored caches to an outcome."""

from ci_doctor.caches import rules
from ci_doctor.caches.effect import RestoreEffect
from ci_doctor.caches.outcomes.strictness import verdict_of, worst_of
from ci_doctor.model.facts.cache import CacheEffect, CacheEffectFacts
from ci_doctor.model.finding import Evidence, Finding
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.table import Table, row, seconds, size
from ci_doctor.model.verdict import Verdict
from ci_doctor.render.formatting import duration

_RULES = {
    RestoreEffect.INERT: rules.INERT,
    RestoreEffect.PARTLY: rules.PARTLY,
    RestoreEffect.UNPROVEN: rules.UNPROVEN,
}
_VERDICTS = {RestoreEffect.INERT: Verdict.FAILED, RestoreEffect.UNPROVEN: Verdict.VOID}


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
    findings = tuple(_findings(facts))
    verdicts = [_VERDICTS.get(RestoreEffect(each.effect)) for each in facts.caches]
    verdict = verdict_of(findings, worst_of(verdicts) or Verdict.PASS, strict=strict)
    if strict and not facts.caches:
        verdict = Verdict.VOID
    return Outcome(
        verdict=verdict,
        summary=_summary(facts),
        findings=findings,
        tables=_tables(facts),
        facts=facts,
    )


def _summary(facts: CacheEffectFacts) -> str:
    if not facts.caches:
        return "nothing to judge: no cache was restored"
    words = [f"{each.family} {each.effect}" for each in facts.caches]
    saved = (
        f"; about {duration(facts.saved_s)} of compiling saved" if facts.saved_s is not None else ""
    )
    gpu = f", {facts.saved_gpu_s / 60:.1f} GPU minutes" if facts.saved_gpu_s is not None else ""
    return ", ".join(words) + saved + gpu


def _findings(facts: CacheEffectFacts) -> list[Finding]:
    findings = []
    for each in facts.caches:
        rule = _RULES.get(RestoreEffect(each.effect))
        if rule is not None:
            evidence = tuple(Evidence(excerpt=cause) for cause in each.causes)
            findings.append(rule.finding(f"{each.family}: {each.reason}", evidence=evidence))
    return findings


def _tables(facts: CacheEffectFacts) -> tuple[Table, ...]:
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
