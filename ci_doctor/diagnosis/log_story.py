# SPDX-License-Identifier: Apache-2.0
"""Reads one log for its candidates: hits, the exceptions of tracebacks, the steps they stand in."""

import re
from collections.abc import Container, Iterator, Sequence
from typing import Final

from msgspec import Struct, structs

from ci_doctor.diagnosis.lines import CleanLine, clean_line
from ci_doctor.diagnosis.log_rules import LAST_OUTPUT, Role, RuleSet
from ci_doctor.diagnosis.log_text import LogText, TextLine
from ci_doctor.diagnosis.rank import Candidate
from ci_doctor.diagnosis.scan import Hit, Scan, named_lines, offsets_of, scan, strongest_hits
from ci_doctor.diagnosis.steps import (
    JobStep,
    PassedRun,
    ended_steps,
    ended_well,
    in_failed_step,
    in_passed_run,
    in_passed_step,
    last_line_of_step,
    last_run_failed,
    outside_of_runs,
    passed_runs,
    quiet_lines,
    sounds_like_success,
)
from ci_doctor.diagnosis.tracebacks import ExceptionLine, exception_lines, rule_of_exception
from ci_doctor.model.cause import FailureClass

# A tool that fails says why at its end; what stands further up is rather about something else.
LAST_LINES = 60


# Above it nothing is of this command.
_PROMPT: Final = re.compile(r"(?:~~~ |\$ |\+{1,3} )\S|##\[(?:group|endgroup)\]|shell: \S")


def last_output(
    lines: Sequence[TextLine], skipped: Container[int]
) -> tuple[TextLine, CleanLine] | None:
    """The last of `lines` with words; None if there is none.

    skipped: offsets of lines that only repeat that something failed. A traceback that ends with
    one of them says no more than it.
    """
    has_skipped = False
    for line in reversed(lines):
        if line.offset in skipped:
            has_skipped = True
            continue
        clean = clean_line(line.content)
        is_header = has_skipped and clean.message.startswith("Traceback (most recent call last)")
        if is_header or _PROMPT.match(clean.message) is not None:
            return None
        if has_skipped and clean.message.startswith("  "):
            continue
        if any(letter.isalnum() for letter in clean.message):
            return line, clean
    return None


# Where a log says how it went.
_LAST_LINES = 30
_FRAME: Final = re.compile(r'\s*File ".*", line \d+')
# What lines say of these roles follows from a failure that stands elsewhere.
_EXPLAINED = frozenset({Role.NOISE, Role.SYMPTOM, Role.END, Role.JOB_END, Role.TRACEBACK})


class LogStory(Struct, frozen=True, kw_only=True):
    """What one log tells: the candidates in the order of their lines, and the steps of its job.

    has_ended_well: its end reports success, and no step failed. has_failed_test: a test failed, or
    a run of tests, outside of what passed. explained: numbers of lines that follow from a failure.
    """

    candidates: tuple[Candidate, ...]
    steps: tuple[JobStep, ...]
    has_ended_well: bool = False
    has_failed_test: bool = False
    explained: frozenset[int] = frozenset()


def read_story(log: LogText, index: int, rules: RuleSet) -> LogStory:
    """The story of `log`, which is the `index`-th of its job."""
    scanned = scan(log, rules)
    hits = named_lines(log, scanned.hits, rules)
    result = Scan(hits=hits, counts=scanned.counts)
    runs = passed_runs(hits, rules)
    marks = outside_of_runs(hits, runs)
    last = log.tail(_LAST_LINES)
    last_texts = [clean_line(line.content).message for line in last]
    places = _Places(
        steps=ended_steps(marks, rules),
        runs=runs,
        has_ended_well=ended_well(marks, rules, last),
        sounds_well=sounds_like_success(last_texts),
        quiet_lines=quiet_lines(last_texts),
        last_run_failed=last_run_failed(hits, rules),
        last_line=last[-1].number if last else 0,
    )
    # A mark of a run may be a word of noise for other tools.
    noise = offsets_of(hits, rules, Role.NOISE) - offsets_of(hits, rules, Role.RUN_FAILED)
    replaced = {
        (hit.line.offset, identifier)
        for hit in hits
        for identifier in rules.rules[hit.rule].instead_of
    }
    named = (*_candidates(log, result, rules), *_last_words(log, result, places.steps, rules))
    candidates = [places.of(candidate, index) for candidate in named]
    candidates.sort(key=lambda each: each.line.offset)
    return LogStory(
        candidates=tuple(candidates),
        steps=tuple(places.steps),
        has_ended_well=places.has_ended_well,
        has_failed_test=any(
            _is_failed_test(hit, places, rules)
            for hit in hits
            if hit.line.offset not in noise
            and (hit.line.offset, rules.rules[hit.rule].id) not in replaced
        ),
        explained=frozenset(
            hit.line.number for hit in hits if rules.rules[hit.rule].role in _EXPLAINED
        ),
    )


