# SPDX-License-Identifier: Apache-2.0
"""Pure. What a diagnosis says: the cause, the place to look at first, what else there is."""

from msgspec import Struct

from ci_doctor.diagnosis.failure_class import FailureClass


class LogExcerpt(Struct, frozen=True, kw_only=True):
    """Neighbouring lines: the number of the first, their texts, the index of the one in question."""

    first_line: int
    lines: tuple[str, ...]
    marked: int


class LogPlace(Struct, frozen=True, kw_only=True):
    """A line of a log: `line` is 1-based, `text` is cleaned.

    ends_traceback: the line is the exception of a traceback, whose frames stand before it.
    """

    log: str
    line: int
    text: str
    ends_traceback: bool = False


class Cause(Struct, frozen=True, kw_only=True):
    """The line that explains a failure.

    rule: the id of its log rule. confidence: how probable it is that this is the cause, 0 to 1.
    reasons: what that rests on. is_outside: the line shows that the cause lies outside the change.
    is_final: the job ended by it, as far as its logs tell: nothing else in them can have ended the
    job, and its log ends soon after it. Of a service: by `aftermath.is_final`. fingerprint:
    the same for the same cause in another build. fields: the rule's captures. consequences: lines
    that follow from it, in their order.
    """

    place: LogPlace
    rule: str
    class_: FailureClass | None
    confidence: float
    reasons: tuple[str, ...]
    is_outside: bool
    is_final: bool
    fingerprint: str
    explanation: str
    remedy: str
    next_command: str | None
    fields: dict[str, str]
    consequences: tuple[LogPlace, ...] = ()

    @property
    def sentence(self) -> str:
        """The first sentence of the explanation, to stand within another one."""
        first = self.explanation.partition(". ")[0].rstrip(".")
        # `CUDA` keeps its capitals.
        if first[1:2].isupper():
            return first
        return first[:1].lower() + first[1:]


class Diagnosis(Struct, frozen=True, kw_only=True):
    """What the logs of a job say.

    cause: None without a good candidate. best: where to look first, if there is anything at all,
    and `excerpt` the lines around it. others: the next candidates, if there is a cause, of other
    kinds than the cause. logs: those that were read. unreadable: from the others to the reason.
    in_part: from logs, folders and patterns of which something is missing to the reason.
    ended_well: all logs report success at their end, and no failed step. n_candidates: how many
    lines may be the cause. status: as of `diagnosis_of`.
    """

    cause: Cause | None
    best: LogPlace | None = None
    excerpt: LogExcerpt | None = None
    others: tuple[LogPlace, ...] = ()
    logs: tuple[str, ...]
    unreadable: dict[str, str] = {}
    in_part: dict[str, str] = {}
    ended_well: bool = False
    n_candidates: int = 0
    status: int | None = None
