# SPDX-License-Identifier: Apache-2.0
"""Pure. A rule about log lines: what a line means, and how it is recognised."""

from enum import StrEnum

from msgspec import Struct

from ci_doctor.diagnosis.failure_class import FailureClass


class Role(StrEnum):
    """What a matching line is in the story of a failure.

    cause: names a specific cause. failure: a tool names what it found wrong (a test, a lint rule, a
    line of source). error: says only that something went wrong. symptom: follows from a cause that
    stands elsewhere. noise: looks fatal and is not. begin and end: where a step of the job begins,
    and where it ends with a failure. success: the job or the step ended well. traceback: a
    traceback begins. Only the first four can be named as a cause.
    """

    CAUSE = "cause"
    FAILURE = "failure"
    ERROR = "error"
    SYMPTOM = "symptom"
    NOISE = "noise"
    BEGIN = "begin"
    END = "end"
    SUCCESS = "success"
    TRACEBACK = "traceback"


class PointsTo(StrEnum):
    """Which line a hit names: the one that matches, or the next one with a word on it.

    A header (`There was 1 failure:`) says that a list begins; what failed stands below it.
    """

    LINE = "line"
    NEXT_LINE = "next-line"


# Points of a line before its place in the log is looked at; a rule may set its own.
WEIGHTS = {
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
    that the cause lies outside the change. points_to: which line is named. next_command: a command of ci-doctor that investigates,
    in which `{name}` stands for a named group. match and no_match: examples.
    """

    id: str
    role: Role
    literals: tuple[str, ...]
    regex: str
    class_: FailureClass | None = None
    weight: int | None = None
    is_outside: bool = False
    points_to: PointsTo = PointsTo.LINE
    explanation: str = ""
    remedy: str = ""
    next_command: str | None = None
    match: tuple[str, ...] = ()
    no_match: tuple[str, ...] = ()

    @property
    def points(self) -> int:
        """The weight of a matching line."""
        if self.weight is not None:
            return self.weight
        return WEIGHTS.get(self.role, 0)
