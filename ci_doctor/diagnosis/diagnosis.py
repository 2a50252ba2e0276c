# SPDX-License-Identifier: Apache-2.0
"""Reads all logs of a job together and names the root cause of its failure."""

from collections.abc import Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path

from msgspec import Struct, structs

from ci_doctor.diagnosis.candidate import Candidate
from ci_doctor.diagnosis.confidence import LEAST, confidence
from ci_doctor.diagnosis.excerpt import LogExcerpt, excerpt_around
from ci_doctor.diagnosis.failure_class import FailureClass
from ci_doctor.diagnosis.fingerprint import fingerprint
from ci_doctor.diagnosis.good_run import compared, texts_of_good_run
from ci_doctor.diagnosis.log_rule import Role
from ci_doctor.diagnosis.log_story import LogStory, read_story
from ci_doctor.diagnosis.rank import Ranked, nearly_strongest, rank
from ci_doctor.diagnosis.reading.log_text import LogText, TextLine
from ci_doctor.diagnosis.reading.open_log import open_log
from ci_doctor.diagnosis.rule_files import house_rules, repository_rules
from ci_doctor.diagnosis.rule_set import RuleSet
from ci_doctor.diagnosis.times import with_times

_CONSEQUENCES = 5
_OTHERS = 5


class LogPlace(Struct, frozen=True, kw_only=True):
    """A line of a log: `line` is 1-based, `text` is cleaned.

    ends_traceback: the line is the exception of a traceback, whose frames stand before it.
    """

    log: str
    line: int
    text: str
    ends_traceback: bool = False


class Cause(Struct, frozen=True, kw_only=True):
    """The line that explains a failure.

    rule: the id of its log rule. confidence: how probable it is that this is the cause, 0 to 1.
    reasons: what that rests on. is_outside: the line shows that the cause lies outside the change.
    fingerprint: the same for the same cause in another build. fields: the rule's captures.
    consequences: lines that follow from it, in their order.
    """

    place: LogPlace
    rule: str
    class_: FailureClass | None
    confidence: float
    reasons: tuple[str, ...]
    is_outside: bool
    fingerprint: str
    explanation: str
    remedy: str
    next_command: str | None
    fields: dict[str, str]
    consequences: tuple[LogPlace, ...] = ()


class Diagnosis(Struct, frozen=True, kw_only=True):
    """What the logs of a job say.

    cause: None without a good candidate. best: where to look first, if there is anything at all,
    and `excerpt` the lines around it. others: the next candidates, if there is a cause, of other
    kinds than the cause. logs: those that were read. unreadable: from the others to the reason.
    """

    cause: Cause | None
    best: LogPlace | None
    excerpt: LogExcerpt | None
    others: tuple[LogPlace, ...]
    logs: tuple[str, ...]
    unreadable: dict[str, str] = {}


@cache
def load_rules(own: tuple[Path, ...] = ()) -> RuleSet:
    """The rules of ci-doctor and of a repository; raises ConfigError if `own` has a mistake."""
    return RuleSet(house_rules(), repository_rules(own))


def diagnose(names: Sequence[str], rules: RuleSet, baseline: Sequence[str] = ()) -> Diagnosis:
    """The cause of the failure that the logs `names` tell of (paths, or `-`).

    baseline: logs of a good run; lines that stand there too explain nothing.
    """
    with ExitStack() as stack:
        unreadable: dict[str, str] = {}
        logs = _opened(names, stack, unreadable)
        good = _opened(baseline, stack, unreadable)
        diagnosis = diagnose_logs(logs, rules, good)
        return structs.replace(diagnosis, unreadable=unreadable)


def diagnose_logs(
    logs: Sequence[LogText], rules: RuleSet, good: Sequence[LogText] = ()
) -> Diagnosis:
    """The same for logs that are open; `good` are those of a good run."""
    stories = [read_story(log, index, rules) for index, log in enumerate(logs)]
    candidates = [each for story in stories for each in story.candidates]
    if good:
        candidates = compared(candidates, texts_of_good_run(good, rules))
    ranked = _ranked(candidates, logs)
    return _diagnosis(ranked, stories, logs)


