# SPDX-License-Identifier: Apache-2.0
"""Pure. A rule about log lines: what a line means, and how it is recognised."""

from enum import StrEnum
from typing import Final

from msgspec import Struct

from ci_doctor.model.cause import FailureClass


class Role(StrEnum):
    """What a matching line is in the story of a failure.

    cause: names a specific cause. failure: a tool names what it found wrong (a test, a lint rule, a
    line of source). error: says only that something went wrong. symptom: follows from a cause that
    stands elsewhere. noise: looks fatal and is not. begin and end: where a step of the job begins,
    and where it ends with a failure. success: the job, the step or a tool in it ended well.
    job-passed and job-end: the CI system reports that the job passed, or that it is over, however
    it ended. traceback: a traceback begins. run-begin, run-failed and run-passed: a run of a test
    runner, or one of its tests, begins and ends. Only those in NAMEABLE can be named as a cause.
    """

    CAUSE = "cause"
    FAILURE = "failure"
    ERROR = "error"
    SYMPTOM = "symptom"
    NOISE = "noise"
    BEGIN = "begin"
    END = "end"
    SUCCESS = "success"
    JOB_PASSED = "job-passed"
    JOB_END = "job-end"
    TRACEBACK = "traceback"
    RUN_BEGIN = "run-begin"
    RUN_FAILED = "run-failed"
    RUN_PASSED = "run-passed"


# Lines of these roles can be named as a cause.
NAMEABLE: Final = frozenset({Role.CAUSE, Role.FAILURE, Role.ERROR, Role.SYMPTOM})
# Points of a line before its place in the log is looked at; a rule may set its own.
WEIGHTS: Final = {
    Role.CAUSE: 90,
    Role.FAILURE: 70,
    Role.ERROR: 40,
    Role.SYMPTOM: 15,
}


class LogRule(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"class_": "class"}
):
    """One entry of a rules file.

    id: `family/what-happened`. literals: byte strings of which a matching line holds one; they are
    looked for before the regex is tried. regex: in the syntax that both `re` and RE2 read; it is
    searched in the line without escapes, timestamps and prefixes. Its named groups make the
    fingerprint. weight: 0 to 100, None for the usual one of the role. is_outside: the line shows
    that the cause lies outside the change. next_line: for the header of a list: a regex for the
    next line with a letter or digit; the hit names that line, and there is no hit if it differs.
    instead_of: ids of rules that do not count on a line that this one matches, however heavy they are.
    yields_to: from ids of rules that may name an example of this one to the reason.
    next_command: a command of ci-doctor that investigates, in which `{name}` stands for a named
    group. match and no_match: examples; of a rule with next_line they are headers.
    """

    id: str
    role: Role
    literals: tuple[str, ...]
    regex: str
    class_: FailureClass | None = None
    weight: int | None = None
    is_outside: bool = False
    next_line: str | None = None
    instead_of: tuple[str, ...] = ()
    yields_to: dict[str, str] = {}
    explanation: str = ""
    remedy: str = ""
    next_command: str | None = None
    match: tuple[str, ...] = ()
    no_match: tuple[str, ...] = ()

    @property
    def family(self) -> str:
        """The tool of which the rule tells: its id up to the slash."""
        return self.id.partition("/")[0]

    @property
    def points(self) -> int:
        """The weight of a matching line."""
        if self.weight is not None:
            return self.weight
        return WEIGHTS.get(self.role, 0)
