# SPDX-License-Identifier: Apache-2.0
"""Pure. The steps of a job and the runs of tests in its log: where each begins, and how it and the log end."""

import re
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from msgspec import Struct

from ci_doctor.diagnosis.log_rules import LogRule, Mark, Role, RuleSet
from ci_doctor.diagnosis.log_text import TextLine
from ci_doctor.diagnosis.scan import Hit
from ci_doctor.diagnosis.tracebacks import TOLERATED_LEVELS

# In most tools' summaries: `3 passed`, `0 errors`, `done`, `bye`.
_SUCCESS: Final = re.compile(
    r"(?i)\b(?:success(?:ful|fully)?|succeeded|passed|pass|ok|done|completed?|finished|clean"
    r"|up[- ]to[- ]date|no (?:errors?|problems?|issues?|failures?)|bye|shut(?:ting)? ?down"
    r"|(?:errors?|failures?|failed)[:=] *0|0 (?:errors?|failures?|failed|problems?))\b"
)
_NOTHING_FAILED: Final = re.compile(
    r"(?i)\b(?:no|0|zero) (?:errors?|problems?|issues?|failures?|failed)\b"
    r"|\b(?:errors?|failures?|failed|fail)[:= ]+0\b"
)
_FAILURE: Final = re.compile(
    r"(?i)error|fail|exception|traceback|abort|fatal|killed|panic|denied|refused|cannot|can't"
    r"|could ?n[o']t|unable|not found|no such|invalid|undefined|unexpected|exit(?:ed)? (?:code|status"
    r"|with)(?: code| status)?:? [1-9]|timed? ?out|✗|✖|❌"
)
_STOP: Final = re.compile(
    r"(?i)\b(?:shut(?:ting)? ?down|shutdown|(?:stopping|finished|terminating) (?:server|parent|worker|reloader)"
    r"|worker exiting|handling signal|closing (?:connections|sockets))\b"
)
_LINES: Final = 12


def quiet_lines(texts: Sequence[str]) -> int:
    """How many of the last lines with words speak of no failure.

    Those of a server that stops in order do not count: it stops so after a failure as well.
    """
    count = 0
    for text in reversed(texts):
        if not any(letter.isalpha() for letter in text) or _STOP.search(text) is not None:
            continue
        if _FAILURE.search(_NOTHING_FAILED.sub("", text)) is not None:
            break
        count += 1
    return count


def sounds_like_success(texts: Iterable[str]) -> bool:
    """Whether one of the last 12 lines with words speaks of success, and none of a failure."""
    last = [text for text in texts if any(letter.isalpha() for letter in text)][-_LINES:]
    is_success = False
    for text in last:
        if _FAILURE.search(_NOTHING_FAILED.sub("", text)) is not None:
            return False
        if _SUCCESS.search(text) is not None:
            is_success = True
    return is_success


# After its last words about success a job prints a little: clean-up, coverage, a list of skips.
_LINES_OF_END = 60
_MARKS = frozenset({Role.SUCCESS, Role.RUN_PASSED, Role.RUN_FAILED, Role.JOB_END, Role.JOB_PASSED})

# A server that cannot go on says so, and then closes what it has opened.
_LINES_OF_STOP = 15


def ended_well(hits: Sequence[Hit], rules: RuleSet, last_lines: Sequence[TextLine]) -> bool:
    """Whether one of the last 60 lines reports success or the job's end, and no step failed.

    hits: of the log, in the order of its lines. last_lines: at least the last line. It is False if
    a run of tests failed after the last success. What `passed_job` gives outweighs failed steps.
    """
    last_mark = _last(hits, rules, _MARKS)
    if last_mark is None or not last_lines:
        return False
    if last_mark.line.number <= last_lines[-1].number - _LINES_OF_END:
        return False
    role = rules.rules[last_mark.rule].role
    if role is Role.RUN_FAILED:
        return False
    if role is Role.SUCCESS and _begins_a_step(last_mark, hits, rules):
        return False
    if Mark.STOP in last_mark.fields and _has_cause_before(last_mark, hits, rules):
        return False
    return passed_job(hits, rules) is not None or _last(hits, rules, {Role.END}) is None


def passed_job(hits: Sequence[Hit], rules: RuleSet) -> Hit | None:
    """The line by which the CI system reports that the whole job passed; None without one.

    A failed step above that line does not count: a test may print what a failed step looks like.
    With a failed step below it the result is None: a program of the job may print that line too.
    """
    last = _last(hits, rules, {Role.JOB_PASSED, Role.END})
    if last is None or rules.rules[last.rule].role is Role.END:
        return None
    return last


def _last(hits: Sequence[Hit], rules: RuleSet, roles: AbstractSet[Role]) -> Hit | None:
    for hit in reversed(hits):
        if rules.rules[hit.rule].role in roles:
            return hit
    return None


def _has_cause_before(stop: Hit, hits: Sequence[Hit], rules: RuleSet) -> bool:
    """Whether a line names a cause right before `stop`, at no level at which programs go on."""
    first = stop.line.number - _LINES_OF_STOP
    near = [hit for hit in hits if first <= hit.line.number < stop.line.number]
    causes = [hit for hit in near if rules.rules[hit.rule].role is Role.CAUSE]
    return any(hit.clean.level not in TOLERATED_LEVELS for hit in causes)