def _opened(names: Sequence[str], stack: ExitStack, unreadable: dict[str, str]) -> list[LogText]:
    logs = []
    for name in names:
        try:
            logs.append(stack.enter_context(open_log(name)))
        except OSError as error:
            unreadable[name] = error.strerror or str(error)
    return logs


def _ranked(candidates: Sequence[Candidate], logs: Sequence[LogText]) -> list[Ranked]:
    ranked = rank(candidates)
    # One log is in order by itself.
    if len(logs) < 2:
        return ranked
    near = nearly_strongest(ranked)
    timed = with_times([each.candidate for each in near], logs)
    return [*rank(timed), *ranked[len(near) :]]


def _diagnosis(
    ranked: Sequence[Ranked],
    stories: Sequence[LogStory],
    logs: Sequence[LogText],
) -> Diagnosis:
    sure = confidence(ranked)
    excerpt = None
    best = None
    place = _best(ranked, stories)
    if place is not None:
        log, line = place
        excerpt = excerpt_around(logs[log], line)
        text = excerpt.lines[excerpt.marked]
        ends_traceback = bool(ranked) and ranked[0].candidate.ends_traceback
        best = LogPlace(
            log=logs[log].name, line=line.number, text=text, ends_traceback=ends_traceback
        )
    return Diagnosis(
        cause=_cause(ranked, sure, logs) if sure >= LEAST else None,
        best=best,
        excerpt=excerpt,
        others=_others(ranked, logs),
        logs=tuple(log.name for log in logs),
    )


def _best(ranked: Sequence[Ranked], stories: Sequence[LogStory]) -> tuple[int, TextLine] | None:
    """The strongest candidate, else the end of the first log that has one."""
    if ranked:
        return ranked[0].candidate.log, ranked[0].candidate.line
    for index, story in enumerate(stories):
        if story.last_lines:
            return index, story.last_lines[-1]
    return None


def _cause(ranked: Sequence[Ranked], sure: float, logs: Sequence[LogText]) -> Cause:
    first = ranked[0]
    candidate = first.candidate
    rule = candidate.rule
    return Cause(
        place=_place(candidate, logs),
        rule=rule.id,
        class_=rule.class_,
        confidence=sure,
        reasons=first.reasons,
        is_outside=rule.is_outside,
        fingerprint=fingerprint(rule.id, candidate.fields, candidate.clean.message),
        explanation=rule.explanation,
        remedy=rule.remedy,
        next_command=rule.next_command,
        fields=candidate.fields,
        consequences=_consequences(ranked, logs),
    )


def _consequences(ranked: Sequence[Ranked], logs: Sequence[LogText]) -> tuple[LogPlace, ...]:
    """The first symptoms, one a rule."""
    symptoms: dict[str, Candidate] = {}
    for each in ranked:
        if each.candidate.rule.role is Role.SYMPTOM:
            symptoms.setdefault(each.candidate.rule.id, each.candidate)
    listed = list(symptoms.values())[:_CONSEQUENCES]
    return tuple(_place(each, logs) for each in listed)


def _others(ranked: Sequence[Ranked], logs: Sequence[LogText]) -> tuple[LogPlace, ...]:
    """The next candidates of other rules, no symptoms, one a rule."""
    others: dict[str, Candidate] = {}
    for each in ranked[1:]:
        rule = each.candidate.rule
        if rule.role is not Role.SYMPTOM and rule.id != ranked[0].candidate.rule.id:
            others.setdefault(rule.id, each.candidate)
    return tuple(_place(each, logs) for each in list(others.values())[:_OTHERS])


def _place(candidate: Candidate, logs: Sequence[LogText]) -> LogPlace:
    return LogPlace(
        log=logs[candidate.log].name,
        line=candidate.line.number,
        text=candidate.clean.text,
        ends_traceback=candidate.ends_traceback,
    )
