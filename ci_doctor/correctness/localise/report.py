# SPDX-License-Identifier: Apache-2.0
"""Where the arms differ, for people and for programs. Pure."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from ci_doctor.correctness import rules
from ci_doctor.correctness.localise.trials import (
    Localisation,
    LocalisedCause,
    LocalisedDifference,
    Trial,
    TrialResult,
    TrialStanding,
    is_of_one,
    one_by_one,
    standing_of,
    words,
)
from ci_doctor.correctness.pace import command_line
from ci_doctor.correctness.results import LOCALISE, SAMPLES, StartResult, relative
from ci_doctor.model.facts.correctness import (
    CorrectnessFacts,
    LocalisationFacts,
    LocalisationStart,
    LocalisationTrial,
)
from ci_doctor.model.outcome import (
    Attachment,
    Evidence,
    Finding,
    Outcome,
    Row,
    ShellCommand,
    Table,
    row,
)
from ci_doctor.render import formatting


def smallest_command(
    localisation: Localisation, trial: Trial, argv: Sequence[str], run: str
) -> str:
    """The command line of a whole run under the condition of a trial, whose verdict is its own.

    `argv` are the words behind `ci-doctor` of this run, `run` its report directory, which the
    command leaves alone.
    """
    more: list[str] = []
    without: list[str] = []
    passes = 1
    if trial.at_once > 1:
        groups = Counter(frozenset(each.names) for each in trial.blocks)
        passes = max(_LEAST_PASSES, *groups.values())
    if localisation.requests_file is not None:
        more += ["--requests", f"{run}/{localisation.requests_file}"]
        without.append("--only")
    elif is_of_one(trial, localisation.subject):
        more += ["--only", trial.names[0]]
        passes = len(trial.blocks)
    more += ["--concurrency", str(trial.at_once), "--passes", str(passes)]
    more += ["--report-dir", f"{run}-smallest", "--no-localise"]
    return command_line(argv, more, without)


# Requests under way at once meet in another order each time.
_LEAST_PASSES = 3

TITLE = "Where it differs"
UNTESTED = "not tested on later sends, what fits all that was sent"

# A third one falls below its row in a terminal of 80 columns.
_COLUMNS = ("result", "differing")

_SPANS = 3


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
    """What the cause rests on, then what each pair of starts was sent, then what qualifies it."""
    conclusion = localisation.conclusion
    rows = [row(words(each), "differs", "the last") for each in _single(conclusion.shown)]
    rows += [row(words(each), "equal", "the last") for each in _single(conclusion.vanished)]
    rows += [_row(each) for each in localisation.results]
    subject = localisation.subject
    # Others may differ too: as noise, or in another way than the request that is localised.
    count = f"{len(subject.differing)} of {len(subject.requests)}"
    if len(subject.differing) < len(subject.requests):
        count += " in the same way"
    passes = "" if subject.passes == 1 else f", {subject.passes} passes"
    run = f"the run: {len(subject.requests)} requests, {subject.concurrency} at once{passes}"
    rows.append(row(run, "differs", f"{count}, in {formatting.amount(subject.pairs, 'pair')}"))
    rows += [Row(label=note) for note in _remarks(localisation)]
    return Table(title=TITLE, columns=_COLUMNS, rows=tuple(rows))


def _single(trials: Sequence[Trial]) -> list[Trial]:
    return [each for each in trials if each.at_once == 1]


def _row(result: TrialResult) -> Row:
    label, standing = words(result.trial), standing_of(result)
    if standing is TrialStanding.NOT_TRIED:
        return row(label, str(standing), None)
    count = f"{len(result.differing)} of {result.compared}"
    places = [place for place, each in enumerate(result.sends, start=1) if each.wrong]
    if result.trial.at_once == 1 and 0 < len(places) < result.compared:
        # As in the rows above, which are of the last send alone.
        where = "the last" if places == [len(result.sends)] else _spans(places)
        count += f" ({where})"
    return row(label, str(standing), count)


def _spans(places: Sequence[int]) -> str:
    """`1, 4 to 7, 9`; after so many, the rest is a sign."""
    spans: list[list[int]] = []
    for each in places:
        if spans and spans[-1][-1] == each - 1:
            spans[-1][1:] = [each]
        else:
            spans.append([each])
    texts = [" to ".join(map(str, each)) for each in spans]
    more = ", …" if len(texts) > _SPANS else ""
    return ", ".join(texts[:_SPANS]) + more


def _remarks(localisation: Localisation) -> Iterator[str]:
    """The conclusion, and what a reader must know beside the results."""
    subject, conclusion = localisation.subject, localisation.conclusion
    if conclusion.cause:
        yield from _fitting(conclusion)
        if not conclusion.vanished:
            yield from (f"equal where the request differs: {each}" for each in conclusion.copies)
        # Of groups, and of a place in answers, equal ones stand in the cause.
        is_single = bool(conclusion.shown) and conclusion.shown[0].at_once == 1
        if is_single and not (conclusion.vanished or conclusion.copies or conclusion.shorts):
            yield "no fresh start was made that lacks just this condition"
    elif localisation.smallest is not None:
        yield "no condition that ci-doctor knows fits all of this"
        yield from (f"equal where the request differs: {each}" for each in conclusion.copies)
    if conclusion.shorts:
        few = formatting.amount(conclusion.shorts, "equal answer")
        yield f"{few} ended before the difference shows in most others, and told nothing"
    yield from _chance(subject, conclusion)
    if localisation.stopped:
        yield f"the search ended early: {localisation.stopped}"
    yield from localisation.notes


def _fitting(conclusion: LocalisedCause) -> Iterator[str]:
    """The cause, what speaks for it, and others that fit."""
    exam = conclusion.exam
    if exam.is_passed:
        sends = formatting.amount(exam.sends, "later send")
        if exam.other:
            counts = f"{exam.differing} differ and {exam.equal} do not, as foretold"
            yield f"foretold for {sends}: {counts}; of {exam.other} the order at once is not known"
        else:
            yield f"foretold for {sends}, {exam.differing} of them to differ, and so it was"
    tested = "" if conclusion.is_tested else ", and was not tested on later sends"
    yield f"what fits all of this{tested}: {conclusion.cause}"
    for each in conclusion.rivals:
        yield f"what fits as well: {each}"


def _chance(subject: LocalisedDifference, conclusion: LocalisedCause) -> Iterator[str]:
    """What the rates show, and how often it does, if not in each start."""
    if conclusion.by_rate:
        yield f"what the rates show: {conclusion.by_rate}"
    if conclusion.noise:
        yield f"not in every start: {conclusion.noise}"
    if not subject.always_differs:
        yield (
            f"in the experiment {subject.request.id} differs in {subject.differing_pairs} of "
            f"{subject.pairs} pairs of starts: `equal` in one pair may be chance"
        )


def localisation_finding(localisation: Localisation, argv: Sequence[str], run: str) -> Finding:
    """The condition of the difference, with the command that makes it again."""
    lines = [f"differs: {words(each)}" for each in localisation.conclusion.shown]
    lines += [f"equal: {words(each)}" for each in localisation.conclusion.vanished]
    lines += _remarks(localisation)
    evidence = (Evidence(excerpt="\n".join(lines)),) if lines else ()
    # If nothing differed again, a person can try the smallest condition of all.
    command = _command(localisation, argv, run) or smallest_command(
        localisation, one_by_one([localisation.subject.request.id]), argv, run
    )
    return rules.LOCALISED.finding(
        _summary(localisation), evidence=evidence, remedy=ShellCommand(command)
    )


def _command(localisation: Localisation, argv: Sequence[str], run: str) -> str | None:
    """The command for the smallest trial that differs; None if there is none."""
    smallest = localisation.smallest
    return smallest_command(localisation, smallest, argv, run) if smallest else None


def _summary(localisation: Localisation) -> str:
    subject, conclusion = localisation.subject, localisation.conclusion
    smallest = localisation.smallest
    if not localisation.has_tried:
        return f"where {subject.request.id} differs is not known: {localisation.stopped}"
    if smallest is None:
        return "no smaller condition differs in one pair of starts, which may be chance"
    noise = f"; not in every start: {conclusion.noise}" if conclusion.noise else ""
    if conclusion.cause is None:
        smaller = [words(each) for each in conclusion.vanished]
        equal = f" (equal: {'; '.join(smaller)})" if smaller else ""
        tried = f"of what was tried, the smallest condition that differs: {words(smallest)}{equal}"
        return f"{conclusion.by_rate}{'; ' * bool(conclusion.by_rate)}{tried}{noise}"
    others = f"; or: {'; or: '.join(conclusion.rivals)}" if conclusion.rivals else ""
    where = "where it differs" if conclusion.is_tested else UNTESTED
    # What the rates show is another, coarser condition: it stands below, and not beside the cause.
    return f"{where}: {conclusion.cause}{others}{noise}"


def localisation_facts(
    localisation: Localisation, argv: Sequence[str], run: str, directory: Path
) -> LocalisationFacts:
    """The same for programs; logs are below `directory`."""
    subject, conclusion = localisation.subject, localisation.conclusion
    smallest = localisation.smallest
    return LocalisationFacts(
        request=subject.request.id,
        pairs=subject.pairs,
        differing_pairs=subject.differing_pairs,
        cause=conclusion.cause if conclusion.is_tested else None,
        untested=None if conclusion.is_tested else conclusion.cause,
        foretold=conclusion.exam.sends,
        foretold_differing=conclusion.exam.differing,
        foretold_otherwise=conclusion.exam.other,
        rivals=conclusion.rivals,
        by_rate=conclusion.by_rate or None,
        noise=conclusion.noise or None,
        conditions=tuple(
            _condition(each, is_foretold=at in conclusion.exam.trials)
            for at, each in enumerate(localisation.results)
        ),
        smallest=words(smallest) if smallest else None,
        without=tuple(map(words, conclusion.vanished)),
        command=_command(localisation, argv, run),
        starts=tuple(_start(each, directory) for each in localisation.starts),
        stopped=localisation.stopped or None,
        notes=localisation.notes,
    )


def _condition(result: TrialResult, *, is_foretold: bool) -> LocalisationTrial:
    return LocalisationTrial(
        condition=words(result.trial),
        result=str(standing_of(result)),
        sent=tuple(block.names for block in result.trial.blocks),
        at_once=result.trial.at_once,
        pause_s=round(result.trial.pause_s, 1),
        differing=tuple(place for place, each in enumerate(result.sends, 1) if each.wrong),
        compared=result.compared,
        untold=result.untold,
        foretold=is_foretold,
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
