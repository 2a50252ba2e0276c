# SPDX-License-Identifier: Apache-2.0
"""Reads samples of another program and compares them: the library entry of `compare`."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import asdict, replace

from ci_doctor.correctness import rules as findings_rules
from ci_doctor.correctness.collected.experiment import (
    LOOKED_AT,
    collected_experiment,
    drawn_rules,
    recorded_order,
)
from ci_doctor.correctness.collected.formats import SampleFormat, named
from ci_doctor.correctness.collected.judge import judge
from ci_doctor.correctness.collected.sources import NoEvidenceError, check, find, sources
from ci_doctor.correctness.collected.survey import Survey, survey
from ci_doctor.correctness.report import figures, picture
from ci_doctor.correctness.report.differences import TELLING, AnswerDifference, differences
from ci_doctor.correctness.report.findings import Context, distinct_errors, findings
from ci_doctor.correctness.report.levels import (
    JudgedStarts,
    level_facts,
    level_tables,
    spread_of_requests,
)
from ci_doctor.correctness.results import Experiment
from ci_doctor.correctness.settings import Arm, Comparison, Rules, StartOrder
from ci_doctor.correctness.verdict.decision import Decision
from ci_doctor.correctness.verdict.starts import DifferenceKind
from ci_doctor.model.facts import Facts
from ci_doctor.model.facts.correctness import CompareFacts, ExaminedRequests, LevelFacts, SampleFile
from ci_doctor.model.outcome import Case, Outcome
from ci_doctor.model.table import Row, row
from ci_doctor.model.verdict import Verdict
from ci_doctor.render.formatting import amount

EXAMINED = 200  # differing requests whose answers are compared to find where they diverge
MOST_CASES = 5000
MOST_ROWS = 1000
_MOST_ERRORS = 20
_TO_DO = (
    "compare the answers shown in the two files; `ci-doctor correctness` can start both "
    "servers and find out more"
)


class CompareRequest(Struct, frozen=True, kw_only=True):
    """What to compare: each side is a file, or a directory with a file for each start.

    `form` is the format of all files, a name that `--format` takes; None recognises each file by
    its content. `alpha` is the accepted probability of a false regression.
    `exchangeable` asserts that the order of the starts plays no part. `comparison` is the gate's. Without `details` the
    outcome has no facts and no cases: a caller that writes no report saves the time.
    """

    baseline: str
    candidate: str
    form: str | None = None
    alpha: float = 0.025
    exchangeable: bool = False
    comparison: Comparison = Comparison()
    details: bool = True


def compare(request: CompareRequest) -> Outcome:
    """The verdict over both sides. It is `void` if the files prove nothing.

    Raises UsageError if the sides cannot be compared, InfraError if a file can no longer be read.
    """
    try:
        read = _read(request)
    except NoEvidenceError as error:
        finding = findings_rules.VOID.finding(str(error), remedy=findings_rules.VOID.remedy)
        return Outcome(verdict=Verdict.VOID, summary=str(error), findings=(finding,))
    experiment = _experiment(read, request)
    decision = judge(read, experiment)
    pairs = differences(experiment, decision, _examined(read, decision))
    context = _context(read, experiment, pairs)
    judged = JudgedStarts(
        starts=experiment.starts,
        # The others are the same in every start, whatever is compared.
        requests=read.odd or read.requests[:1],
        rules=experiment.rules,
        complete=True,
        comparison=experiment.comparison,
        decision=decision,
    )
    levels = level_facts(judged, lambda requests: spread_of_requests(experiment, requests))
    return Outcome(
        verdict=decision.verdict,
        summary=decision.reason,
        findings=tuple(findings(experiment, decision, pairs, context)),
        tables=(
            *picture.tables(experiment, decision, pairs, context, _source_rows(read, experiment)),
            *picture.certainty_tables(experiment.starts, decision),
            *level_tables(levels),
        ),
        facts=_facts(read, experiment, decision, pairs, levels) if request.details else Facts(),
        cases=_cases(read, experiment, decision) if request.details else (),
    )


def _read(request: CompareRequest) -> Survey:
    form = named(request.form) if request.form else None
    # A missing file is an error of usage, even if the other side is empty. So both are looked for
    # before one of them is read.
    for path in (request.baseline, request.candidate):
        find(path)
    baseline = sources(Arm.BASELINE, request.baseline, form)
    candidate = sources(Arm.CANDIDATE, request.candidate, form)
    check(baseline, candidate)
    return survey(baseline, candidate)


def _experiment(read: Survey, request: CompareRequest) -> Experiment:
    """The starts in order of time, if that is recorded, and the rules by what is known of the order."""
    order = None
    rules = Rules(alpha=request.alpha, order=StartOrder.UNKNOWN)
    if request.exchangeable:
        rules = replace(rules, order=StartOrder.EXCHANGEABLE)
    # Equal answers need no order.
    elif read.odd:
        order = recorded_order(read)
        if order is not None:
            recorded = replace(rules, order=StartOrder.RECORDED)
            rules = drawn_rules(read, order, request.alpha) or recorded
    if order is None:
        order = tuple(range(len(read.starts)))
    return collected_experiment(read, order, rules, request.comparison)


def _examined(read: Survey, decision: Decision) -> list[str]:
    """The differing requests to look at, the most telling kind first; within a kind, as in the files."""
    kinds = decision.kinds
    differing = [request for request in read.odd if kinds.get(request) in TELLING]
    return sorted(differing, key=lambda request: TELLING.index(kinds[request]))[:EXAMINED]


def _context(read: Survey, experiment: Experiment, pairs: Sequence[AnswerDifference]) -> Context:
    """What the findings point at: the file and the line of an answer that differs or is missing."""
    starts = {start.name: start for start in read.starts}
    places: dict[str, tuple[str, int | None]] = {}
    for result in experiment.results:
        source = starts[result.start.name].source
        for request in result.errors:
            places.setdefault(request, (str(source.path), None))
    for difference in pairs:
        start = starts[difference.pair.second]
        place = start.place(difference.request, difference.pair.number)
        if place is not None:
            # LMCache's format has blocks of several lines: their number is no line.
            has_lines = start.source.form is not SampleFormat.LMCACHE
            places[difference.request] = str(start.source.path), place.line if has_lines else None
    return Context(places=places, total=len(read.requests), prompts=LOOKED_AT, to_do=_TO_DO)


def _source_rows(read: Survey, experiment: Experiment) -> Iterator[Row]:
    """Which files were compared, and how."""
    for arm in Arm:
        starts = [start for start in read.starts if start.arm is arm]
        files = {start.source.path for start in starts}
        source = starts[0].source
        # Our own samples hold several starts in one file.
        others = f" and {len(files) - 1} more" if len(files) > 1 else ""
        count = amount(len(starts), "start")
        yield row(str(arm), f"{source.path}{others}: {source.form.words}, {count}")
    by_line = "by line; the two sides have no id in common"
    yield row("aligned", by_line if read.aligned == "line" else "by id")
    for note in read.notes:
        yield row("note", note)
    if experiment.rules.order not in {StartOrder.UNKNOWN, StartOrder.EXCHANGEABLE}:
        yield row("order", " ".join(start.name for start in experiment.starts))


def _facts(
    read: Survey,
    experiment: Experiment,
    decision: Decision,
    pairs: Sequence[AnswerDifference],
    levels: tuple[LevelFacts, ...],
) -> CompareFacts:
    kinds = decision.kinds
    differing = [name for name in read.odd if kinds[name] is not DifferenceKind.EQUAL]
    shared = figures.answer_facts(experiment, decision, pairs, differing[:MOST_ROWS])
    return CompareFacts(
        **{**asdict(shared), "levels": levels},
        aligned_by=read.aligned,
        passes=read.passes,
        files={
            start.name: SampleFile(path=str(start.source.path), format=str(start.source.form))
            for start in read.starts
        },
        answered={start.name: start.answered for start in experiment.starts},
        examined=ExaminedRequests(
            differing=decision.count(*TELLING), read=len(_examined(read, decision))
        ),
        errors={
            result.start.name: dict(distinct_errors(result.errors, _MOST_ERRORS))
            for result in experiment.results
            if result.errors
        },
    )


def _cases(read: Survey, experiment: Experiment, decision: Decision) -> tuple[Case, ...]:
    """One case a request, at most MOST_CASES: those that differ first."""
    errors: Mapping[str, str] = {}
    for result in experiment.results:
        errors = {**errors, **result.errors}
    # The sort is stable: within both halves the requests keep the order of the files.
    ordered = sorted(
        read.requests, key=lambda name: decision.kinds.get(name) is DifferenceKind.EQUAL
    )
    return figures.cases(decision, ordered[:MOST_CASES], errors)
