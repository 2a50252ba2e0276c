# SPDX-License-Identifier: Apache-2.0
"""Pure. A line that may be the cause of a failure, with all that its rank depends on."""

from msgspec import Struct

from ci_doctor.diagnosis.lines.clean_line import CleanLine
from ci_doctor.diagnosis.log_rule import LogRule
from ci_doctor.diagnosis.reading.log_text import TextLine
from ci_doctor.diagnosis.standing import ExceptionStanding
from ci_doctor.diagnosis.went_on import Sign


class Candidate(Struct, frozen=True, kw_only=True):
    """A line named by a rule.

    log: the index of its log. in_failed_step: it stands in a step of the job that ended with a
    failure; None if no step failed. in_passed_step: it stands in a step that ended well, or in a
    job that did. ends_traceback: it is the exception of a traceback that is not explained by
    another one of its chain, and that its program did not tolerate. standing: the same in full,
    None for lines that are no exceptions. repeats: how many lines its rule matches in this log.
    at_s: seconds of its clock, on one scale for all logs; None if nothing tells. in_passed_run:
    it stands in a run of tests that passed. log_ended_well: as by `ending.ended_well`.
    lines_after: how many lines its log has after it. log_sounds_well: the last lines of its log
    hold words of success and none of failure. quiet_lines: how many lines at the end of its log,
    and after it, speak of no failure. last_run_failed: as by `ending.last_run_failed`.
    lines_in_step: how many lines follow it in its step, or in its log without a step. signs: that
    its script went on, as far as `surroundings.examined` has looked.
    in_good_run: whether a line like it stands in the log of a good run; None without such a log.
    """

    log: int
    line: TextLine
    clean: CleanLine
    rule: LogRule
    fields: dict[str, str]
    in_failed_step: bool | None = None
    in_passed_step: bool = False
    ends_traceback: bool = False
    standing: ExceptionStanding | None = None
    repeats: int = 1
    at_s: float | None = None
    in_passed_run: bool = False
    log_ended_well: bool = False
    lines_after: int = 0
    log_sounds_well: bool = False
    quiet_lines: int = 0
    last_run_failed: bool = False
    in_good_run: bool | None = None
    lines_in_step: int = 0
    signs: frozenset[Sign] = frozenset()
