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
    outcome: Outcome, found: Localisation, argv: Sequence[str], run: str, directory: Path
) -> Outcome:
    """The outcome of an experiment with what localising its difference showed.

    `argv` are the words behind `ci-doctor` of the run, `run` its report directory as a person types
    it, and `directory` the same as a path. The verdict stays.
    """
    facts = outcome.facts
    if isinstance(facts, CorrectnessFacts):
        localised = localisation_facts(found, argv, run, directory)
        facts = replace(facts, localisation=localised)
    finding = localisation_finding(found, argv, run)
    return replace(
        outcome,
        tables=(*outcome.tables, localisation_table(found)),
        # Next to that of the verdict, which comes first.
        findings=(*outcome.findings[:1], finding, *outcome.findings[1:]),
        attachments=(*outcome.attachments, *_attachments(found)),
        facts=facts,
    )


def _attachments(found: Localisation) -> Iterator[Attachment]:
    if found.starts:
        yield Attachment(
            path=f"{LOCALISE}/{SAMPLES}",
            title="samples of where it differs",
            media_type="application/jsonl",
        )


def localisation_table(found: Localisation) -> Table:
    """A row for each condition, then what qualifies them."""
    rows = [_row(each, found.subject) for each in _shown(found)]
    rows += [Row(label=note) for note in _remarks(found)]
    return Table(title=TITLE, columns=_COLUMNS, rows=tuple(rows))


def _shown(found: Localisation) -> Iterator[ReducedResult]:
    """The results up to the smallest that differs, and those of the experiment.

    Of the lengths of a prompt, those at the border.
    """
    smallest = found.smallest
    results = []
    for each in found.results:
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


def _remarks(found: Localisation) -> Iterator[str]:
    """What a reader must know beside the results."""
    subject = found.subject
    if not subject.always_differs:
        yield (
            f"in the experiment {subject.request.id} differs in {subject.differing_pairs} of "
            f"{subject.pairs} pairs of starts: `equal` in one pair may be chance"
        )
    if found.stopped:
        yield f"the search ended early: {found.stopped}"
    yield from found.notes


def localisation_finding(found: Localisation, argv: Sequence[str], run: str) -> Finding:
    """The smallest condition that still differs, with the command that makes it again."""
    lines = [*_equal(found), *_remarks(found)]
    evidence = (Evidence(excerpt="\n".join(lines)),) if lines else ()
    # If nothing was tried, a person can try the smallest condition of all.
    command = _command(found, argv, run) or smallest_command(found, found.subject.alone, argv, run)
    return rules.LOCALISED.finding(_summary(found), evidence=evidence, remedy=ShellCommand(command))


def _command(found: Localisation, argv: Sequence[str], run: str) -> str | None:
    """The command for the smallest condition; None if nothing was tried."""
    if found.smallest is None or not found.has_tried:
        return None
    return smallest_command(found, found.smallest.condition, argv, run)


def _summary(found: Localisation) -> str:
    subject, smallest = found.subject, found.smallest
    if smallest is None or not found.has_tried:
        return f"where {subject.request.id} differs is not known: {found.stopped}"
    if smallest.pairs == 0 and not subject.always_differs:
        return "no smaller condition differs in one pair of starts, which may be chance"
    unconfirmed = "" if smallest.fresh else " (not confirmed in a fresh start)"
    words = subject.words(smallest.condition)
    # What was not tried may be smaller.
    which = "of what was tried, the smallest" if found.stopped else "the smallest"
    return f"{which} condition that still differs: {words}{unconfirmed}"


def _equal(found: Localisation) -> Iterator[str]:
    """The conditions that make the difference vanish."""
    for result in _shown(found):
        if result.standing is ReducedStanding.EQUAL:
            yield f"{result.standing}: {found.subject.words(result.condition)}"


def localisation_facts(
    found: Localisation, argv: Sequence[str], run: str, directory: Path
) -> LocalisationFacts:
    """The same for programs, every length of the prompt included; logs are below `directory`."""
    smallest = found.smallest
    subject = found.subject
    return LocalisationFacts(
        request=subject.request.id,
        pairs=subject.pairs,
        differing_pairs=subject.differing_pairs,
        conditions=tuple(_condition(each, subject) for each in sorted(found.results, key=_order)),
        smallest=subject.words(smallest.condition) if smallest else None,
        confirmed=smallest is not None and smallest.fresh,
        command=_command(found, argv, run),
        starts=tuple(_start(each, directory) for each in found.starts),
        stopped=found.stopped or None,
        notes=found.notes,
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