def _begins_a_step(mark: Hit, hits: Sequence[Hit], rules: RuleSet) -> bool:
    """Whether what ends one step begins the last one, of which nothing tells how it went."""
    begin = _last(hits, rules, {Role.BEGIN})
    return begin is not None and begin.line.number == mark.line.number


def last_run_failed(hits: Sequence[Hit], rules: RuleSet) -> bool:
    """Whether the last run of tests in the log, of those that report their result, has failed."""
    last = _last(hits, rules, {Role.RUN_FAILED, Role.RUN_PASSED})
    return last is not None and rules.rules[last.rule].role is Role.RUN_FAILED


# An action that fails prints little after the error that it reports.
_LINES_OF_ERROR = 3
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
        after = [begin for begin in begins if Mark.AFTER in begin.fields]
        own = [begin for begin in begins if Mark.AFTER not in begin.fields]
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
    if Mark.JOB not in hit.fields:
        return True
    return not any(step.failed for step in earlier)


def _step_went_on(following: Sequence[Hit], rules: RuleSet) -> bool:
    """Whether the first of `following` is an error that its step reports, and gets over.

    An action that fails says so last. One that tries again has more to say, and the next step
    begins as if nothing had happened.
    """
    hit = following[0]
    if Mark.ANNOTATION not in hit.fields:
        return False
    for mark in following[1:]:
        role = rules.rules[mark.rule].role
        if role is Role.END:
            return False
        if role is Role.BEGIN and mark.line != hit.line:
            return mark.line.number - hit.line.number > _LINES_OF_ERROR
    return False


def _step(begin: int, end: Hit, rule: LogRule) -> JobStep:
    failed = rule.role is Role.END
    is_over = Mark.ANNOTATION not in end.fields
    status = end.fields.get(Mark.STATUS, "")
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
    command = end.fields.get(Mark.COMMAND)
    earlier = [begin for begin in begins if begin.line != end.line]
    for begin in reversed(earlier):
        if command is not None and begin.fields.get(Mark.COMMAND) == command:
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


class PassedRun(Struct, frozen=True, kw_only=True):
    """The lines from `first` to `last`, 1-based and inclusive.

    family: whose hits it takes back; None for all. A run whose begin is not marked vouches for its
    own runner's hits alone: other steps may stand before it.
    """

    first: int
    last: int
    family: str | None

    def takes_back(self, line: int, family: str) -> bool:
        """Whether a hit of `family` in this line was expected."""
        return self.first <= line <= self.last and self.family in {None, family}


class _Runs:
    """The runs of one family: those that have begun, and where the last one ended."""

    def __init__(self, family: str) -> None:
        self.family = family
        self._begun: list[Hit] = []
        self._ended = 0

    def begin(self, hit: Hit) -> None:
        self._begun.append(hit)

    def fail(self, hit: Hit) -> None:
        if self._begun:
            self._begun.pop()
        self._ended = hit.line.number

    def passed(self, hit: Hit) -> PassedRun | None:
        """The run that `hit` ends; None if it names a test whose begin is not known."""
        last = hit.line.number
        begin = self._begin_of(hit)
        if begin is not None:
            self._ended = last
            return PassedRun(first=begin.line.number, last=last, family=None)
        if hit.fields:
            return None
        run = PassedRun(first=self._ended + 1, last=last, family=self.family)
        self._ended = last
        return run

    def _begin_of(self, end: Hit) -> Hit | None:
        """The last begin of the same name; an end without a name ends what has none either."""
        for index in range(len(self._begun) - 1, -1, -1):
            begin = self._begun[index]
            if begin.fields == end.fields:
                del self._begun[index:]
                return begin
        return None


def passed_runs(hits: Sequence[Hit], rules: RuleSet) -> list[PassedRun]:
    """The runs that passed, from their marks in the order of the log."""
    families: dict[str, _Runs] = {}
    passed = []
    for hit in hits:
        rule = rules.rules[hit.rule]
        runs = families.setdefault(rule.family, _Runs(rule.family))
        if rule.role is Role.RUN_BEGIN:
            runs.begin(hit)
        elif rule.role is Role.RUN_FAILED:
            runs.fail(hit)
        elif rule.role is Role.RUN_PASSED:
            run = runs.passed(hit)
            if run is not None:
                passed.append(run)
    return passed


def in_passed_run(runs: Sequence[PassedRun], line: int, family: str) -> bool:
    """Whether a run that passed takes back a hit of `family` in this line."""
    return any(run.takes_back(line, family) for run in runs)


def outside_of_runs(hits: Sequence[Hit], runs: Sequence[PassedRun]) -> list[Hit]:
    """`hits` without those inside a run that passed and whose begin is marked.

    A test may print what the end of a failed step looks like. The marks of the run itself stay.
    """
    whole = [run for run in runs if run.family is None]
    return [hit for hit in hits if not _is_inside(hit.line.number, whole)]


def _is_inside(line: int, runs: Sequence[PassedRun]) -> bool:
    return any(run.first < line < run.last for run in runs)
