# SPDX-License-Identifier: Apache-2.0
"""Pure. Whether a log ends well: its errors then were expected, or something recovered from them."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from ci_doctor.diagnosis.log_rule import Role
from ci_doctor.diagnosis.reading.log_text import TextLine
from ci_doctor.diagnosis.rule_set import RuleSet
from ci_doctor.diagnosis.scanning.scan import Hit

# After its last words about success a job prints a little: clean-up, coverage, a list of skips.
_LAST_LINES = 60
_MARKS = frozenset({Role.SUCCESS, Role.RUN_PASSED, Role.RUN_FAILED, Role.JOB_END, Role.JOB_PASSED})


def ended_well(hits: Sequence[Hit], rules: RuleSet, last_lines: Sequence[TextLine]) -> bool:
    """Whether one of the last 60 lines reports success or the job's end, and no step failed.

    hits: of the log, in the order of its lines. last_lines: at least the last line. A run of tests
    that failed after the last success makes it False. A CI system's own word on the job counts more
    than all others: a test may print what a failed step looks like.
    """
    last_mark = _last(hits, rules, _MARKS)
    if last_mark is None or not last_lines:
        return False
    if last_mark.line.number <= last_lines[-1].number - _LAST_LINES:
        return False
    role = rules.rules[last_mark.rule].role
    if role is Role.SUCCESS and _begins_a_step(last_mark, hits, rules):
        return False
    if role is Role.JOB_PASSED:
        return True
    return role is not Role.RUN_FAILED and _last(hits, rules, {Role.END}) is None


def _last(hits: Sequence[Hit], rules: RuleSet, roles: AbstractSet[Role]) -> Hit | None:
    for hit in reversed(hits):
        if rules.rules[hit.rule].role in roles:
            return hit
    return None


def _begins_a_step(mark: Hit, hits: Sequence[Hit], rules: RuleSet) -> bool:
    """Whether what ends one step begins the last one, of which nothing tells how it went."""
    begin = _last(hits, rules, {Role.BEGIN})
    return begin is not None and begin.line.number == mark.line.number


def last_run_failed(hits: Sequence[Hit], rules: RuleSet) -> bool:
    """Whether the last run of tests in the log, of those that report their result, has failed."""
    has_failed = False
    for hit in hits:
        role = rules.rules[hit.rule].role
        if role in {Role.RUN_FAILED, Role.RUN_PASSED}:
            has_failed = role is Role.RUN_FAILED
    return has_failed
