# SPDX-License-Identifier: Apache-2.0
"""Where the arms differ, for people and for programs. Pure."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from msgspec.structs import replace

from ci_doctor.correctness import rules
from ci_doctor.correctness.evidence.files import LOCALISE, SAMPLES
from ci_doctor.correctness.evidence.start_record import relative
from ci_doctor.correctness.localise.commands import smallest_command
from ci_doctor.correctness.localise.conditions import (
    LocalisedDifference,
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


def _shown(localisation: Localisation) -> Iterator[ReducedResult]:
    """The results up to the smallest that differs, and those of the experiment.

    Of the lengths of a prompt, those at the border.
    """
    smallest = localisation.smallest
    results = []
    for each in localisation.results:
        if each.pairs == 0 or smallest is None or _order(each) <= _order(smallest):
            results.append(each)  # noqa: PERF401 - one thought a line
    ordered = sorted(results, key=_order)
    for key, group in groupby(ordered, key=_order_without_length):
        results = list(group)
        is_alone = not key[0]
        yield from _border(results) if is_alone else results


def _order(result: ReducedResult) -> tuple[bool, int, int, float]:
    return result.condition.size


def _order_without_length(result: ReducedResult) -> tuple[bool, int, int]:
    return result.condition.size[:3]


def _border(results: Sequence[ReducedResult]) -> Iterator[ReducedResult]:
    """The shortest prompt that differs, the next shorter one, and the whole prompt."""
    differing = [place for place, each in enumerate(results) if each.differs and not each.doubted]
    # Without a difference the longest of the shortened ones tells most.
    border = differing[0] if differing else len(results) - 2
    for place, each in enumerate(results):
        if place in {border - 1, border} or each.condition.prefix is None:
            yield each


def _row(result: ReducedResult, subject: LocalisedDifference) -> Row:
    label = subject.words(result.condition)
    standing = str(result.standing)
    if result.standing is ReducedStanding.NOT_TRIED:
        return row(label, standing, None, None)
    if result.why:
        standing = f"{standing}: {result.why}"
    elif result.differs and not result.fresh:
        standing = f"{standing}, not fresh"
    count = f"{len(result.differing)} of {result.compared}"
    return row(label, standing, count, result.pairs or subject.pairs)


def _remarks(localisation: Localisation) -> Iterator[str]:
    """What a reader must know beside the results."""
    subject = localisation.subject
    if not subject.always_differs:
        yield (
            f"in the experiment {subject.request.id} differs in {subject.differing_pairs} of "
            f"{subject.pairs} pairs of starts: `equal` in one pair may be chance"
        )
    if localisation.stopped:
        yield f"the search ended early: {localisation.stopped}"
    yield from localisation.notes


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
    unconfirmed = "" if smallest.fresh else " (not confirmed in a fresh start)"
    words = subject.words(smallest.condition)
    # What was not tried may be smaller.
    which = "of what was tried, the smallest" if localisation.stopped else "the smallest"
    return f"{which} condition that still differs: {words}{unconfirmed}"


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
            _condition(each, subject) for each in sorted(localisation.results, key=_order)
        ),
        smallest=subject.words(smallest.condition) if smallest else None,
        confirmed=smallest is not None and smallest.fresh,
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
        prefix=condition.prefix,
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
