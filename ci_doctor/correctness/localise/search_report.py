# SPDX-License-Identifier: Apache-2.0
"""What a search under noise tells: its outcome, its tables, its facts. Pure."""

import math
from collections import Counter
from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness.localise.noise import LEAST_GAP, SearchAnswer, SearchEnd
from ci_doctor.correctness.localise.watched import ReplayedSearch, StartEvidence
from ci_doctor.correctness.report import figures
from ci_doctor.correctness.results import SAMPLES, Experiment, ExperimentEnding, StartResult
from ci_doctor.correctness.settings import ExperimentPlan
from ci_doctor.model.facts.correctness import SearchAnswerFacts, SearchFacts, SearchPoint
from ci_doctor.model.outcome import (
    Failure,
    Outcome,
    Row,
    Table,
    Verdict,
    row,
    signal_kind,
    text_table,
)
from ci_doctor.render.formatting import amount, percent

_SHOWN = 3


class SearchWords(Struct, frozen=True, kw_only=True):
    """How a search speaks: what it looks for, a point and an answer in words, and the commands of an answer."""

    subject: str
    point: Callable[[int], str]
    names: Callable[[Sequence[int]], tuple[str, ...]]
    conclusion: Callable[[Sequence[str]], str]
    commands: Callable[[SearchAnswer], tuple[str, ...]]
    resume: str


def search_outcome(
    state: ReplayedSearch,
    evidence: Sequence[StartEvidence],
    plan: ExperimentPlan,
    words: SearchWords,
    *,
    stopped: str = "",
    signal: str | None = None,
) -> Outcome:
    """The outcome: no verdict and so exit code 0 for an answer, `inconclusive` for none."""
    search = state.search
    is_compared = state.watched is not None and bool(state.watched.answers)
    # If no request can be watched, equal failures of both ends are no agreement.
    end = search.end if is_compared or state.watched is None else SearchEnd.OPEN
    answers = search.space.answers(search.posterior) if is_compared else []
    is_found = end is SearchEnd.FOUND
    facts = _facts(state, evidence, words, answers, stopped)
    facts = replace(facts, ending=end.value)
    results = tuple(each.result for each in evidence if each.result is not None)
    experiment = Experiment(results=results, outputs={}, ending=ExperimentEnding.COMPLETE)
    tables = [_starts(facts, state, results), *_answers(facts, is_found=is_found)]
    if facts.commands and is_found:
        lines = tuple(line for each in facts.commands for line in each.split("\n"))
        rows = tuple(Row(label=line) for line in lines)
        tables.append(Table(title="Commands", rows=rows, is_verbatim=True))
    if not is_found and end is not SearchEnd.EQUAL:
        tables.append(text_table("To go on", (words.resume,)))
    failure = None
    summary = _summary(facts, end, words)
    if signal is not None:
        failure = Failure(
            message=f"interrupted by {signal} after {amount(len(results), 'start')}; "
            "every process was stopped",
            hint=f"to go on: {words.resume}",
            kind=signal_kind(signal),
        )
        summary = failure.message
    verdict = None if is_found or failure is not None else Verdict.INCONCLUSIVE
    return Outcome(
        verdict=verdict,
        summary=summary,
        error=failure,
        tables=tuple(tables),
        facts=facts,
        attempts=figures.attempts(experiment, plan.directory),
        attachments=figures.attachments(experiment, plan.directory / SAMPLES, plan.directory),
    )


def _facts(
    state: ReplayedSearch,
    evidence: Sequence[StartEvidence],
    words: SearchWords,
    answers: Sequence[SearchAnswer],
    stopped: str,
) -> SearchFacts:
    search = state.search
    made: Counter[int] = Counter()
    differing: Counter[int] = Counter()
    for point, is_shown in search.results:
        made[point] += 1
        differing[point] += is_shown
    broken = {each.planned.point: each.broken for each in evidence if each.broken}
    for point in search.space.broken - broken.keys():
        broken[point] = "it does not start"
    points = [
        SearchPoint(
            label=words.point(point),
            starts=made[point],
            differing=differing[point],
            broken=broken.get(point, ""),
        )
        for point in sorted({*made, *broken})
    ]
    rates = search.posterior.rates
    return SearchFacts(
        subject=words.subject,
        ending=search.end.value,
        stopped=stopped,
        starts=len(search.results),
        answers=tuple(
            SearchAnswerFacts(names=words.names(each.names), probability=_floor(each.probability))
            for each in answers[:_SHOWN]
        ),
        rates_good=rates.good,
        rates_bad=rates.bad,
        noisy=state.watched.noisy if state.watched else 0,
        unanswered=state.watched.unanswered if state.watched else 0,
        points=tuple(points),
        commands=words.commands(answers[0]) if answers else (),
    )


def _starts(facts: SearchFacts, state: ReplayedSearch, results: Sequence[StartResult]) -> Table:
    rows = [
        row(each.label, each.broken or f"{each.differing} of {each.starts} starts differ")
        for each in facts.points
    ]
    if facts.noisy:
        noisy = f"{amount(facts.noisy, 'request')} that the good end does not repeat"
        rows.append(row("not looked at", noisy))
    if facts.unanswered:
        silent = f"{amount(facts.unanswered, 'request')} that no start of the good end answered"
        rows.append(row("not looked at", silent))
    unused = len(results) - sum(each.starts for each in facts.points)
    if unused > 0 and state.watched is not None:
        rows.append(row("no evidence", amount(unused, "start")))
    return Table(title="Starts", rows=tuple(rows))


def _answers(facts: SearchFacts, *, is_found: bool) -> list[Table]:
    if not facts.answers or facts.ending in {SearchEnd.EQUAL, SearchEnd.UNSURE}:
        return []
    rows = [row(" and ".join(each.names), percent(each.probability)) for each in facts.answers]
    rates = (
        row("starts without it that differ", _span(facts.rates_good)),
        row("starts with it that differ", _span(facts.rates_bad)),
    )
    title = "Probability" if is_found else "Probability so far"
    possible = Table(title="Rates that are not ruled out", rows=rates)
    return [Table(title=title, rows=tuple(rows)), possible]


def _floor(probability: float) -> float:
    """A probability is not rounded up."""
    return math.floor(probability * 1000) / 1000


def _span(rates: tuple[float, float]) -> str:
    return " to ".join(percent(each) for each in dict.fromkeys(rates))


def _summary(facts: SearchFacts, end: SearchEnd, words: SearchWords) -> str:
    starts = amount(facts.starts, "start")
    if end is SearchEnd.EQUAL:
        return (
            f"both ends answer alike in {starts}: nothing to search for, unless their rates lie "
            f"less than {LEAST_GAP * 100:.0f} points apart"
        )
    if not facts.answers:
        return facts.stopped or f"the ends were not compared in {starts}"
    if end is SearchEnd.UNSURE:
        return f"it is not sure that both ends differ; {starts} are half of --max-starts"
    best = facts.answers[0]
    probability = percent(best.probability)
    if end is SearchEnd.FOUND:
        return f"{words.conclusion(best.names)} (probability {probability}, {starts})"
    reason = facts.stopped or {
        SearchEnd.STARTS: f"all {starts} are used up (--max-starts)",
        SearchEnd.EXHAUSTED: "no start that can be made would tell more",
    }.get(end, "it was ended")
    return f"no answer is probable enough: {' and '.join(best.names)} has {probability}; {reason}"
