# SPDX-License-Identifier: Apache-2.0
"""Pure. The steps of a job in its log: where each begins and how it ends."""

from collections.abc import Sequence

from msgspec import Struct

from ci_doctor.diagnosis.ending import passed_job
from ci_doctor.diagnosis.log_rule import LogRule, Role
from ci_doctor.diagnosis.reading.log_text import TextLine
from ci_doctor.diagnosis.rule_set import RuleSet
from ci_doctor.diagnosis.scanning.scan import Hit

# Named groups of rules on ends, and what they say.
_WHOLE_JOB = "job"
_WITHIN_STEP = "annotation"
# And one of rules on begins: what comes after the commands of a job, however they ended.
_AFTER = "after"
# An action that fails prints little after the error that it reports.
_LAST_LINES = 3
# The family of rules by which tools say that they ended well: a step may fail after that.
_TOOLS = "outcome"
_ENDS = frozenset({Role.END, Role.SUCCESS})


class JobStep(Struct, frozen=True):
    """The lines from `first` to that of `end`, 1-based and inclusive; `end` says how it ended.

    status: of its command, None if `end` does not tell.
    """

    first: int
    end: TextLine
    failed: bool
    has_last_words: bool = False
    status: int | None = None

    def holds(self, line: int) -> bool:
        """Whether the step has this line."""
        return self.first <= line <= self.end.number


def ended_steps(hits: Sequence[Hit], rules: RuleSet) -> list[JobStep]:
    """The steps whose end is known, in order; none if the log has no such marks.

    A step begins at the last begin mark before its end, or at the last one with the same command
    where the end names its command (programs print begin marks of their own). Without a begin mark
    it begins after the step before it.

    If the job passed (`passed_job`), all of it is one step that ended well. Two named groups of a
    rule say more of an end. `job`: the whole job failed, and counts as a step if none has failed
    before. `annotation`: the step reports an error and goes on. Of a begin, `after` says that the
    commands of the job are over: what stands there did not fail it.
    """
    passed = passed_job(hits, rules)
    if passed is not None:
        return [JobStep(1, passed.line, failed=False)]
    steps: list[JobStep] = []
    begins: list[Hit] = []
    for index, hit in enumerate(hits):
        rule = rules.rules[hit.rule]
        if rule.role is Role.BEGIN:
            begins.append(hit)
        if not _ends_a_step(hit, rule, steps) or _step_went_on(hits[index:], rules):
            continue
        after = [begin for begin in begins if _AFTER in begin.fields]
        own = [begin for begin in begins if _AFTER not in begin.fields]
        begin = _begin_of(hit, own) or _line_after(steps)
        # Another rule took this line for the end of the step.
        if begin > hit.line.number:
            continue
        if after and after[0].line.number > begin:
            steps += _with_aftermath(begin, after, hit, rule)
        else:
            steps.append(_step(begin, hit, rule))
        # What ends one step may begin the next one.
        begins = [begin for begin in begins if begin.line == hit.line]
    return steps


def _ends_a_step(hit: Hit, rule: LogRule, earlier: Sequence[JobStep]) -> bool:
    if rule.role not in _ENDS or rule.family == _TOOLS:
        return False
    if _WHOLE_JOB not in hit.fields:
        return True
    return not any(step.failed for step in earlier)


def _step_went_on(following: Sequence[Hit], rules: RuleSet) -> bool:
    """Whether the first of `following` is an error that its step reports, and gets over.

    An action that fails says so last. One that tries again has more to say, and the next step
    begins as if nothing had happened.
    """
    hit = following[0]
    if _WITHIN_STEP not in hit.fields:
        return False
    for mark in following[1:]:
        role = rules.rules[mark.rule].role
        if role is Role.END:
            return False
        if role is Role.BEGIN and mark.line != hit.line:
            return mark.line.number - hit.line.number > _LAST_LINES
    return False


def _step(begin: int, end: Hit, rule: LogRule) -> JobStep:
    failed = rule.role is Role.END
    is_over = _WITHIN_STEP not in end.fields
    status = end.fields.get("status", "")
    return JobStep(
        begin,
        end.line,
        failed,
        has_last_words=failed and is_over,
        status=int(status) if status.isdecimal() else None,
    )


def _with_aftermath(begin: int, after: Sequence[Hit], end: Hit, rule: LogRule) -> list[JobStep]:
    """The step from `begin` to the first of `after`, what comes after it, and the line `end`."""
    is_failed = rule.role is Role.END
    return [
        JobStep(begin, after[0].line, is_failed, has_last_words=is_failed),
        JobStep(after[0].line.number, after[-1].line, failed=False),
        # The CI system may name a cause in the line itself: a machine that is gone.
        JobStep(end.line.number, end.line, is_failed),
    ]


def _line_after(steps: Sequence[JobStep]) -> int:
    """The number of the first line that belongs to none of `steps`."""
    if not steps:
        return 1
    return steps[-1].end.number + 1


def _begin_of(end: Hit, begins: Sequence[Hit]) -> int | None:
    """The line at which the step that `end` ends begins; None if no mark tells."""
    command = end.fields.get("command")
    earlier = [begin for begin in begins if begin.line != end.line]
    for begin in reversed(earlier):
        if command is not None and begin.fields.get("command") == command:
            return begin.line.number
    return earlier[-1].line.number if earlier else None


def in_failed_step(steps: Sequence[JobStep], line: int) -> bool | None:
    """Whether a failed step has this line; None if no step failed."""
    failed = [step for step in steps if step.failed]
    if not failed:
        return None
    return any(step.holds(line) for step in failed)


def in_passed_step(steps: Sequence[JobStep], line: int) -> bool:
    """Whether a step that ended well has this line."""
    return any(step.holds(line) for step in steps if not step.failed)


def last_line_of_step(steps: Sequence[JobStep], line: int, last: int) -> int:
    """The line before the end of the first step that has this line; `last` without such a step."""
    for step in steps:
        if step.holds(line):
            return max(line, step.end.number - 1)
    return last
