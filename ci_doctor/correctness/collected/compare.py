# SPDX-License-Identifier: Apache-2.0
"""Reads samples of another program and compares them as a run does: the library entry of `compare`.

What the survey could not match is read again, the slow and complete way. From there on collected samples
go the way of a run of ours: samples, tally, starts, decision, report.
"""

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import count, islice, pairwise, product
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness import rules as findings_rules
from ci_doctor.correctness.collected.formats import Entry, SampleFormat, named
from ci_doctor.correctness.collected.survey import (
    CollectedStart,
    NoEvidenceError,
    Survey,
    SurveyRecord,
    check,
    find,
    sources,
    survey,
)
from ci_doctor.correctness.evidence.run_identity import drawn_in, read_run
from ci_doctor.correctness.evidence.samples import Sample
from ci_doctor.correctness.report import figures, picture
from ci_doctor.correctness.report.differences import TELLING, differences
from ci_doctor.correctness.report.findings import Context, findings
from ci_doctor.correctness.report.picture import level_facts, level_tables
from ci_doctor.correctness.results import (
    Experiment,
    ExperimentEnding,
    SameAnswers,
    StartResult,
    Tally,
    distinct_errors,
    level_digests,
)
from ci_doctor.correctness.settings import Arm, Comparison, Rules, StartOrder
from ci_doctor.correctness.verdict.decide import canary_detected, decide
from ci_doctor.correctness.verdict.looks import neighbours
from ci_doctor.correctness.verdict.mix_test import smallest_p
from ci_doctor.correctness.verdict.schedule import sequence
from ci_doctor.correctness.verdict.starts import DifferenceKind, of_arm, restricted, working
from ci_doctor.correctness.verdict.validity import Decision
from ci_doctor.errors import UsageError
from ci_doctor.load.looks import AnswerLooks, LooksOfAnswers
from ci_doctor.load.schema import parse_json
from ci_doctor.model.facts.correctness import (
    AlignedAnswers,
    CompareFacts,
    ExaminedRequests,
    SampleFile,
)
from ci_doctor.model.outcome import Outcome, Row, Verdict, row
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
    `exchangeable` asserts that the order of the starts plays no part. `comparison` is the gate's.
    """

    baseline: str
    candidate: str
    form: str | None = None
    alpha: float = 0.025
    exchangeable: bool = False
    comparison: Comparison = Comparison()


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
    examined = _examined(read, decision)
    pairs = differences(experiment, decision, examined)
    context = _context(read, experiment, pairs)
    # The others are the same in every start, whatever is compared.
    levels = level_facts(experiment, decision, read.odd or read.requests[:1])
    kinds = decision.kinds
    rows = [name for name in read.odd if kinds[name] is not DifferenceKind.EQUAL][:MOST_ROWS]
    facts = CompareFacts(
        **{**figures.answer_facts(experiment, decision, pairs, rows), "levels": levels},
        aligned_by=read.aligned,
        passes=read.passes,
        files={
            start.name: SampleFile(path=str(start.source.path), format=str(start.source.form))
            for start in read.starts
        },
        answered={start.name: start.answered for start in experiment.starts},
        examined=ExaminedRequests(differing=decision.count(*TELLING), read=len(examined)),
        errors={
            result.start.name: dict(distinct_errors(result.errors, _MOST_ERRORS))
            for result in experiment.results
            if result.errors
        },
    )
    # Those that differ first. The sort is stable: within both halves they keep the order of the files.
    ordered = sorted(read.requests, key=lambda name: kinds.get(name) is DifferenceKind.EQUAL)
    errors = {name: text for each in experiment.results for name, text in each.errors.items()}
    shown = picture.tables(
        facts,
        decision,
        pairs,
        context,
        is_exact=experiment.comparison.is_exact,
        sources=_source_rows(read, experiment),
    )
    return Outcome(
        verdict=decision.verdict,
        summary=decision.reason,
        findings=tuple(findings(experiment, decision, pairs, context)),
        tables=(*shown, *level_tables(levels)),
        facts=facts,
        cases=figures.cases(decision, ordered[:MOST_CASES], errors),
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


def _context(read: Survey, experiment: Experiment, pairs: Sequence[AlignedAnswers]) -> Context:
    """What the findings point at: the file and the line of an answer that differs or is missing."""
    starts = {start.name: start for start in read.starts}
    places: dict[str, tuple[str, int | None]] = {}
    for result in experiment.results:
        source = starts[result.start.name].source
        for request in result.errors:
            record = starts[result.start.name].record(request, 1)
            if record is not None:
                # The line that is no answer, rather than a file that lacks it.
                places[request] = str(source.path), record.line
            places.setdefault(request, (str(source.path), None))
    for difference in pairs:
        start = starts[difference.starts[1]]
        record = start.record(difference.request, difference.pass_ or 1)
        if record is not None:
            # LMCache's format has blocks of several lines: their number is no line.
            has_lines = start.source.form is not SampleFormat.LMCACHE
            path = str(start.source.path)
            places[difference.request] = path, record.line if has_lines else None
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


# --- the decision, and the proof of the comparison ---

_CANARY_REQUESTS = 1000  # of all, so that the proof costs no second decision over everything
_LEAST_CANDIDATES = 3
_MOST_IN_TURN = 20


def judge(survey: Survey, experiment: Experiment) -> Decision:
    """The verdict. No further start will be made. Raises InfraError."""
    manner = experiment.comparison.manner
    rules = experiment.rules
    decision = decide(experiment.starts, survey.requests, rules, complete=True, manner=manner)
    if decision.verdict is Verdict.VOID:
        return decision
    # Of answers with the same bytes one was read whole: it stands for the others.
    first = read_again(survey)[:_CANARY_REQUESTS]
    results = tuple(
        replace(result, start=restricted([result.start], first)[0]) for result in experiment.results
    )
    if not canary_detected(replace(experiment, results=results), first):
        reason = (
            "the comparison did not notice an answer that was changed on purpose: "
            "its results do not count"
        )
        return Decision(verdict=Verdict.VOID, reason=reason, kinds=decision.kinds)
    if decision.verdict is Verdict.INCONCLUSIVE and not decision.settle:
        return replace(decision, settle=_settle(experiment, decision))
    return decision


def _settle(experiment: Experiment, decision: Decision) -> str:
    """How many starts make a decision possible, and in which order to make them."""
    rules = experiment.rules
    if decision.mended:
        return (
            "collect the candidate's starts as both sides: they show whether it is steady by itself"
        )
    if not working(of_arm(experiment.starts, Arm.CANDIDATE)):
        return "see why the candidate answered nothing, and collect its answers anew"
    made = {arm: len(of_arm(experiment.starts, arm)) for arm in Arm}
    if rules.order is StartOrder.EXCHANGEABLE:
        # With one or two candidate starts the baseline would need 79 or 12: more starts in all.
        candidate = max(made[Arm.CANDIDATE], _LEAST_CANDIDATES)
        baseline = max(made[Arm.BASELINE], _baseline_starts(candidate, rules.alpha))
        how = "in a directory, a file for each"
    else:
        baseline = candidate = max(_in_turn(rules.alpha), *made.values())
        how = (
            "in turn (A B B A …), a file for each, with the time in each answer (`created`); or assert "
            "with `--exchangeable` that time plays no part"
        )
    if made == {Arm.BASELINE: baseline, Arm.CANDIDATE: candidate} and decision.doubt is None:
        return "collect more starts of both sides, or make the baseline steadier"
    return f"collect {baseline} baseline and {candidate} candidate starts {how}"


def _in_turn(alpha: float) -> int:
    """How many starts of each side, made in turn, a decision takes."""
    for each in count(_LEAST_CANDIDATES):
        groups = neighbours((False, True) * each)
        # Every second start is a candidate's.
        sizes = [
            (groups.count(group), groups[1::2].count(group)) for group in dict.fromkeys(groups)
        ]
        if smallest_p(sizes) <= alpha or each == _MOST_IN_TURN:
            return each
    raise AssertionError


def _baseline_starts(candidate: int, alpha: float) -> int:
    """How many baseline starts decide at `alpha` beside the candidate's, if starts are exchangeable.

    The change separates the arms completely in one labeling, and one more may do so by chance. With
    arms of equal size each labeling has a mirror image that is as extreme. Never fewer than the
    candidate's.
    """
    for baseline in count(candidate):
        extreme = 4 if baseline == candidate else 2
        if extreme <= alpha * math.comb(baseline + candidate, candidate):
            return baseline
    raise AssertionError


# The outcome of a request whose answers are the same bytes in every start and pass. A digest has 64
# characters, so none is equal to it.
SAME = "="
# Answers that are all the same, or blank, are so from the beginning.
LOOKED_AT = 200
# So many answers of a start are read for their time: they lie close together in time.
_TIMED = 100
# Where an answer holds the time at which it was made, in seconds, by format: OpenAI's `created`,
# and `created_at` of its Responses API.
_KEYS = ("created", "created_at")
_ROW_KEYS = (*_KEYS, "timestamp")


class _Outputs(Mapping[str, Mapping[str, Any]]):
    """The answers that were read, by their digests; each is read again when it is asked for."""

    def __init__(self) -> None:
        self.places: dict[str, tuple[CollectedStart, SurveyRecord]] = {}

    def __getitem__(self, digest: str) -> Mapping[str, Any]:
        start, record = self.places[digest]
        output = start.entry(record).output
        if output is None:
            raise KeyError(digest)
        return output

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)


def read_again(survey: Survey) -> list[str]:
    """The requests whose answers are read whole: all that may differ, and one that proves the rest."""
    odd = set(survey.odd)
    proving = (request for request in survey.requests if request not in odd)
    return [*survey.odd, *islice(proving, 1)]


def collected_experiment(
    survey: Survey, order: Sequence[int], rules: Rules, comparison: Comparison
) -> Experiment:
    """The starts of a survey in `order`, as a run leaves them. Raises InfraError."""
    requests = read_again(survey)
    outputs = _Outputs()
    gate = SameAnswers(comparison, outputs)
    same = dict.fromkeys(survey.requests, SAME)
    looked_at = set()
    results = []
    for index in order:
        start = survey.starts[index]
        result = gate.at_gate(_result(start, requests, survey.passes, outputs))
        looks = AnswerLooks()
        if start.arm not in looked_at:
            looked_at.add(start.arm)
            looks = _looks(start)
        answers = {**same, **result.start.answers}
        made = replace(result.start, answers=answers, looks=looks)
        results.append(replace(result, start=made))
    return Experiment(
        results=tuple(results),
        outputs=outputs,
        ending=ExperimentEnding.COMPLETE,
        rules=rules,
        comparison=comparison,
    )


def _result(
    start: CollectedStart, requests: Sequence[str], passes: int, outputs: _Outputs
) -> StartResult:
    """What one start answered to these requests."""
    tally = Tally(arm=start.arm, number=start.number, ids=requests, passes=passes)
    for request, number in product(requests, range(1, passes + 1)):
        record = start.record(request, number)
        answer = Entry() if record is None else start.entry(record)
        sample = Sample(
            arm=start.arm.value, start=start.number, pass_=number, id=request, error=answer.error
        )
        if record is not None and answer.output is not None and answer.digest is not None:
            outputs.places.setdefault(answer.digest, (start, record))
            levels = level_digests(answer.output, answer.digest)
            sample = replace(
                sample,
                output=answer.output,
                digest=answer.digest,
                words_digest=levels.words,
                tokens_digest=levels.tokens,
                prompt_facts=answer.prompt_facts,
                empty=answer.empty,
            )
        tally.add(sample)
    return tally.result()


def _looks(start: CollectedStart) -> AnswerLooks:
    """What the first answers of a start look like."""
    looks = LooksOfAnswers()
    for number, record in enumerate(islice(start.records, LOOKED_AT)):
        answer = start.entry(record)
        if answer.output is not None:
            looks.add(record.id or str(number), answer.output, answer.prompt_facts)
    return looks.value()


# --- the order of the starts ---


def recorded_order(survey: Survey) -> tuple[int, ...] | None:
    """The indices of the survey's starts in order of time; None if nothing records it.

    Our own samples are written as they arrive, so one file of them is in order. Other files record
    it if each answer holds the time at which it was made, and no two starts of different arms
    overlap. Raises InfraError if a file can no longer be read.
    """
    starts = survey.starts
    indices = range(len(starts))
    # Of the answers that are not the same everywhere.
    odd = set(survey.odd)
    placed = [
        [column[each] for column in start.columns.values() for each in column if each in odd]
        for start in starts
    ]
    if not all(placed):
        return None
    if len({start.source.path for start in starts}) == 1 and (
        starts[0].source.form is SampleFormat.OURS
    ):
        return tuple(sorted(indices, key=lambda index: min(each.line for each in placed[index])))
    spans = []
    for start, some in zip(starts, placed, strict=True):
        times = [_time(start, record) for record in some[:_TIMED]]
        known = [time for time in times if time is not None]
        if len(known) < len(times):
            return None
        spans.append((min(known), max(known)))
    order = sorted(indices, key=lambda index: spans[index])
    for before, after in pairwise(order):
        is_other_arm = starts[before].arm is not starts[after].arm
        if is_other_arm and spans[before][1] >= spans[after][0]:
            return None
    return tuple(order)


def drawn_rules(survey: Survey, order: Sequence[int], alpha: float) -> Rules | None:
    """The rules of the run of ours that made these starts, in that order of time.

    None if they are not those of one run, or not made in the order that its seed draws, or if its
    alpha was another.
    """
    sources = {start.source.path for start in survey.starts}
    if len(sources) > 1 or survey.starts[0].source.form is not SampleFormat.OURS:
        return None
    try:
        run = read_run(sources.pop().parent)
        rules = drawn_in(run)
    except (UsageError, msgspec.ValidationError):
        return None
    arms = tuple(survey.starts[index].arm for index in order)
    if rules is None or rules.alpha != alpha or sequence(rules)[: len(arms)] != arms:
        return None
    return rules


def _time(start: CollectedStart, record: SurveyRecord) -> float | None:
    """The time in an answer; None if it has none."""
    form = start.source.form
    try:
        value: Any = parse_json(start.content(record))
    except ValueError:
        return None
    # The way to the object that holds the time.
    ways = {SampleFormat.OURS: ("meta",), SampleFormat.BATCH: ("response", "body")}
    for key in ways.get(form, ()):
        value = value.get(key) if isinstance(value, dict) else None
    if not isinstance(value, dict):
        return None
    for key in _ROW_KEYS if form is SampleFormat.ROWS else _KEYS:
        time = value.get(key)
        # True is an int. 0 is what a server without a clock says; an int may be beyond all doubles.
        if not isinstance(time, int | float) or isinstance(time, bool):
            continue
        if 0 < time <= sys.float_info.max:
            return float(time)
    return None
