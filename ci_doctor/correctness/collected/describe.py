# SPDX-License-Identifier: Apache-2.0
"""Collected samples and their verdict in the words of a report. Pure."""

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from ci_doctor.correctness.collected.divergences import (
    EXAMINED,
    SHOWN,
    TELLING,
    Parting,
    parting_lines,
)
from ci_doctor.correctness.collected.settle import Collected
from ci_doctor.correctness.report.hardness import Hardness
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.compare import Kind, clusters, explain
from ci_doctor.correctness.verdict.decision import Decision, of_arm
from ci_doctor.model.finding import Evidence, Finding, Severity
from ci_doctor.model.outcome import Case, CaseOutcome
from ci_doctor.model.table import Table, text_table
from ci_doctor.model.verdict import Verdict

MOST_CASES = 5000
MOST_ROWS = 1000
REMEDIES = {
    Verdict.REGRESSION: "compare the answers shown in the two files; ci-doctor correctness can start both servers and tell more",
    Verdict.FLAKY: "the change may go in; to find what makes two starts of the baseline differ: ci-doctor setup-env --determinism strict",
    Verdict.INCONCLUSIVE: "ci-doctor correctness compare DIR DIR, each with a file for each start",
    Verdict.VOID: "this proves nothing either way: mend the cause that is named, then collect the samples again",
}


def sections(collected: Collected, decision: Decision) -> tuple[Table, ...]:
    """What was compared, who agrees with whom, how much."""
    survey = collected.survey
    counts = ", ".join(
        f"{number} {kind}" for kind, number in _kinds(collected, decision).items() if number
    )
    lines = (
        *(f"{arm:<10} {line}" for arm in Arm for line in _side(collected, arm)),
        f"aligned    by {survey.aligned}"
        + ("; the two sides have no id in common" if survey.aligned == "line" else ""),
        *(f"note       {note}" for note in survey.notes),
        _starts_line(collected),
        *_clusters_line(collected),
        f"requests   {counts or 'none'}",
        *([f"passes     differ in {_within(collected)}"] if any(collected.within.values()) else []),
        *([f"risk       {decision.risk}"] if decision.risk else []),
        *([f"to settle  {decision.settle}"] if decision.settle else []),
    )
    return (text_table(title="Evidence", lines=lines),)


def _kinds(collected: Collected, decision: Decision) -> dict[Kind, int]:
    """How many requests are of each kind; what was not read again is equal."""
    odd = collected.survey.odd
    counts = Counter(decision.kinds.get(request, Kind.UNANSWERED) for request in odd)
    counts[Kind.EQUAL] += len(collected.survey.requests) - len(odd)
    return {kind: counts[kind] for kind in Kind}


def _side(collected: Collected, arm: Arm) -> Iterator[str]:
    heard = [each for each in collected.survey.starts if each.arm is arm]
    first = heard[0].source
    files = len({each.source.path for each in heard})
    more = f" and {files - 1} more" if files > 1 else ""
    yield f"{first.path}{more}: {first.form.words}, {len(heard)} start{'' if len(heard) == 1 else 's'}"


def _starts_line(collected: Collected) -> str:
    starts, total = collected.starts, len(collected.survey.requests)
    names = " | ".join(" ".join(start.name for start in of_arm(starts, arm)) for arm in Arm)
    counts = {start.name: f"{collected.answered(start)}/{total}" for start in starts}
    if len(set(counts.values())) == 1:
        return f"starts     {names}   answered {counts[starts[0].name]} each"
    return f"starts     {names}   " + ", ".join(f"{name} {count}" for name, count in counts.items())


def _clusters(collected: Collected) -> tuple[tuple[str, ...], ...]:
    """By the requests that are not the same everywhere: the others tell no two starts apart."""
    starts = [start for start in collected.starts if collected.answered(start)]
    if not collected.survey.odd:
        return (tuple(start.name for start in starts),)
    odd = collected.survey.odd
    return clusters(
        [
            replace(start, answers={name: start.answers.get(name) for name in odd})
            for start in starts
        ]
    )


def _clusters_line(collected: Collected) -> Iterator[str]:
    if grouped := _clusters(collected):
        yield "clusters   " + "  ".join("{" + " ".join(names) + "}" for names in grouped)


def _within(collected: Collected) -> str:
    return ", ".join(f"{name} {number}" for name, number in collected.within.items() if number)


def findings(
    collected: Collected, decision: Decision, found: Sequence[Parting]
) -> Iterator[Finding]:
    """The verdict's own finding first, then what was not answered."""
    if decision.verdict is not Verdict.PASS:
        yield Finding(
            rule=f"correctness/{decision.verdict}",
            severity=Severity.ERROR if decision.verdict is Verdict.REGRESSION else Severity.WARNING,
            summary=_which(collected, decision) or decision.reason,
            evidence=tuple(map(_evidence, found[:SHOWN])),
            remedy=REMEDIES.get(decision.verdict),
        )
    for name, errors in collected.errors.items():
        heard = next(each for each in collected.survey.starts if each.name == name)
        yield Finding(
            rule="correctness/unanswered",
            severity=Severity.WARNING,
            summary=f"{len(errors)} of {len(collected.survey.requests)} requests have no answer in {name}",
            evidence=tuple(
                Evidence(file=str(heard.source.path), excerpt=f"{request}: {text}"[:300])
                for request, text in _different(errors)
            ),
        )
    yield from _empty(collected)


