# SPDX-License-Identifier: Apache-2.0
"""The findings of collected samples, each with its evidence and what to do next. Pure."""

from collections.abc import Iterator, Mapping, Sequence

from ci_doctor.correctness import rules
from ci_doctor.correctness.collected.counts import kind_counts
from ci_doctor.correctness.collected.differences import (
    SHOWN,
    TELLING,
    CollectedDifference,
    difference_lines,
)
from ci_doctor.correctness.collected.formats import SampleFormat
from ci_doctor.correctness.collected.reread import Collected
from ci_doctor.correctness.report.findings import distinct_errors, mended_findings
from ci_doctor.correctness.verdict.compare import explain
from ci_doctor.correctness.verdict.decision import Decision
from ci_doctor.correctness.verdict.starts import DifferenceKind
from ci_doctor.model.finding import Evidence, Finding
from ci_doctor.model.verdict import Verdict

# What to do next if only files were compared; the rules of the other verdicts say it for both.
_NEXT = {
    Verdict.REGRESSION: (
        "compare the answers shown in the two files; `ci-doctor correctness` can start both "
        "servers and find out more"
    ),
}
_ABOUT_ANSWERS = {Verdict.REGRESSION, Verdict.FLAKY, Verdict.INCONCLUSIVE}
_MOST_EXCERPT = 300


def void_finding(reason: str) -> Finding:
    """The finding about files that prove nothing."""
    return rules.VOID.finding(reason, remedy=rules.VOID.remedy)


def findings(
    collected: Collected, decision: Decision, differences: Sequence[CollectedDifference]
) -> Iterator[Finding]:
    """The verdict's own finding first, then what was not answered."""
    verdict = decision.verdict
    if verdict is not Verdict.PASS:
        rule = rules.OF_VERDICT[verdict]
        message = _which(collected, decision) or decision.reason
        shown = differences[:SHOWN]
        yield rule.finding(
            message,
            evidence=tuple(map(_evidence, shown)),
            remedy=decision.settle or _NEXT.get(verdict, rule.remedy),
        )
    yield from mended_findings(decision)
    yield from _unanswered(collected)
    yield from _empty(collected)


def _which(collected: Collected, decision: Decision) -> str | None:
    """The requests of the most telling kind; None if the verdict has another reason."""
    if decision.verdict not in _ABOUT_ANSWERS:
        return None
    counts = kind_counts(collected, decision)
    for kind in TELLING:
        if counts[kind]:
            names = _few(collected, decision, kind)
            return f"{names}: {explain(kind)}"
    return None


def _few(collected: Collected, decision: Decision, kind: DifferenceKind) -> str:
    """The first requests of a kind, in the order of the files, and how many more there are."""
    odd = collected.survey.odd
    names = [request for request in odd if decision.kinds.get(request) is kind]
    shown = ", ".join(names[:SHOWN])
    more = len(names) - SHOWN
    if more > 0:
        return f"{shown} and {more} more"
    return shown


def _evidence(difference: CollectedDifference) -> Evidence:
    excerpt = "\n".join(difference_lines(difference))
    place = difference.place
    if place is None:
        return Evidence(file=None, excerpt=excerpt)
    source = place.source
    line: int | None = place.line
    # LMCache's format has blocks of several lines: their number is no line.
    if source.form is SampleFormat.LMCACHE:
        line = None
    return Evidence(file=str(source.path), line=line, excerpt=excerpt)


def _unanswered(collected: Collected) -> Iterator[Finding]:
    files = {start.name: str(start.source.path) for start in collected.survey.starts}
    total = len(collected.survey.requests)
    for name, errors in collected.errors.items():
        evidence = _error_evidence(files[name], errors)
        message = f"{len(errors)} of {total} requests have no answer in {name}"
        yield rules.UNANSWERED.finding(message, evidence=evidence)


def _error_evidence(file: str, errors: Mapping[str, str]) -> tuple[Evidence, ...]:
    evidence = []
    for request, text in distinct_errors(errors, SHOWN):
        # A server may answer with a page of HTML, and a file may hold it in any length.
        excerpt = f"{request}: {text}"[:_MOST_EXCERPT]
        evidence.append(Evidence(file=file, excerpt=excerpt))
    return tuple(evidence)


def _empty(collected: Collected) -> Iterator[Finding]:
    """One finding about the first start with empty answers: the others would say the same."""
    for start in collected.starts:
        if start.empty:
            message = f"{start.empty} answers of {start.name} hold no text"
            yield rules.EMPTY_ANSWERS.finding(message, remedy="See the files.")
            return
