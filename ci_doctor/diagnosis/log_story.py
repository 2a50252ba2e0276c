# SPDX-License-Identifier: Apache-2.0
"""Reads one log for its candidates: hits, the exceptions of tracebacks, the steps they stand in."""

from collections.abc import Iterable

from msgspec import Struct

from ci_doctor.diagnosis.candidate import Candidate
from ci_doctor.diagnosis.lines.clean_line import clean_line
from ci_doctor.diagnosis.header_lines import named_lines
from ci_doctor.diagnosis.log_rule import Role
from ci_doctor.diagnosis.passed_runs import in_passed_run, passed_runs
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
    found = scan(log, rules)
    result = Scan(hits=named_lines(log, found.hits, rules), counts=found.counts)
    steps = failed_steps(result.hits, rules)
    runs = passed_runs(result.hits, rules)
    exceptions = _exception_lines(log, result.hits, rules)
    noise = {hit.line.offset for hit in result.hits if rules.rules[hit.rule].role is Role.NOISE}
    candidates = []
    for hit in _strongest(result, rules):
        if hit.line.offset in noise:
            continue
        candidate = Candidate(
            log=index,
            line=hit.line,
            clean=hit.clean,
            rule=rules.rules[hit.rule],
            fields=hit.fields,
            in_failed_step=in_failed_step(steps, hit.line.number),
            ends_traceback=hit.line.offset in exceptions,
            repeats=result.counts[hit.rule],
            in_passed_run=in_passed_run(runs, hit.line.number, rules.rules[hit.rule].family),
        )
        candidates.append(candidate)
    return LogStory(
        candidates=tuple(candidates), steps=tuple(steps), last_lines=tuple(log.tail(40))
    )


def _strongest(result: Scan, rules: RuleSet) -> Iterable[Hit]:
    """For each line the hit whose rule has the most points."""
    by_line: dict[int, Hit] = {}
    for hit in result.hits:
        rule = rules.rules[hit.rule]
        if rule.role not in _NAMEABLE:
            continue
        other = by_line.get(hit.line.offset)
        if other is None or rule.points > rules.rules[other.rule].points:
            by_line[hit.line.offset] = hit
    return by_line.values()


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