def _is_failed_test(hit: Hit, places: "_Places", rules: RuleSet) -> bool:
    """Whether a runner reports by `hit` that a test failed, and nothing around it has passed."""
    rule = rules.rules[hit.rule]
    is_failure = rule.role is Role.FAILURE and rule.class_ is FailureClass.TEST_ASSERTION
    if rule.role is not Role.RUN_FAILED and not is_failure:
        return False
    # Maven and Gradle end so for whatever reason.
    if "BUILD FAIL" in hit.clean.message:
        return False
    number = hit.line.number
    if in_passed_step(places.steps, number):
        return False
    return not in_passed_run(places.runs, number, rule.family)


class _Places(Struct, frozen=True, kw_only=True):
    """Where the lines of a log stand: in which steps and runs, and where and how the log ends."""

    steps: list[JobStep]
    runs: list[PassedRun]
    has_ended_well: bool
    sounds_well: bool
    quiet_lines: int
    last_run_failed: bool
    last_line: int

    def of(self, candidate: Candidate, log: int) -> Candidate:
        """`candidate` with the places of its line."""
        number = candidate.line.number
        return structs.replace(
            candidate,
            log=log,
            in_failed_step=in_failed_step(self.steps, number),
            in_passed_step=in_passed_step(self.steps, number),
            in_passed_run=in_passed_run(self.runs, number, candidate.rule.family),
            log_ended_well=self.has_ended_well,
            log_sounds_well=self.sounds_well,
            quiet_lines=min(self.quiet_lines, self.last_line - number),
            last_run_failed=self.last_run_failed,
            lines_after=self.last_line - number,
            lines_in_step=last_line_of_step(self.steps, number, self.last_line) - number,
        )


def _candidates(log: LogText, result: Scan, rules: RuleSet) -> Iterator[Candidate]:
    """The lines that a rule matches or at which a traceback ends, without noise."""
    hits = strongest_hits(result.hits, rules)
    points = {offset: rules.rules[hit.rule].points for offset, hit in hits.items()}
    headers = [hit.line for hit in result.hits if rules.rules[hit.rule].role is Role.TRACEBACK]
    exceptions = exception_lines(log, headers, points)
    noise = offsets_of(result.hits, rules, Role.NOISE)
    for offset in {*hits, *exceptions} - noise:
        candidate = None
        if offset in hits and not _is_source(hits[offset], log):
            candidate = _of_hit(hits[offset], result, rules)
        if offset in exceptions:
            candidate = _of_exception(exceptions[offset], candidate, rules)
        if candidate is not None:
            yield candidate


def _is_source(hit: Hit, log: LogText) -> bool:
    """Whether it is a line of source code below a frame of a Python traceback."""
    if not hit.clean.message.startswith("    "):
        return False
    above = [clean_line(line.content).message for line in log.before(hit.line, 1)]
    if not above or _FRAME.match(above[0]) is None:
        return False
    return _indentation(hit.clean.message) > _indentation(above[0])


def _indentation(text: str) -> int:
    return len(text) - len(text.lstrip())


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


def _last_words(
    log: LogText, result: Scan, steps: Sequence[JobStep], rules: RuleSet
) -> Iterator[Candidate]:
    """What each failed command printed last."""
    skipped = offsets_of(result.hits, rules, Role.NOISE, Role.SYMPTOM, Role.BEGIN, Role.END)
    ends = [log.before(step.end, LAST_LINES) for step in steps if step.has_last_words]
    for lines in ends:
        output = last_output(lines, skipped)
        if output is not None:
            line, clean = output
            yield Candidate(log=0, line=line, clean=clean, rule=LAST_OUTPUT, fields={})
