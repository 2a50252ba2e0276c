# SPDX-License-Identifier: Apache-2.0
"""Reads one log for its candidates: hits, the exceptions of tracebacks, the steps they stand in."""

from collections.abc import Iterable

from msgspec import Struct

from ci_doctor.diagnosis.candidate import Candidate
from ci_doctor.diagnosis.last_output import LAST_OUTPUT, last_output
from ci_doctor.diagnosis.lines.clean_line import clean_line
from ci_doctor.diagnosis.log_rule import Role
from ci_doctor.diagnosis.reading.log_text import LogText, TextLine
from ci_doctor.diagnosis.rule_set import RuleSet
from ci_doctor.diagnosis.scanning.scan import Hit, Scan, scan
from ci_doctor.diagnosis.steps import FailedStep, failed_steps, in_failed_step
from ci_doctor.diagnosis.traceback import tracebacks

# Lines of a traceback that are read; a deep recursion prints more, and repeats itself.
_TRACEBACK_LINES = 400
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
    exceptions = _exception_lines(log, result.hits, rules)
    candidates = []
    named = [(hit, rules.rules[hit.rule]) for hit in _strongest(result, rules)]
    named.extend((hit, LAST_OUTPUT) for hit in _last_outputs(log, result.hits, rules))
    named.sort(key=lambda each: each[0].line.offset)
    for hit, rule in named:
        candidate = Candidate(
            log=index,
            line=hit.line,
            clean=hit.clean,
            rule=rule,
            fields=hit.fields,
            in_failed_step=in_failed_step(steps, hit.line.number),
            ends_traceback=hit.line.offset in exceptions,
            repeats=result.counts.get(hit.rule, 1),
        )
        candidates.append(candidate)
    return LogStory(
        candidates=tuple(candidates), steps=tuple(steps), last_lines=tuple(log.tail(40))
    )


def _strongest(result: Scan, rules: RuleSet) -> Iterable[Hit]:
    """For each line the hit whose rule has the most points.

    A line that is noise has none. A line that is a known symptom is no error in general.
    """
    noise = _offsets(result.hits, rules, Role.NOISE)
    symptoms = _offsets(result.hits, rules, Role.SYMPTOM)
    by_line: dict[int, Hit] = {}
    for hit in result.hits:
        rule = rules.rules[hit.rule]
        offset = hit.line.offset
        if rule.role not in _NAMEABLE or offset in noise:
            continue
        if rule.role is Role.ERROR and offset in symptoms:
            continue
        other = by_line.get(offset)
        if other is None or rule.points > rules.rules[other.rule].points:
            by_line[offset] = hit
    return by_line.values()


def _last_outputs(log: LogText, hits: Iterable[Hit], rules: RuleSet) -> list[Hit]:
    """What each failed command printed last."""
    skipped: set[int] = set()
    for role in (Role.NOISE, Role.SYMPTOM, Role.BEGIN, Role.END):
        skipped |= _offsets(hits, rules, role)
    outputs = []
    for hit in hits:
        if rules.rules[hit.rule].role is Role.END:
            output = last_output(log, hit.line, skipped)
            if output is not None:
                outputs.append(output)
    return outputs


def _offsets(hits: Iterable[Hit], rules: RuleSet, role: Role) -> set[int]:
    return {hit.line.offset for hit in hits if rules.rules[hit.rule].role is role}


def _exception_lines(log: LogText, hits: Iterable[Hit], rules: RuleSet) -> set[int]:
    """The offsets of the lines at which tracebacks end that do not merely point to another."""
    offsets = set()
    read_to = -1
    for hit in hits:
        if rules.rules[hit.rule].role is not Role.TRACEBACK or hit.line.offset < read_to:
            continue
        lines = log.after(hit.line, _TRACEBACK_LINES)
        read_to = lines[-1].offset
        texts = [clean_line(line.content).text for line in lines]
        for traceback in tracebacks(texts):
            if traceback.has_header and not traceback.is_pointer:
                offsets.add(lines[traceback.exception].offset)
    return offsets