def _which(collected: Collected, decision: Decision) -> str | None:
    """The requests that differ, the most telling kind first; None where the verdict has another reason."""
    if decision.verdict not in {Verdict.REGRESSION, Verdict.FLAKY, Verdict.INCONCLUSIVE}:
        return None
    counts = _kinds(collected, decision)
    kind = next((kind for kind in TELLING if counts[kind]), None)
    if kind is None:
        return None
    names = [request for request in collected.survey.odd if decision.kinds.get(request) is kind]
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{', '.join(names[:SHOWN])}{more}: {explain(kind)}"


def _evidence(parting: Parting) -> Evidence:
    place = parting.place
    return Evidence(
        file=str(place.source.path) if place else None,
        line=place.line if place and place.source.form != "lmcache" else None,
        excerpt="\n".join(parting_lines(parting)),
    )


def _different(errors: Mapping[str, str], most: int = SHOWN) -> list[tuple[str, str]]:
    """At most `most` errors, no text twice."""
    first: dict[str, str] = {}
    for request, text in errors.items():
        first.setdefault(text, request)
    return [(request, text) for text, request in first.items()][:most]


def _empty(collected: Collected) -> Iterator[Finding]:
    start = next((start for start in collected.starts if start.empty), None)
    if start:
        yield Finding(
            rule="correctness/empty-answers",
            severity=Severity.NOTE,
            summary=f"{start.empty} answers of {start.name} hold no text",
            remedy="see the files",
        )


def cases(collected: Collected, decision: Decision) -> tuple[Case, ...]:
    """One case a request, at most MOST_CASES: those that differ first."""
    errors = {request: text for each in collected.errors.values() for request, text in each.items()}
    kinds = decision.kinds
    ordered = sorted(collected.survey.requests, key=lambda name: kinds.get(name) is Kind.EQUAL)[
        :MOST_CASES
    ]
    return tuple(_case(name, decision, errors.get(name)) for name in ordered)


def _case(request: str, decision: Decision, reason: str | None) -> Case:
    kind = decision.kinds.get(request, Kind.UNANSWERED)
    message = explain(kind)
    if decision.verdict in {Verdict.VOID, Verdict.INFRA}:
        # Answers that prove nothing must not look like passed tests to a reader that only counts.
        outcome, message = CaseOutcome.ERROR, decision.reason
    elif kind in {Kind.EQUAL, Kind.FLAKY}:
        outcome = CaseOutcome.PASSED
    else:
        outcome = (
            CaseOutcome.FAILED if decision.verdict is Verdict.REGRESSION else CaseOutcome.ERROR
        )
    return Case(group="requests", name=request, outcome=outcome, message=message, detail=reason)


def facts(collected: Collected, decision: Decision, found: Sequence[Parting]) -> dict[str, Any]:
    """The figures, for programs."""
    survey, starts, kinds = collected.survey, collected.starts, _kinds(collected, decision)
    differing = sum(kinds[kind] for kind in TELLING)
    return {
        "requests": len(survey.requests),
        "aligned_by": survey.aligned,
        "passes": survey.passes,
        "files": {
            each.name: {"path": str(each.source.path), "format": str(each.source.form)}
            for each in survey.starts
        },
        "starts": {str(arm): len(of_arm(starts, arm)) for arm in Arm},
        "answered": {start.name: collected.answered(start) for start in starts},
        "kinds": {str(kind): number for kind, number in kinds.items()},
        "clusters": [list(names) for names in _clusters(collected)],
        "matrix": _matrix(collected, decision),
        "within": dict(collected.within),
        "divergence": _divergence(found),
        "differences_by": {
            str(each): sum(one.divergence.hardness is each for one in found) for each in Hardness
        },
        "examined": {"differing": differing, "read": min(EXAMINED, differing)},
        "aligned": [_aligned(each) for each in found[:SHOWN]],
        "test": to_builtins(decision.test),
        "risk": decision.risk,
        "settle": decision.settle,
        "errors": {name: dict(_different(errors, 20)) for name, errors in collected.errors.items()},
    }


def _matrix(collected: Collected, decision: Decision) -> dict[str, Any]:
    """The requests that are not the same everywhere, at most MOST_ROWS, by the class of each start's answer."""
    rows = []
    for request in list(collected.survey.odd)[:MOST_ROWS]:
        classes: dict[str, int] = {}
        answers = [start.answers.get(request) for start in collected.starts]
        rows.append(
            {
                "id": request,
                "kind": str(decision.kinds.get(request, Kind.UNANSWERED)),
                "classes": [
                    None if each is None else classes.setdefault(each, len(classes))
                    for each in answers
                ],
            }
        )
    starts = [
        {
            "name": start.name,
            "arm": str(start.arm),
            "archived": False,
            "ok": collected.answered(start) == len(collected.survey.requests),
            "answered": collected.answered(start),
        }
        for start in collected.starts
    ]
    return {
        "starts": starts,
        "requests": rows,
        "left_out": len(collected.survey.requests) - len(rows),
    }


def _divergence(found: Sequence[Parting]) -> dict[str, Any] | None:
    units = Counter(each.divergence.unit for each in found if each.divergence.position is not None)
    if not units:
        return None
    unit = units.most_common(1)[0][0]
    positions = sorted(
        each.divergence.position
        for each in found
        if each.divergence.unit is unit and each.divergence.position is not None
    )
    return {
        "unit": str(unit),
        "positions": positions,
        "min": positions[0],
        "median": statistics.median_low(positions),
        "max": positions[-1],
    }


def _aligned(parting: Parting) -> dict[str, Any]:
    told: dict[str, Any] = to_builtins(parting.divergence)
    names = [parting.first, parting.second]
    return {
        "request": parting.request,
        "kind": str(parting.kind),
        "starts": names,
        **told,
        "logprobs": [],
    }
