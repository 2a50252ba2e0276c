# SPDX-License-Identifier: Apache-2.0
"""Makes the facts of an experiment and its decision, with suspects, cases, attempts and attachments. Pure.

A suspect is a correlation in the data, with figures, and never a cause.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import median_low
from typing import Any

from msgspec.structs import replace

from ci_doctor.correctness.report.differences import ALIGNED, counted_results, positions_of
from ci_doctor.correctness.report.findings import archive_use
from ci_doctor.correctness.results import Experiment, StartResult, is_broken, relative
from ci_doctor.correctness.settings import AnswerLevel, Arm
from ci_doctor.correctness.verdict.compare import answering, clusters, explain
from ci_doctor.correctness.verdict.mix_test import MISSING, pattern
from ci_doctor.correctness.verdict.starts import Answer, ArmStart, DifferenceKind, of_arm
from ci_doctor.correctness.verdict.validity import Decision
from ci_doctor.model.binomial import lower_limit, upper_limit
from ci_doctor.model.facts.correctness import (
    AlignedAnswers,
    AnswerFacts,
    AnswerMatrix,
    CorrectnessFacts,
    DeviceFacts,
    DivergencePositions,
    FactDifference,
    Hardness,
    IdentityFacts,
    PromptRegion,
    RequestRow,
    SensitivityFacts,
    StartColumn,
)
from ci_doctor.model.outcome import Attachment, Attempt, Case, CaseOutcome, Verdict, is_green
from ci_doctor.render.formatting import listed

# --- an experiment and its decision as a report's cases, attempts and attachments ---


def cases(
    decision: Decision, requests: Iterable[str], reasons: Mapping[str, str]
) -> tuple[Case, ...]:
    """One case a request; `reasons` holds an error by request id."""
    return tuple(_case(request, decision, reasons.get(request)) for request in requests)


def _case(request: str, decision: Decision, reason: str | None) -> Case:
    kind = decision.kinds.get(request, DifferenceKind.UNANSWERED)
    message = explain(kind)
    if decision.verdict in {Verdict.VOID, Verdict.INFRA, Verdict.FAILED}:
        # Answers that prove nothing must not look like passed tests to a reader that only counts.
        outcome = CaseOutcome.ERROR
        message = decision.reason
    elif kind in {DifferenceKind.EQUAL, DifferenceKind.FLAKY}:
        outcome = CaseOutcome.PASSED
    elif is_green(decision.verdict) and kind is not DifferenceKind.UNANSWERED:
        # The difference is noise to the test, or the policy accepts it.
        outcome = CaseOutcome.PASSED
    elif decision.verdict is Verdict.REGRESSION:
        outcome = CaseOutcome.FAILED
    else:
        outcome = CaseOutcome.ERROR
    return Case(group="requests", name=request, outcome=outcome, message=message, detail=reason)


def attempts(experiment: Experiment, directory: Path) -> tuple[Attempt, ...]:
    """One attempt a start, in the order in which they were made."""
    return tuple(_attempt(result, directory) for result in experiment.results)


def _attempt(result: StartResult, directory: Path) -> Attempt:
    start = result.start
    asked = len(start.answers)
    answered = outcome = f"answered {start.answered}/{asked}"
    if result.cut_short:
        outcome = f"cut short, {answered}"
    elif result.failure is not None:
        # "answered 0/12" would only repeat that the service failed.
        more = f"; {answered}" if start.answered else ""
        outcome = f"{result.failure.message}{more}"
    elif result.warm_up:
        outcome = f"{answered}; not compared"
    return Attempt(
        name="warm-up" if result.warm_up else f"{start.name} {start.arm}",
        outcome=outcome,
        ok=start.answered == asked and result.failure is None and not result.cut_short,
        duration_s=round(result.duration_s, 2),
        log=relative(result.logs[-1], directory) if result.logs else None,
        facts={
            "answered": start.answered,
            "asked": asked,
            "cut_short": result.cut_short,
            "ready_after_s": result.ready_after_s and round(result.ready_after_s, 2),
            "peak_rss": max((each.peak_rss or 0 for each in result.services), default=0) or None,
        },
    )


def attachments(experiment: Experiment, samples: Path, directory: Path) -> tuple[Attachment, ...]:
    """The samples, and the logs of what failed; every other log is named by its attempt."""
    path = relative(samples, directory)
    logs = [
        (log, "the warm-up" if result.warm_up else result.start.name)
        for result in experiment.results
        if result.failure is not None
        for log in result.logs
    ]
    return (
        Attachment(path=path, title="samples", media_type="application/jsonl"),
        *(Attachment(path=relative(log, directory), title=f"log of {of}") for log, of in logs),
    )


# --- the facts of an experiment, from which people get tables and programs figures ---

# Ten thousand requests without a difference have one bound, and need it once.
_MOST_BOUNDS = 100


def facts(
    experiment: Experiment, decision: Decision, differences: Sequence[AlignedAnswers]
) -> CorrectnessFacts:
    """What the evidence shows; `differences` are all, hardest first.

    A caller that knows more replaces `identity` and sets what is None here.
    """
    compared = experiment.compared
    return CorrectnessFacts(
        **answer_facts(experiment, decision, differences, list(decision.kinds)),
        rare_bug_bound=decision.bound,
        bounds=decision.bounds[:_MOST_BOUNDS],
        identity=_identity(experiment),
        ending=str(experiment.ending),
        proof=tuple(
            replace(reading, start=each.start.name) for each in compared for reading in each.proof
        ),
        shared=tuple(
            replace(each.shared, start=each.start.name)
            for each in compared
            if each.shared.count or each.shared.read or each.shared.unseen
        ),
        control=tuple(
            replace(each.control, start=each.name) for each in experiment.starts if each.control
        ),
        sensitivity=tuple(sensitivity(compared)),
        devices=tuple(
            DeviceFacts(start=each.name, devices=each.devices)
            for each in experiment.starts
            if each.devices
        ),
    )


# The error on each side of a 95 % interval.
_SIDE = 0.025


def sensitivity(compared: Sequence[StartResult]) -> Iterator[SensitivityFacts]:
    """How many answers one other word changed, by region and level; what varies by itself shows nothing."""
    altered = [one for each in compared for one in each.altered]
    varying = {level: _varying([each.start for each in compared], level) for level in AnswerLevel}
    for region in PromptRegion:
        for level in AnswerLevel:
            given = [
                getattr(one, level.value)
                for one in altered
                if one.region is region and one.request not in varying[level]
            ]
            if given:
                yield SensitivityFacts(
                    region=region,
                    level=level.value,
                    answers=len(given),
                    changed=sum(given),
                    low=lower_limit(sum(given), len(given), _SIDE),
                    high=upper_limit(sum(given), len(given), _SIDE),
                )


def _varying(starts: Sequence[ArmStart], level: AnswerLevel) -> set[str]:
    """The requests to which two starts of one arm gave different answers."""
    outcomes: dict[tuple[Arm, str], set[Answer]] = {}
    for start in starts:
        for request, answer in start.levels.get(level, {}).items():
            if answer is not None:
                outcomes.setdefault((start.arm, request), set()).add(answer)
    return {request for (_, request), given in outcomes.items() if len(given) > 1}


def answer_facts(
    experiment: Experiment,
    decision: Decision,
    differences: Sequence[AlignedAnswers],
    rows: Sequence[str],
) -> dict[str, Any]:
    """The fields of AnswerFacts, of a run and of collected samples; `rows` are the matrix's requests."""
    starts = experiment.starts
    by_hardness = Counter(each.hardness for each in differences)
    shared = AnswerFacts(
        requests=len(decision.kinds) or max((len(start.answers) for start in starts), default=0),
        starts={str(arm): len(of_arm(starts, arm)) for arm in Arm},
        kinds={str(kind): decision.count(kind) for kind in DifferenceKind},
        clusters=tuple(map(tuple, groups_of(experiment))),
        matrix=_matrix(starts, decision, rows),
        differing={
            f"{one.name}/{other.name}": differing(one, other)
            for one, other in combinations(answering(starts), 2)
        },
        within=within(experiment),
        divergence=_divergence(differences),
        # Softest first: the page draws the bars in this order.
        differences_by={str(each): by_hardness[each] for each in reversed(Hardness)},
        aligned=tuple(differences[:ALIGNED]),
        test=decision.test,
        risk=decision.risk,
        settle=decision.settle,
        suspects=suspects(experiment, differences),
        archived=archive_use(starts),
    )
    return {name: getattr(shared, name) for name in shared.__struct_fields__}


