# SPDX-License-Identifier: Apache-2.0
"""Pure. From ranked candidates to the cause, what follows from it, and what else there is."""

from collections.abc import Callable, Sequence

from msgspec import structs

from ci_doctor.diagnosis.calibration import Calibration
from ci_doctor.diagnosis.candidate import Candidate
from ci_doctor.diagnosis.confidence import features, probability
from ci_doctor.diagnosis.exit_status import retry_policy
from ci_doctor.diagnosis.log_rule import Role
from ci_doctor.diagnosis.next_command import next_command
from ci_doctor.diagnosis.rank import Ranked
from ci_doctor.diagnosis.rules import rule_of
from ci_doctor.model.cause import Cause, LogLine, title_of
from ci_doctor.model.fingerprint import fingerprint, normal_text

_OTHERS = 5


def without_repetitions(ranked: Sequence[Ranked]) -> list[Ranked]:
    """`ranked` without those that say the same as the first.

    A copy of a log, or another start of the same service, shows no other place to look at.
    """
    if not ranked:
        return []
    first = ranked[0]
    others = [each for each in ranked[1:] if not _is_same(each.candidate, first.candidate)]
    return [first, *others]


def _is_same(one: Candidate, other: Candidate) -> bool:
    if one.rule.id != other.rule.id:
        return False
    return normal_text(one.clean.message) == normal_text(other.clean.message)


def named_cause(
    ranked: Sequence[Ranked],
    names: Sequence[str],
    calibration: Calibration,
    subject: Callable[[Candidate], str] = lambda _: "",
) -> Cause | None:
    """The first of `ranked` as the cause; None if nothing is sure enough.

    names: of the logs. subject: what a candidate is about if its line does not say so. How the job
    ended is not looked at: `is_outside` and `is_final` are False.
    """
    # What stands in a step that ended well is no cause, however sure its words are.
    if not ranked or ranked[0].candidate.in_passed_step:
        return None
    sure = probability(features(ranked), calibration.coefficients)
    if sure < calibration.least:
        return None
    return _cause(ranked, sure, names, subject(ranked[0].candidate))


def _cause(ranked: Sequence[Ranked], sure: float, names: Sequence[str], subject: str) -> Cause:
    first = ranked[0]
    candidate = first.candidate
    rule = candidate.rule
    return Cause(
        fingerprint=fingerprint(rule.id, candidate.fields, candidate.clean.message, subject),
        title=title_of(rule.class_),
        place=_place(candidate, names),
        rule=rule.id,
        class_=rule.class_,
        retry=retry_policy(rule.class_, candidate.clean.text),
        confidence=sure,
        reasons=first.reasons,
        explanation=rule.explanation,
        remedy=rule.remedy or rule_of(rule.class_).remedy or "",
        next_command=next_command(rule.next_command, candidate.fields),
        fields=candidate.fields,
    )


def with_consequences(cause: Cause, candidates: Sequence[Candidate], names: Sequence[str]) -> Cause:
    """`cause` with the lines `candidates` that follow from it."""
    places = tuple(_place(each, names) for each in candidates)
    return structs.replace(cause, consequences=places)


def other_candidates(ranked: Sequence[Ranked], names: Sequence[str]) -> tuple[LogLine, ...]:
    """The next candidates of other rules, no symptoms, one a rule."""
    others: dict[str, Candidate] = {}
    for each in ranked[1:]:
        rule = each.candidate.rule
        if rule.role is not Role.SYMPTOM and rule.id != ranked[0].candidate.rule.id:
            others.setdefault(rule.id, each.candidate)
    return tuple(_place(each, names) for each in list(others.values())[:_OTHERS])


def _place(candidate: Candidate, names: Sequence[str]) -> LogLine:
    clean = candidate.clean
    return LogLine(
        file=names[candidate.log],
        line=candidate.line.number,
        text=clean.text,
        message=clean.message or clean.text,
    )
