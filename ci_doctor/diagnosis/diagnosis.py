# SPDX-License-Identifier: Apache-2.0
"""Reads all logs of a job together, names the root cause of its failure, and makes an outcome of it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import cache, partial
from pathlib import Path

from msgspec import Struct, structs

from ci_doctor.diagnosis.conclusion import (
    as_sure_as_the_logs,
    consequences,
    failed_stories,
    innermost,
    named_cause,
    other_candidates,
    place_of,
    possible_consequences,
    subject_of,
    without_repetitions,
)
from ci_doctor.diagnosis.finality import ending_of, was_before
from ci_doctor.diagnosis.good_run import GoodRun, last_new_lines, only_new_line, read_good_run
from ci_doctor.diagnosis.log_rules import LAST_OUTPUT, LOGGED_EXCEPTION, RuleSet, house_rules
from ci_doctor.diagnosis.log_story import LogStory, read_story
from ci_doctor.diagnosis.log_text import LogText, clean_line, excerpt_around
from ci_doctor.diagnosis.open_log import expand, open_logs
from ci_doctor.diagnosis.outside import RETRIED, judged
from ci_doctor.diagnosis.rank import (
    Calibration,
    Candidate,
    calibration,
    examined,
    nearly_strongest,
    rank,
    with_times,
)
from ci_doctor.diagnosis.rules import NO_CAUSE, UNREADABLE_LOG, rule_of
from ci_doctor.model.cause import OF_CHANGE, Cause, FailureClass, LogLine, Owner
from ci_doctor.model.facts.diagnose import DiagnoseFacts, LogLines
from ci_doctor.model.outcome import Evidence, Finding, Outcome, Table, Verdict, row, share
from ci_doctor.render.formatting import percent
from ci_doctor.system.processes.process import describe_status
from ci_doctor.system.secrets.private_keys import shortened_words

# Blank lines may follow the last words.
_LAST_LINES = 10_000
# Above an assertion stands the code of its test.
_LINES_OF_TEST = 120


class Diagnosis(Struct, frozen=True, kw_only=True):
    """What the logs of a job say.

    cause: None without a good candidate. best: where to look first, if there is anything at all,
    and `excerpt` the lines around it; ends_traceback: it is the exception of a traceback, whose
    frames stand before it. others: the next candidates, if there is a cause, of other
    kinds than the cause. logs: those that were read. unreadable: from the others to the reason.
    in_part: from logs, folders and patterns of which something is missing to the reason.
    ended_well: all logs report success at their end, and no failed step. n_candidates: how many
    lines may be the cause. status: as of `diagnosis_of`.
    """

    cause: Cause | None
    best: LogLine | None = None
    ends_traceback: bool = False
    excerpt: LogLines | None = None
    others: tuple[LogLine, ...] = ()
    logs: tuple[str, ...]
    unreadable: dict[str, str] = {}
    in_part: dict[str, str] = {}
    ended_well: bool = False
    n_candidates: int = 0
    status: int | None = None


@cache
def load_rules(own: tuple[Path, ...] = ()) -> RuleSet:
    """The rules of ci-doctor and of a repository; raises ConfigError if `own` has a mistake."""
    house = (*house_rules(), LAST_OUTPUT, LOGGED_EXCEPTION)
    if not own:
        return RuleSet(house)
    # Only a repository's rules are checked at run time, which takes longer than reading them.
    from ci_doctor.diagnosis.log_rules import repository_rules

    taken = {rule.id for rule in house}
    return RuleSet(house, repository_rules(own, taken))


def diagnose(
    names: Sequence[str],
    rules: RuleSet,
    baseline: Sequence[str] = (),
    on_open: Callable[[LogText], None] = lambda _: None,
    status: int | None = None,
) -> Diagnosis:
    """The cause of the failure that the logs `names` tell of (paths, or `-`).

    baseline: logs of a good run; lines that stand there too explain nothing. on_open gets each log
    before it is read. status: as of `diagnosis_of`.
    """
    with ExitStack() as stack:
        unreadable: dict[str, str] = {}
        logs = _opened(names, stack, unreadable)
        good = _opened(baseline, stack, unreadable)
        for log in (*logs, *good):
            on_open(log)
        diagnosis = diagnose_logs(logs, rules, good, status)
        return structs.replace(diagnosis, unreadable=unreadable)


def diagnose_logs(
    logs: Sequence[LogText],
    rules: RuleSet,
    baseline: Sequence[LogText] = (),
    status: int | None = None,
) -> Diagnosis:
    """The same for logs that are open."""
    stories = [read_story(log, index, rules) for index, log in enumerate(logs)]
    good = read_good_run(baseline, rules, logs) if baseline else None
    return diagnosis_of(stories, logs, good, status)


def diagnosis_of(
    stories: Sequence[LogStory],
    logs: Sequence[LogText],
    good: GoodRun | None = None,
    status: int | None = None,
) -> Diagnosis:
    """The same for logs that are read: one of `stories` for each of `logs`.

    status: the exit status of the command, or the negative number of the signal that ended it; None
    if nobody knows. With 0 no cause is named, and with any other the best candidate is.
    """
    plain = _told_by_logs(stories, logs, good, calibration(), status)
    if not status:
        cause = plain.cause if status is None else None
        return structs.replace(plain, cause=cause, status=status)
    whatever = structs.replace(calibration(), least=0.0)
    failed = failed_stories(stories, logs, status)
    diagnosis = _told_by_logs(failed, logs, good, whatever, status)
    cause = as_sure_as_the_logs(diagnosis.cause, plain.cause)
    return structs.replace(diagnosis, cause=cause, status=status)


def _told_by_logs(
    stories: Sequence[LogStory],
    logs: Sequence[LogText],
    good: GoodRun | None,
    calibrated: Calibration,
    status: int | None,
) -> Diagnosis:
    """What `stories` tell by themselves."""
    ranked = ranking(stories, logs, good)
    names = [log.name for log in logs]
    if good is not None:
        ranked, calibrated = _beside_good_run(ranked, stories, logs, good, calibrated)
    cause = named_cause(ranked, names, calibrated, partial(_subject, logs))
    if cause is not None:
        first, *others = ranked
        possible = possible_consequences(first, others)
        if len(logs) > 1 and possible:
            first, *possible = with_times([first, *possible], logs)
        follows = tuple(place_of(each, names) for each in consequences(first, possible))
        cause = structs.replace(cause, consequences=follows)
        ending = ending_of(ranked, stories, logs, status)
        cause = judged(cause, is_outside=ending.is_outside, is_final=ending.is_final)
    diagnosis = Diagnosis(
        cause=cause,
        others=other_candidates(ranked, names),
        logs=tuple(names),
        ended_well=bool(stories) and all(story.has_ended_well for story in stories),
        n_candidates=len(ranked),
    )
    return _with_best(diagnosis, ranked, logs, good)


def _beside_good_run(
    ranked: list[Candidate],
    stories: Sequence[LogStory],
    logs: Sequence[LogText],
    good: GoodRun,
    calibrated: Calibration,
) -> tuple[list[Candidate], Calibration]:
    """`ranked` with the only new line first, if there is one; that is named however weak it is."""
    new = only_new_line(stories, logs, good)
    if new is None:
        return ranked, calibrated
    others = [each for each in ranked if each.line != new.line]
    return [*rank([new]), *others], structs.replace(calibrated, least=0.0)


def ranking(
    stories: Sequence[LogStory], logs: Sequence[LogText], good: GoodRun | None = None
) -> list[Candidate]:
    """The candidates of all `stories`, the probable cause first."""
    candidates = [each for story in stories for each in story.candidates]
    if good is not None:
        candidates = [
            structs.replace(each, in_good_run=good.normal(each.clean.message) in good.hits)
            for each in candidates
        ]
    ranked = examined(candidates, logs)
    # One log is in order by itself.
    if len(logs) > 1:
        near = nearly_strongest(ranked)
        timed = with_times(near, logs)
        ranked = [*rank(timed), *ranked[len(near) :]]
    ranked = without_repetitions(_from_the_innermost(ranked, logs))
    return _by_what_decides(ranked, stories, logs)


def _by_what_decides(
    ranked: list[Candidate], stories: Sequence[LogStory], logs: Sequence[LogText]
) -> list[Candidate]:
    """`ranked`, but first what the change did if that stands beside what would ask for a retry.

    The exit status rests on it: a job whose test failed does not pass by a disk with more space.
    """
    if not ranked or ranked[0].rule.class_ not in RETRIED:
        return ranked
    blocker = ending_of(ranked, stories, logs).blocker
    if blocker is None or blocker.rule.class_ not in OF_CHANGE:
        return ranked
    # What a tool says below may follow from the outage: `error: no model`.
    is_own = blocker.standing is not None or blocker.rule.class_ is FailureClass.TEST_ASSERTION
    if not is_own and not was_before(blocker, ranked[0]):
        return ranked
    index = ranked.index(blocker)
    # pytest shows in it what a test raised, in the words of the first.
    raised = [
        each
        for each in ranked
        if (each.log, each.rule.id) == (ranked[0].log, ranked[0].rule.id)
        and each.clean.message.startswith("E  ")
    ]
    if blocker.rule.class_ is FailureClass.TEST_ASSERTION and raised:
        # The line that says what the test met, not the one that names the test.
        others = [each for each in ranked if each is not raised[0]]
        return [structs.replace(raised[0], rule=blocker.rule), *others]
    return [ranked[index], *ranked[:index], *ranked[index + 1 :]]


def _from_the_innermost(ranked: list[Candidate], logs: Sequence[LogText]) -> list[Candidate]:
    """`ranked` with the innermost cause of the first in its place."""
    if not ranked:
        return ranked
    first = ranked[0]
    inner = innermost(first, ranked, logs[first.log])
    if inner is first:
        return ranked
    others = [each for each in ranked[1:] if each is not inner]
    # Its points are those of the chain.
    return [structs.replace(inner, points=first.points, reasons=first.reasons), *others]


def _subject(logs: Sequence[LogText], candidate: Candidate) -> str:
    before = logs[candidate.log].before(candidate.line, _LINES_OF_TEST)
    messages = [clean_line(line.content).message for line in before]
    return subject_of(candidate.clean.message, messages)


def _opened(names: Sequence[str], stack: ExitStack, unreadable: dict[str, str]) -> list[LogText]:
    logs = []
    for name in names:
        try:
            opened, missing = stack.enter_context(open_logs(name))
            logs.extend(opened)
            unreadable.update(missing)
        except OSError as error:
            unreadable[name] = error.strerror or str(error)
    return logs


def _with_best(
    diagnosis: Diagnosis, ranked: Sequence[Candidate], logs: Sequence[LogText], good: GoodRun | None
) -> Diagnosis:
    """`diagnosis` with the place to look at first, and the lines around it."""
    places = [(each.log, each.line, each.ends_traceback) for each in ranked[:1]]
    # Everything that looks like a failure was there in the good run too.
    if good is not None and (not ranked or ranked[0].in_good_run):
        new = ((index, last_new_lines(log, good)) for index, log in enumerate(logs))
        places = [(index, line, False) for index, line in new if line is not None] + places
    # The last line of the first log that has any words.
    places += [
        (index, line, False)
        for index, log in enumerate(() if places else logs)
        for line in reversed(log.tail(_LAST_LINES))
        if line.content.strip()
    ]
    if not places:
        return diagnosis
    log, line, ends_traceback = places[0]
    excerpt = excerpt_around(logs[log], line)
    best = LogLine(
        file=logs[log].name,
        line=line.number,
        text=excerpt.lines[excerpt.marked],
        message=excerpt.messages[excerpt.marked],
    )
    return structs.replace(diagnosis, best=best, ends_traceback=ends_traceback, excerpt=excerpt)


class DiagnoseRequest(Struct, frozen=True, kw_only=True):
    """logs: names of those of the failed job. baseline: of a good run. rules: a repository's own.

    status: as of `diagnosis_of`.
    """

    logs: tuple[str, ...]
    baseline: tuple[str, ...] = ()
    rules: tuple[Path, ...] = ()
    status: int | None = None


def run(request: DiagnoseRequest, tell: Callable[[str], None] = lambda _: None) -> Diagnosis:
    """The diagnosis that `request` asks for; `tell` gets how far each log is read.

    Raises ConfigError if a rules file has a mistake.
    """
    rules = load_rules(request.rules)
    logs = expand(request.logs)
    good = expand(request.baseline)
    damaged: dict[str, str] = {}

    def on_open(log: LogText) -> None:
        log.on_read = lambda count: tell(
            f"reading {log.name}, {percent(round(count / log.size, 2))}"
        )
        if log.problem:
            damaged[log.name] = log.problem

    diagnosis = diagnose(logs.names, rules, good.names, on_open, request.status)
    missing = {
        **logs.unreadable,
        **good.unreadable,
        **logs.skipped,
        **good.skipped,
        **diagnosis.unreadable,
    }
    in_part = {**logs.limited, **good.limited, **damaged}
    return structs.replace(diagnosis, unreadable=missing, in_part=in_part)


# --- from a diagnosis to an outcome: a finding about the cause, tables and facts ---


_SUMMARY_CHARACTERS = 300
# A log that seems calm says less than the status of its command.
_GIVE_STATUS = (
    "If the command failed, add `--status N`, its exit status: then the best candidate is named."
)


def outcome_of(diagnosis: Diagnosis) -> Outcome:
    """The outcome of `diagnosis`.

    The first evidence of its first finding is the root line, or else the best place to begin; the
    second one is the excerpt around it, in which `> ` marks the line.
    """
    cause = diagnosis.cause
    # What a rule of a repository captures may be half of a secret, which nobody would know as one.
    shown = None if cause is None else structs.replace(cause, fields={})
    facts = DiagnoseFacts(
        root_cause=shown,
        excerpt=diagnosis.excerpt,
        others=diagnosis.others,
        logs=diagnosis.logs,
        unreadable={**diagnosis.unreadable, **diagnosis.in_part},
        exit_status=diagnosis.status,
    )
    return Outcome(
        # Without a line with words, nothing was there to judge.
        verdict=None if diagnosis.best is not None else Verdict.VOID,
        summary=_summary(diagnosis),
        findings=tuple(_findings(diagnosis)),
        tables=tuple(_tables(facts)),
        facts=facts,
    )


def _summary(diagnosis: Diagnosis) -> str:
    cause = diagnosis.cause
    if not diagnosis.logs:
        return "no log could be read"
    if diagnosis.best is None:
        return "the logs end in blank lines, and no line of them names a cause"
    if cause is not None:
        text = shortened_words(cause.place.message, _SUMMARY_CHARACTERS)
        sure = f"{percent(round(cause.confidence or 0.0, 2))} sure"
        return f"{cause.title}, {sure}: {cause.where}: {text}"
    return f"no cause is named: {_why_none(diagnosis)}"


def _why_none(diagnosis: Diagnosis) -> str:
    """What is known of logs without a cause, and of the exit status of their command."""
    if diagnosis.status is not None:
        ended = f"the command ended with {describe_status(diagnosis.status)}"
        return ended if diagnosis.status == 0 else f"no line tells why {ended}"
    if diagnosis.ended_well:
        error = "" if diagnosis.n_candidates else ", and no line is an error"
        return f"the last outcome in the logs is a success{error}"
    return "no line of the logs has enough weight"


def _findings(diagnosis: Diagnosis) -> Iterator[Finding]:
    cause, best = diagnosis.cause, diagnosis.best
    holds_nothing = diagnosis.status == 0
    if diagnosis.status is None:
        holds_nothing = diagnosis.ended_well and diagnosis.n_candidates == 0
    if cause is not None:
        sentences = [cause.explanation, cause.remedy, cause.about_retry]
        if cause.next_command is not None:
            sentences.append(f"`{cause.next_command}` goes on from here.")
        others = tuple(place.evidence for place in cause.consequences)
        yield rule_of(cause.class_).finding(
            f"{cause.title}: {shortened_words(cause.place.message, _SUMMARY_CHARACTERS)}",
            evidence=(*_places(cause.place, diagnosis.excerpt), *others),
            remedy=" ".join(filter(None, sentences)),
        )
    elif best is not None and not holds_nothing:
        summary = "no line names a cause; this is the best place to begin"
        evidence = _places(best, diagnosis.excerpt)
        remedy = NO_CAUSE.remedy
        if diagnosis.status is None:
            remedy = f"{_GIVE_STATUS} {remedy}"
        yield NO_CAUSE.finding(summary, evidence=evidence, remedy=remedy)
    for words, reasons in (
        ("cannot be read", diagnosis.unreadable),
        ("is read in part", diagnosis.in_part),
    ):
        for name, reason in reasons.items():
            evidence = (Evidence(file=name),)
            yield UNREADABLE_LOG.finding(f"{name} {words}: {reason}", evidence=evidence)


def _places(place: LogLine, excerpt: LogLines | None) -> tuple[Evidence, ...]:
    """The line itself, then the lines around it."""
    if excerpt is None:
        return (place.evidence,)
    marked = [
        (("> " if index == excerpt.marked else "  ") + text).rstrip()
        for index, text in enumerate(excerpt.lines)
    ]
    first = excerpt.first_line
    last = first + len(marked) - 1
    around = Evidence(file=place.file, line=first, end_line=last, excerpt="\n".join(marked))
    return place.evidence, around


def _tables(facts: DiagnoseFacts) -> Iterator[Table]:
    cause = facts.root_cause
    if cause is not None:
        rows = [
            row("class", cause.title),
            row("confidence", share(round(cause.confidence or 0.0, 2))),
            row("another run", cause.about_retry),
            row("rests on", ", ".join(cause.reasons)),
            row("fingerprint", cause.fingerprint),
        ]
        if cause.against:
            rows.insert(-1, row("against it", "; ".join(cause.against)))
        if cause.owner is not Owner.UNKNOWN:
            rows.insert(1, row("who acts", cause.owner.words))
        if facts.exit_status is not None:
            rows.append(row("the command", describe_status(facts.exit_status)))
        yield Table(title="The cause", rows=tuple(rows))
    if facts.others:
        others = tuple(row(each.where, each.message) for each in facts.others)
        name = "Where else to look" if cause is None else "What else it may be"
        yield Table(title=name, rows=others)
