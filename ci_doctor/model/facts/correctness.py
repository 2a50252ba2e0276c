# SPDX-License-Identifier: Apache-2.0
"""The facts of `ci-doctor correctness`. Pure."""

from msgspec import Struct

from ci_doctor.model.facts.answers import AnswerFacts, RequestBound
from ci_doctor.model.facts.archive import ArchiveUseFacts
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


class ProofFacts(Struct, frozen=True, kw_only=True):
    """What was read in a start (`B1`) to prove that the arm's path ran, and whether it is enough.

    Of a counter: its values before and after the requests, None if absent; `above` is what the rise
    must exceed, `idle` how far it rose between two readings without a request, `unread` that the page before them could not be read. Of a `log` pattern: the 1-based number of the first line that matches, and its text.
    """

    start: str
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


class SharedReadFacts(Struct, frozen=True, kw_only=True):
    """A file that a start read, and the start of the other arm (`A1`) that wrote it."""

    path: str
    writer: str


class SharedFacts(Struct, frozen=True, kw_only=True):
    """What a start did with files that both arms reach.

    `written` are some of the `count` files that changed while it ran, by whomever, and `read` those
    of the other arm that a process of the start read. `unseen`: why it may have read more.
    """

    start: str
    count: int
    written: tuple[str, ...] = ()
    read: tuple[SharedReadFacts, ...] = ()
    unseen: str | None = None


class ControlFacts(Struct, frozen=True, kw_only=True):
    """What came of the control of a start (`A1`): a copy of `request` with a changed prompt.

    `result` is `changed` if it changed the answer; `same`, `undecided` (the same, perhaps by
    chance), `unanswered` (with the `error`) or `impossible` (no prompt could be changed).
    """

    start: str
    result: str
    request: str
    error: str | None = None


class DeviceFacts(Struct, frozen=True, kw_only=True):
    """The value of CUDA_VISIBLE_DEVICES that was drawn for a start (`A1`)."""

    start: str
    devices: str


class CorrectnessFacts(AnswerFacts, frozen=True, kw_only=True):
    """What the starts of a run answered, and what the verdict rests on.

    `differing` counts requests by pair of starts (`A1/B1`). `rare_bug_bound` is the rate of a fault on
    one request that is not excluded, from 0 to 1; None unless the verdict is green. `bounds` holds it
    by request, the hundred largest first. `archive` are sentences, `archived` counts what was used of
    it, `left_behind` is what stayed on the machine, `proof`, `shared` and `control` are by start,
    `devices` too, if they were drawn. `localisation` is None if there was nothing to localise.
    `repository` and what follows are None, or empty, if the run ended before they were known.
    """

    differing: dict[str, int]
    rare_bug_bound: float | None
    suspects: tuple[str, ...]
    identity: IdentityFacts
    ending: str
    repository: RepositoryFacts | None = None
    schedule: ScheduleFacts | None = None
    caches: str | None = None
    budget: BudgetFacts | None = None
    archive: tuple[str, ...] = ()
    archived: ArchiveUseFacts | None = None
    left_behind: LeftBehind | None = None
    bounds: tuple[RequestBound, ...] = ()
    proof: tuple[ProofFacts, ...] = ()
    shared: tuple[SharedFacts, ...] = ()
    control: tuple[ControlFacts, ...] = ()
    devices: tuple[DeviceFacts, ...] = ()
    localisation: LocalisationFacts | None = None