def _matrix(
    starts: Sequence[ArmStart], decision: Decision, requests: Sequence[str]
) -> AnswerMatrix:
    """Who answered what."""
    columns = [
        StartColumn(
            name=start.name,
            arm=str(start.arm),
            archived=start.archived,
            ok=not start.failed,
            answered=start.answered,
            in_part=start.in_part,
        )
        for start in starts
    ]
    rows = [
        RequestRow(
            id=request,
            kind=str(decision.kinds[request]),
            classes=tuple(
                None if each == MISSING else each
                for each in pattern([start.answers.get(request) for start in starts])
            ),
        )
        for request in requests
    ]
    left_out = len(decision.kinds) - len(rows)
    return AnswerMatrix(starts=tuple(columns), requests=tuple(rows), left_out=left_out)


def _divergence(differences: Sequence[AlignedAnswers]) -> DivergencePositions | None:
    """The spread of the positions; None if there are none."""
    unit, positions = positions_of(differences)
    if not positions:
        return None
    return DivergencePositions(
        unit=str(unit),
        positions=tuple(positions),
        min=positions[0],
        # A position that some answer has, and not the middle between two.
        median=median_low(positions),
        max=positions[-1],
    )


def _identity(experiment: Experiment) -> IdentityFacts:
    """The facts of the starts, split into what is the same in all of them and what is not."""
    results = [result for result in counted_results(experiment) if result.facts]
    differences = fact_differences(results)
    first = results[0].facts if results else {}
    return IdentityFacts(
        facts={fact: value for fact, value in first.items() if fact not in differences},
        differences=tuple(
            FactDifference(fact=fact, values=dict(values)) for fact, values in differences.items()
        ),
    )


