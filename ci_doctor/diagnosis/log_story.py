# SPDX-License-Identifier: Apache-2.0
"""Reads one log for its candidates: hits, the exceptions of tracebacks, the steps they stand in."""

from collections.abc import Iterable

from msgspec import Struct, structs

from ci_doctor.diagnosis.candidate import Candidate
from ci_doctor.diagnosis.log_rule import LogRule, Role
from ci_doctor.diagnosis.log_tracebacks import ExceptionLine, exception_lines
from ci_doctor.diagnosis.python_exception import rule_of_exception
from ci_doctor.diagnosis.reading.log_text import LogText, TextLine
from ci_doctor.diagnosis.rule_set import RuleSet
from ci_doctor.diagnosis.scanning.scan import Hit, Scan, scan
from ci_doctor.diagnosis.steps import FailedStep, failed_steps, in_failed_step

_NAMEABLE = frozenset({Role.CAUSE, Role.FAILURE, Role.ERROR, Role.SYMPTOM})


class LogStory(Struct, frozen=True, kw_only=True):
    """What one log tells.

    candidates: in the order of their lines. steps: those that failed. last_lines: the end of the
    log, for an excerpt if nothing can be named.
    """

    candidates: tuple[Candidate, ...]
    steps: tuple[FailedStep, ...]
    last_lines: tuple[TextLine, ...]


def read_story(log: LogText, index: int, rules: RuleSet) -> LogStory:
    """The story of `log`, which is the `index`-th of its job."""
    result = scan(log, rules)
    steps = failed_steps(result.hits, rules)
    candidates = []
    for candidate in _candidates(log, result, rules):
        step = in_failed_step(steps, candidate.line.number)
        candidates.append(structs.replace(candidate, log=index, in_failed_step=step))
    return LogStory(
        candidates=tuple(candidates), steps=tuple(steps), last_lines=tuple(log.tail(40))
    )


def _candidates(log: LogText, result: Scan, rules: RuleSet) -> Iterable[Candidate]:
    """The lines that a rule matches or at which a traceback ends, in their order, without noise."""
    hits = {hit.line.offset: hit for hit in _strongest(result, rules)}
    points = {offset: rules.rules[hit.rule].points for offset, hit in hits.items()}
    exceptions = exception_lines(log, _headers(result.hits, rules), points)
    noise = {hit.line.offset for hit in result.hits if rules.rules[hit.rule].role is Role.NOISE}
    for offset in sorted({*hits, *exceptions}):
        if offset in noise:
            continue
        candidate = None
        if offset in hits:
            candidate = _of_hit(hits[offset], result, rules)
        if offset in exceptions:
            candidate = _of_exception(exceptions[offset], candidate, rules)
        if candidate is not None:
            yield candidate


def _of_hit(hit: Hit, result: Scan, rules: RuleSet) -> Candidate:
    return Candidate(
        log=0,
        line=hit.line,
        clean=hit.clean,
        rule=rules.rules[hit.rule],
        fields=hit.fields,
        repeats=result.counts[hit.rule],
    )


def _of_exception(
    exception: ExceptionLine, candidate: Candidate | None, rules: RuleSet
) -> Candidate | None:
    """The candidate at which a traceback ends; `candidate` is what a rule makes of its line."""
    matching = None
    if candidate is not None:
        matching = candidate.rule
    rule = rule_of_exception(exception, matching, rules)
    if rule is None:
        return candidate
    if candidate is None:
        candidate = Candidate(
            log=0, line=exception.line, clean=exception.clean, rule=rule, fields={}
        )
    return structs.replace(
        candidate,
        rule=rule,
        standing=exception.standing,
        ends_traceback=exception.standing.explains,
    )


def _headers(hits: Iterable[Hit], rules: RuleSet) -> list[TextLine]:
    """The lines at which tracebacks begin."""
    return [hit.line for hit in hits if rules.rules[hit.rule].role is Role.TRACEBACK]


def _strongest(result: Scan, rules: RuleSet) -> Iterable[Hit]:
    """For each line the hit whose rule says most about it."""
    by_line: dict[int, Hit] = {}
    for hit in result.hits:
        rule = rules.rules[hit.rule]
        if rule.role not in _NAMEABLE:
            continue
        other = by_line.get(hit.line.offset)
        if other is None or _strength(rule) > _strength(rules.rules[other.rule]):
            by_line[hit.line.offset] = hit
    return by_line.values()


def _strength(rule: LogRule) -> tuple[bool, bool, int]:
    # A rule for a symptom knows its line; one for any error says of it only that it is one.
    is_specific = rule.role in {Role.CAUSE, Role.FAILURE}
    return is_specific, rule.role is Role.SYMPTOM, rule.points
