# SPDX-License-Identifier: Apache-2.0
"""Where the arms differ, for people and for programs. Pure."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from ci_doctor.correctness import rules
from ci_doctor.correctness.evidence.files import LOCALISE, SAMPLES
from ci_doctor.correctness.evidence.start_record import relative
from ci_doctor.correctness.localise.commands import smallest_command
from ci_doctor.correctness.localise.conditions import (
    LocalisedDifference,
    ReducedCondition,
    ReducedResult,
    ReducedStanding,
)
from ci_doctor.correctness.localise.localisation import Localisation
from ci_doctor.correctness.results import StartResult
from ci_doctor.model.facts.correctness import CorrectnessFacts
from ci_doctor.model.facts.localisation import (
    LocalisationFacts,
    LocalisationStart,
    ReducedConditionFacts,
)
from ci_doctor.model.finding import Evidence, Finding, ShellCommand
from ci_doctor.model.outcome import Attachment, Outcome
from ci_doctor.model.table import Row, Table, row

TITLE = "Where it differs"
_COLUMNS = ("result", "differing", "pairs")


def with_localisation(
    outcome: Outcome, localisation: Localisation, argv: Sequence[str], run: str, directory: Path
) -> Outcome:
    """The outcome of an experiment with what localising its difference showed.

    `argv` are the words behind `ci-doctor` of the run, `run` its report directory as a person types
    it, and `directory` the same as a path. The verdict stays.
    """
    facts = outcome.facts
    if isinstance(facts, CorrectnessFacts):
        localised = localisation_facts(localisation, argv, run, directory)
        facts = replace(facts, localisation=localised)
    finding = localisation_finding(localisation, argv, run)
    return replace(
        outcome,
        tables=(*outcome.tables, localisation_table(localisation)),
        # Next to that of the verdict, which comes first.
        findings=(*outcome.findings[:1], finding, *outcome.findings[1:]),
        attachments=(*outcome.attachments, *_attachments(localisation)),
        facts=facts,
    )


def _attachments(localisation: Localisation) -> Iterator[Attachment]:
    if localisation.starts:
        yield Attachment(
            path=f"{LOCALISE}/{SAMPLES}",
            title="samples of where it differs",
            media_type="application/jsonl",
        )


def localisation_table(localisation: Localisation) -> Table:
    """A row for each condition, then what qualifies them."""
    rows = [_row(each, localisation.subject) for each in _shown(localisation)]
    rows += [Row(label=note) for note in _remarks(localisation)]
    return Table(title=TITLE, columns=_COLUMNS, rows=tuple(rows))


def _shown(localisation: Localisation) -> list[ReducedResult]:
    """The results of fresh starts, and those of the experiment: nothing else is certain.

    Of the passes of one condition, those at the border. A start that got other requests before has
    only told what to try.
    """
    passes: dict[ReducedCondition, list[ReducedResult]] = {}
    for each in sorted(localisation.results, key=lambda each: each.condition.size):
        if each.fresh:
            passes.setdefault(replace(each.condition, passes=1), []).append(each)
    shown = [result for group in passes.values() for result in _border(group)]
    return sorted(shown, key=lambda each: each.condition.size)


def _border(results: Sequence[ReducedResult]) -> Iterator[ReducedResult]:
    """The first pass, the first that differs with the one before it, and what the experiment did."""
    differing = [place for place, each in enumerate(results) if each.differs]
    border = differing[0] if differing else len(results) - 1
    # After a pass that differs, one that does not tells that it takes a fresh start.
    ends = next(
        (place for place in range(border, len(results)) if not results[place].differs), None
    )
    for place, each in enumerate(results):
        if place in {0, border - 1, border, ends} or each.pairs == 0:
            yield each


def _row(result: ReducedResult, subject: LocalisedDifference) -> Row:
    label = subject.words(result.condition)
    standing = str(result.standing)
    if result.standing is ReducedStanding.NOT_TRIED:
        return row(label, standing, None, None)
    if result.why:
        standing = f"{standing}: {result.why}"
    count = f"{len(result.differing)} of {result.compared}"
    return row(label, standing, count, result.pairs or subject.pairs)


def _remarks(localisation: Localisation) -> Iterator[str]:
    """What a reader must know beside the results."""
    subject = localisation.subject
    yield from _conclusions(localisation)
    if not subject.always_differs:
        yield (
            f"in the experiment {subject.request.id} differs in {subject.differing_pairs} of "
            f"{subject.pairs} pairs of starts: `equal` in one pair may be chance"
        )
    if localisation.stopped:
        yield f"the search ended early: {localisation.stopped}"
    yield from localisation.notes


def _conclusions(localisation: Localisation) -> Iterator[str]:
    """What two conditions together tell."""
    subject = localisation.subject
    name = subject.request.id
    alone = {each.condition: each for each in localisation.results if each.fresh and each.pairs}
    for condition, result in alone.items():
        before = condition.before
        if condition.request != name or not before:
            continue
        again = alone.get(replace(subject.alone, passes=len(before) + 1))
        rival = alone.get(ReducedCondition(request=before[0]))
        if again and again.differs and result.differs:
            yield f"it takes {len(before)} requests before {name}: the same or others"
        elif again and again.differs:
            yield f"it takes {name} itself before {name}: other requests are not enough"
        elif rival and rival.differs and not result.differs:
            yield f"the first answer of a start differs, to {name} as to {before[0]}"


def localisation_finding(localisation: Localisation, argv: Sequence[str], run: str) -> Finding:
    """The smallest condition that still differs, with the command that makes it again."""
    lines = [*_equal(localisation), *_remarks(localisation)]
    evidence = (Evidence(excerpt="\n".join(lines)),) if lines else ()
    # If nothing was tried, a person can try the smallest condition of all.
    command = _command(localisation, argv, run) or smallest_command(
        localisation, localisation.subject.alone, argv, run
    )
    return rules.LOCALISED.finding(
        _summary(localisation), evidence=evidence, remedy=ShellCommand(command)
    )


def _command(localisation: Localisation, argv: Sequence[str], run: str) -> str | None:
    """The command for the smallest condition; None if nothing was tried."""
    if localisation.smallest is None or not localisation.has_tried:
        return None
    return smallest_command(localisation, localisation.smallest.condition, argv, run)


def _summary(localisation: Localisation) -> str:
    subject, smallest = localisation.subject, localisation.smallest
    if smallest is None or not localisation.has_tried:
        return f"where {subject.request.id} differs is not known: {localisation.stopped}"
    if smallest.pairs == 0 and not subject.always_differs:
        return "no smaller condition differs in one pair of starts, which may be chance"
    # What was not tried may be smaller.
    words = subject.words(smallest.condition)
    return f"of what was tried, the smallest condition that still differs: {words}"


def _equal(localisation: Localisation) -> Iterator[str]:
    """The conditions that make the difference vanish."""
    for result in _shown(localisation):
        if result.standing is ReducedStanding.EQUAL:
            yield f"{result.standing}: {localisation.subject.words(result.condition)}"


def localisation_facts(
    localisation: Localisation, argv: Sequence[str], run: str, directory: Path
) -> LocalisationFacts:
    """The same for programs, every length of the prompt included; logs are below `directory`."""
    smallest = localisation.smallest
    subject = localisation.subject
    return LocalisationFacts(
        request=subject.request.id,
        pairs=subject.pairs,
        differing_pairs=subject.differing_pairs,
        conditions=tuple(
            _condition(each, subject)
            for each in sorted(localisation.results, key=lambda each: each.condition.size)
        ),
        smallest=subject.words(smallest.condition) if smallest else None,
        confirmed=smallest is not None and smallest.pairs > 0,
        command=_command(localisation, argv, run),
        starts=tuple(_start(each, directory) for each in localisation.starts),
        stopped=localisation.stopped or None,
        notes=localisation.notes,
    )


def _condition(result: ReducedResult, subject: LocalisedDifference) -> ReducedConditionFacts:
    condition = result.condition
    return ReducedConditionFacts(
        condition=subject.words(condition),
        result=str(result.standing),
        request=condition.request,
        before=condition.before,
        beside=condition.beside,
        prefix=condition.prefix,
        without=condition.without,
        concurrency=condition.concurrency,
        passes=condition.passes,
        fresh=result.fresh,
        differing=result.differing,
        compared=result.compared,
        pairs=result.pairs,
        why=result.why or None,
    )


def _start(result: StartResult, directory: Path) -> LocalisationStart:
    failure = result.failure
    log = relative(result.logs[-1], directory) if result.logs else None
    return LocalisationStart(
        start=result.start.name,
        duration_s=round(result.duration_s, 2),
        log=log,
        failure=failure.message if failure else None,
        cut_short=result.cut_short,
    )