# --- which starts answered alike, which differ from themselves, and what lines up with that ---

Groups = Sequence[Sequence[str]]


def groups_of(experiment: Experiment) -> Groups:
    """The names of the starts that answered everything alike, group by group."""
    # A1 before A2 before B1, and the archived a1 after A2.
    return [
        sorted(names, key=lambda name: (name[0].upper(), name[0].islower(), int(name[1:])))
        for names in clusters(answering(experiment.starts))
    ]


def differing(one: ArmStart, other: ArmStart) -> int:
    """How many requests two starts answered differently."""
    return sum(answer != other.answers.get(request) for request, answer in one.answers.items())


def varying_requests(result: StartResult) -> int:
    """How many requests a start answered differently in two of its passes."""
    return sum(len(set(passes.values())) > 1 for passes in result.digests.values())


def repeated(result: StartResult) -> bool:
    """Whether a start got a request more than once."""
    return any(len(passes) > 1 for passes in result.digests.values())


def within(experiment: Experiment) -> dict[str, int]:
    """By start, how many requests vary between its passes; only starts with several passes."""
    results = filter(repeated, counted_results(experiment))
    return {result.start.name: varying_requests(result) for result in results}


def fact_differences(results: Sequence[StartResult]) -> dict[str, dict[str, str]]:
    """The facts that differ between starts, in order of name, each with its value by start."""
    # A start without any fact was not looked at: it differs in nothing.
    with_facts = [result for result in results if result.facts]
    facts = sorted({fact for result in with_facts for fact in result.facts})
    values = {
        fact: {result.start.name: result.facts.get(fact, "none") for result in with_facts}
        for fact in facts
    }
    return {fact: by_start for fact, by_start in values.items() if len(set(by_start.values())) > 1}


