# SPDX-License-Identifier: Apache-2.0
"""Pure. How a log ends. If it ends well, its errors were expected, or the job got over them."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from ci_doctor.diagnosis.log_rule import Role
from ci_doctor.diagnosis.reading.log_text import TextLine
from ci_doctor.diagnosis.rule_set import RuleSet
from ci_doctor.diagnosis.scanning.scan import Hit
from ci_doctor.diagnosis.standing import TOLERATED_LEVELS

# After its last words about success a job prints a little: clean-up, coverage, a list of skips.
_LAST_LINES = 60
_MARKS = frozenset({Role.SUCCESS, Role.RUN_PASSED, Role.RUN_FAILED, Role.JOB_END, Role.JOB_PASSED})

# A named group of rules on success: a server stopped in order, which says nothing of why.
_STOP = "stop"
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
    if last_mark.line.number <= last_lines[-1].number - _LAST_LINES:
        return False
    role = rules.rules[last_mark.rule].role
    if role is Role.RUN_FAILED:
        return False
    if role is Role.SUCCESS and _begins_a_step(last_mark, hits, rules):
        return False
    if _STOP in last_mark.fields and _has_cause_before(last_mark, hits, rules):
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
