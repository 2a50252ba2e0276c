# SPDX-License-Identifier: Apache-2.0
"""Reads all logs of a job together and names the root cause of its failure."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from ci_doctor.diagnosis.candidate import Candidate
from ci_doctor.diagnosis.confidence import LEAST, confidence
from ci_doctor.diagnosis.failure_class import FailureClass
from ci_doctor.diagnosis.log_rule import Role
from ci_doctor.diagnosis.log_story import LogStory, read_story
from ci_doctor.diagnosis.rank import Ranked, rank
from ci_doctor.diagnosis.reading.open_log import open_log
from ci_doctor.diagnosis.rule_files import house_rules, repository_rules
from ci_doctor.diagnosis.rule_set import RuleSet

_CONSEQUENCES = 5


class LogPlace(Struct, frozen=True, kw_only=True):
    """A line of a log: `line` is 1-based, `text` is cleaned."""

    log: str
    line: int
    text: str


class Cause(Struct, frozen=True, kw_only=True):
    """The line that explains a failure.

    confidence: how probable it is that this is the cause, 0 to 1. reasons: what that rests on.
    consequences: lines that follow from it, in their order.
    """

    place: LogPlace
    rule: str
    class_: FailureClass | None
    confidence: float
    reasons: tuple[str, ...]
    is_outside: bool
    explanation: str
    remedy: str
    consequences: tuple[LogPlace, ...] = ()


class Diagnosis(Struct, frozen=True, kw_only=True):
    """What the logs of a job say.

    cause: None without a good candidate. best: where to look first, if there is anything at all.
    logs: those that were read. unreadable: from the others to the reason.
    """

    cause: Cause | None
    best: LogPlace | None
    logs: tuple[str, ...]
    unreadable: dict[str, str]


def load_rules(own: Sequence[Path] = ()) -> RuleSet:
    """The rules of ci-doctor and of a repository; raises ConfigError if `own` has a mistake."""
    return RuleSet(house_rules(), repository_rules(own))


def diagnose(names: Sequence[str], rules: RuleSet) -> Diagnosis:
    """The cause of the failure that the logs `names` tell of (paths, or `-`)."""
    stories: list[LogStory] = []
    logs: list[str] = []
    unreadable: dict[str, str] = {}
    for name in names:
        try:
            with open_log(name) as log:
                stories.append(read_story(log, len(logs), rules))
                logs.append(log.name)
        except OSError as error:
            unreadable[name] = error.strerror or str(error)
    ranked = rank(each for story in stories for each in story.candidates)
    sure = confidence(ranked)
    best = _best(ranked, stories, logs)
    cause = _cause(ranked, sure, logs) if sure >= LEAST else None
    return Diagnosis(cause=cause, best=best, logs=tuple(logs), unreadable=unreadable)


def _best(
    ranked: Sequence[Ranked], stories: Sequence[LogStory], logs: Sequence[str]
) -> LogPlace | None:
    if ranked:
        return _place(ranked[0].candidate, logs)
    for name, story in zip(logs, stories, strict=True):
        if story.last_lines:
            last = story.last_lines[-1]
            return LogPlace(log=name, line=last.number, text=last.content.decode(errors="replace"))
    return None


def _cause(ranked: Sequence[Ranked], sure: float, logs: Sequence[str]) -> Cause:
    first = ranked[0]
    rule = first.candidate.rule
    return Cause(
        place=_place(first.candidate, logs),
        rule=rule.id,
        class_=rule.class_,
        confidence=sure,
        reasons=first.reasons,
        is_outside=rule.is_outside,
        explanation=rule.explanation,
        remedy=rule.remedy,
        consequences=_consequences(ranked, logs),
    )


def _consequences(ranked: Sequence[Ranked], logs: Sequence[str]) -> tuple[LogPlace, ...]:
    symptoms = [each.candidate for each in ranked if each.candidate.rule.role is Role.SYMPTOM]
    return tuple(_place(each, logs) for each in symptoms[:_CONSEQUENCES])


def _place(candidate: Candidate, logs: Sequence[str]) -> LogPlace:
    return LogPlace(log=logs[candidate.log], line=candidate.line.number, text=candidate.clean.text)