def lines_up(groups: Groups, values: Mapping[str, str]) -> bool:
    """Whether `values` (by start) are the same inside each group, and differ between groups."""
    columns = [[values[name] for name in group if name in values] for group in groups]
    columns = [column for column in columns if column]
    if any(len(set(column)) > 1 for column in columns):
        return False
    # If every start is a group of its own, any fact that differs would line up. That proves
    # nothing. With two starts there is nothing else to report, so it is.
    if max(map(len, columns), default=0) == 1 and len(columns) != 2:
        return False
    return len({column[0] for column in columns}) > 1


# --- what lines up with the differences, as sentences with figures ---


def suspects(experiment: Experiment, differences: Sequence[AlignedAnswers]) -> tuple[str, ...]:
    """Sentences about the differences, the most telling first.

    None if nothing differs and no start differs from itself.
    """
    results = [result for result in counted_results(experiment) if result.start.answered]
    groups = groups_of(experiment)
    # Passes are compared byte for byte: for another gate they may all be the same.
    is_told_of_passes = experiment.comparison.is_exact or differences
    if not _have_other_answers(results) and any(
        is_broken(error) for result in results for error in result.errors.values()
    ):
        # What differs is which connections broke: that lines up with anything.
        return ()
    return (
        *_swapped(results),
        *_facts(results, groups),
        *(_passes(results, groups) if is_told_of_passes else ()),
    )


def _have_other_answers(results: Iterable[StartResult]) -> bool:
    """Whether a request got two answers, and not only an answer or none."""
    answers: dict[str, set[str]] = {}
    for _, request, digest in _answers(results):
        answers.setdefault(request, set()).add(digest)
    return any(len(each) > 1 for each in answers.values())


def _swapped(results: Sequence[StartResult]) -> Iterator[str]:
    """Answers that are another request's in the first baseline start."""
    reference = next((each for each in results if each.start.arm is Arm.BASELINE), None)
    if reference is None:
        return
    requests: dict[str, set[str]] = {}
    for _, request, digest in _answers([reference]):
        requests.setdefault(digest, set()).add(request)
    # An answer such as "Yes" to two requests belongs to neither.
    owner = {digest: min(of) for digest, of in requests.items() if len(of) == 1}
    swapped: dict[str, str] = {}
    for name, request, digest in _answers(results):
        other = owner.get(digest, request)
        if other != request:
            where = f"{request} in {name} as {other} in {reference.start.name}"
            swapped.setdefault(request, where)
    if swapped:
        count = "1 request was" if len(swapped) == 1 else f"{len(swapped)} requests were"
        yield f"{count} answered as another is: {next(iter(swapped.values()))}"


def _answers(results: Iterable[StartResult]) -> Iterator[tuple[str, str, str]]:
    """Start, request and digest of every answer."""
    for result in results:
        for request, passes in result.digests.items():
            for digest in passes.values():
                yield result.start.name, request, digest


def _facts(results: Sequence[StartResult], groups: Groups) -> Iterator[str]:
    for fact, values in fact_differences(results).items():
        if lines_up(groups, values):
            names: dict[str, list[str]] = {}
            for name, value in values.items():
                names.setdefault(value, []).append(name)
            # `12.4 in A1, 12.5 in B1 A2`
            words = ", ".join(f"{value} in {' '.join(each)}" for value, each in names.items())
            yield f"{fact} lines up with the clusters: {words}"


def _passes(results: Sequence[StartResult], groups: Groups) -> Iterator[str]:
    """Batches and caches vary within a process, the choice of kernels between processes."""
    several = [result for result in results if repeated(result)]
    varying = [result for result in several if varying_requests(result)]
    if varying:
        names = [f"{varying_requests(result)} in {result.start.name}" for result in varying]
        yield (
            f"answers differ between passes of one start ({listed(names, 4)}), as with batching or "
            "what a start keeps from earlier requests"
        )
    # Starts of two arms may differ for the change itself.
    elif (
        several
        and _have_other_answers(several)
        and any(
            # `a1` is an archived start of arm A.
            sum(any(name[0].upper() == arm.letter for name in group) for group in groups) > 1
            for arm in Arm
        )
    ):
        yield (
            "each start repeats itself in all passes, starts differ: "
            "as with kernels chosen once per start"
        )
