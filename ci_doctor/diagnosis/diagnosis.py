# SPDX-License-Identifier: Apache-2.0
"""Reads all logs of a job together and names the root cause of its failure."""

from collections.abc import Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path

from msgspec import structs

from ci_doctor.diagnosis.calibration import calibration
from ci_doctor.diagnosis.candidate import Candidate
from ci_doctor.diagnosis.cause import Cause, Diagnosis, LogPlace
from ci_doctor.diagnosis.confidence import features, probability
from ci_doctor.diagnosis.excerpt import excerpt_around
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
    return _diagnosis(ranking(stories, logs, rules, good), stories, logs)


def ranking(
    stories: Sequence[LogStory],
    logs: Sequence[LogText],
    rules: RuleSet,
    good: Sequence[LogText] = (),
) -> list[Ranked]:
    """The candidates of all `stories`, the probable cause first."""
    candidates = [each for story in stories for each in story.candidates]
    if good:
        candidates = compared(candidates, texts_of_good_run(good, rules))
    return _ranked(candidates, logs)


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
    is_sure = sure >= calibration().least
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
        cause=_cause(ranked, sure, logs) if is_sure else None,
        best=best,
        excerpt=excerpt,
        others=_others(ranked, logs),
        logs=tuple(log.name for log in logs),
    )


def confidence(ranked: Sequence[Ranked]) -> float:
    """The probability, 0 to 1, that the first of `ranked` is the cause; 0 if there is none."""
    if not ranked:
        return 0.0
    return probability(features(ranked), calibration().coefficients)


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
