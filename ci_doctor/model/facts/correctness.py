# SPDX-License-Identifier: Apache-2.0
"""The facts of `ci-doctor correctness`. Pure."""

from enum import StrEnum

from msgspec import Struct

from ci_doctor.model.facts.answers import AnswerFacts, RequestBound
from ci_doctor.model.facts.localisation import LocalisationFacts
from ci_doctor.model.service import LeftBehind


class FactDifference(Struct, frozen=True, kw_only=True):
    """A fact that is not the same in all starts; `values` is by start."""

    fact: str
    values: dict[str, str | None] = {}


class IdentityFacts(Struct, frozen=True, kw_only=True):
    """What was installed, loaded and effective, what is unknown of it, and what differs.

    `differences` are between starts. `arms` leads from a fact to its value in the baseline and in
    the candidate if these differ; None is absent. `why_unknown` gives the reasons for `unknown`.
    """

    facts: dict[str, str | None] = {}
    unknown: tuple[str, ...] = ()
    why_unknown: dict[str, str] = {}
    differences: tuple[FactDifference, ...] = ()
    arms: dict[str, tuple[str | None, str | None]] = {}


class RepositoryFacts(Struct, frozen=True, kw_only=True):
    """The commit, its branch (None if HEAD is detached), and whether tracked files differ."""

    commit: str
    branch: str | None
    dirty: bool


class ScheduleFacts(Struct, frozen=True, kw_only=True):
    """The planned order of arms (`A B A`), and the names of the starts that were made (`A1 B1`).

    The order is random by `seed`; `max_starts` ends the run.
    """

    order: str
    made: str
    seed: int | None = None
    max_starts: int | None = None


class BudgetFacts(Struct, frozen=True, kw_only=True):
    """The wall clock of the whole experiment in seconds."""

    seconds: float


class ProofReading(Struct, frozen=True, kw_only=True):
    """One condition of the proof of a start (`B1`), and what was read for it.

    Of a counter: its `metric` with the values `before` and `after` the requests (None if /metrics
    does not have it), and `above`, what the rise must exceed. `idle` is how far it rose between two
    readings while no request was under way, `unread`: the page before them could not be read. Of a `log` pattern: the 1-based
    `line` of the first match and its `text` (None if no line matches).
    """

    start: str = ""
    service: str
    met: bool
    metric: str | None = None
    before: float | None = None
    after: float | None = None
    above: float = 0.0
    idle: float = 0.0
    unread: bool = False
    log: str | None = None
    line: int | None = None
    text: str | None = None

    @property
    def subject(self) -> str:
        """The name of the counter, or the pattern between slashes."""
        return self.metric if self.metric is not None else f"/{self.log}/"

    def in_words(self) -> str:
        """`0 -> 128, rose by 128 (> 0)`, or the line that matches."""
        verdict = "" if self.met else "; not met"
        if self.metric is None:
            if self.line is None:
                return f"no line matches{verdict}"
            return f"line {self.line}: {self.text}{verdict}"
        if self.after is None:
            return f"absent{verdict}"
        # A counter with labels appears with its first count.
        before = self.before or 0.0
        first = "absent" if self.before is None else _number(before)
        rise = f"rose by {_number(self.after - before)} (> {_number(self.above)})"
        if self.idle > 0:
            rise = f"{rise}, and by {_number(self.idle)} without a request"
        return f"{first} -> {_number(self.after)}, {rise}{verdict}"


def _number(value: float) -> str:
    """Whole numbers in full: a counter of tokens has many digits."""
    return f"{value:.0f}" if float(value).is_integer() else f"{value:g}"


class SharedRead(Struct, frozen=True, kw_only=True):
    """A start has opened the file `path` for reading, which changed while the start `writer` ran."""

    path: str
    writer: str


class SharedUse(Struct, frozen=True, kw_only=True):
    """What a start (`A1`) did with files outside its own directories.

    `written` changed while it ran, a few of them, and `count` is their number. `read` are those that it
    read of the other arm's. `unseen`: why a reading might have been missed, in words.
    """

    start: str = ""
    written: tuple[str, ...] = ()
    count: int = 0
    read: tuple[SharedRead, ...] = ()
    unseen: str = ""


class ControlResult(StrEnum):
    """What a control shows of a server."""

    # A changed prompt changed the answer.
    CHANGED = "changed"
    # No changed prompt changed the answer.
    SAME = "same"
    # A changed prompt changed the answer, and one with the same length and the same ends did not.
    PARTLY = "partly"
    # The answer is the same, and so short or so restricted that it may be so by chance.
    UNDECIDED = "undecided"
    # No control was answered.
    UNANSWERED = "unanswered"
    # No request has a prompt that can be changed.
    IMPOSSIBLE = "impossible"


class ControlOutcome(Struct, frozen=True, kw_only=True):
    """The result, the id of the request on which it rests, and the error of one without an answer."""

    start: str = ""
    result: ControlResult
    request: str = ""
    error: str | None = None

    @property
    def is_decisive(self) -> bool:
        """Whether another start of the arm needs no control."""
        return self.result in {ControlResult.CHANGED, ControlResult.SAME, ControlResult.PARTLY}

    def in_words(self) -> str:
        """What the control showed, as a part of a sentence."""
        match self.result:
            case ControlResult.CHANGED:
                return f"{self.request} with a changed prompt got another answer"
            case ControlResult.SAME:
                return (
                    f"the server gives {self.request} and a changed prompt the same answer: "
                    "it does not read the prompt, or a cache answers for it"
                )
            case ControlResult.PARTLY:
                return (
                    f"{self.request} with other words inside its prompt gets an answer that was given "
                    "before: the server reads no more than the length or the ends of a prompt"
                )
            case ControlResult.UNDECIDED:
                return (
                    f"{self.request} and a changed prompt got the same answer, "
                    "which is too short or too restricted to mean anything"
                )
            case ControlResult.UNANSWERED:
                return f"{self.request} with a changed prompt got no answer: {self.error}"
            case ControlResult.IMPOSSIBLE:
                return "no request has a prompt that can be changed, so no control was sent"


class DeviceFacts(Struct, frozen=True, kw_only=True):
    """The value of CUDA_VISIBLE_DEVICES that was drawn for a start (`A1`)."""

    start: str
    devices: str


class CorrectnessFacts(AnswerFacts, frozen=True, kw_only=True):
    """What the starts of a run answered, and what the verdict rests on.

    `rare_bug_bound` is the rate of a fault on
    one request that is not excluded, from 0 to 1; None unless the verdict is green. `bounds` holds it
    by request, the hundred largest first. `archive` are sentences, `left_behind` is what stayed on the machine, `proof`, `shared` and `control` are by start,
    `devices` too, if they were drawn. `localisation` is None if there was nothing to localise.
    `repository` and what follows are None, or empty, if the run ended before they were known.
    """

    rare_bug_bound: float | None
    identity: IdentityFacts
    ending: str
    repository: RepositoryFacts | None = None
    schedule: ScheduleFacts | None = None
    caches: str | None = None
    budget: BudgetFacts | None = None
    archive: tuple[str, ...] = ()
    left_behind: LeftBehind | None = None
    bounds: tuple[RequestBound, ...] = ()
    proof: tuple[ProofReading, ...] = ()
    shared: tuple[SharedUse, ...] = ()
    control: tuple[ControlOutcome, ...] = ()
    devices: tuple[DeviceFacts, ...] = ()
    localisation: LocalisationFacts | None = None
