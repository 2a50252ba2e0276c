# SPDX-License-Identifier: Apache-2.0
"""The facts of `ci-doctor import-race` and of `ci-doctor import-race probe`. Pure."""

from enum import StrEnum
from typing import Literal

from msgspec import Struct, field

from ci_doctor.model.facts import Facts


class Site(Struct, frozen=True, kw_only=True):
    """A line of code. `module` is the `__name__` there; a script of `-m a.b` has `__main__:a.b`."""

    file: str
    line: int
    module: str


class Closeness(StrEnum):
    """How close two imports came in the recorded run.

    FIRED: it did harm. HANDED_OUT: a thread received a wrong module, and missed nothing in it.
    NEAR: the imports overlapped. LATENT: nothing orders them.
    """

    FIRED = "fired"
    HANDED_OUT = "handed out"
    NEAR = "near"
    LATENT = "latent"


class Import(Struct, frozen=True, kw_only=True):
    """One thread's import of module `name` at `site`.

    chain: the statements from the outermost one to `site`; each one loads the module that contains
    the next one. began_ns: when the thread requested the module. ended_ns: when the module was
    loaded; None if that is not known. names: the from-list. thread_started_at: where the thread was
    started; None for the first thread.
    """

    thread: str
    name: str
    site: Site
    chain: tuple[Site, ...]
    began_ns: int
    ended_ns: int | None
    names: tuple[str, ...] = ()
    thread_started_at: Site | None = None


class Hazard(Struct, frozen=True, kw_only=True):
    """Two imports of process `pid` that must not meet.

    kind: the name of a `HazardKind`. first: the import that loads the module. second: the import that fails if they meet. margin_ns:
    the time from the end of the first's loading to the second's request; negative if they
    overlapped, None if the end is not known. pair: the modules whose locks the first and the second
    hold; None if only one module is involved. detail: how close it was, in a sentence.
    """

    kind: str
    closeness: Closeness
    pid: int
    modules: tuple[str, ...]
    first: Import
    second: Import
    margin_ns: int | None
    pair: tuple[str, str] | None
    detail: str


class Standing(StrEnum):
    """What is known of a hazard at the end.

    FIRED: it did harm in the recorded run. CONFIRMED: it did harm in a run with a delay. POSSIBLE:
    no runs with a delay were requested. OPEN: they could not decide it. HARMLESS: a thread was
    handed an incomplete module, and missed nothing in it. SAFE: no delay made it happen.
    """

    FIRED = "fired"
    CONFIRMED = "confirmed"
    POSSIBLE = "possible"
    OPEN = "open"
    HARMLESS = "no harm seen"
    SAFE = "not confirmed"


class RuleStanding(StrEnum):
    """What is known of a preload rule.

    WON: under the delay that makes the race fire, it did not fire with the rule. LOST: it fired, or
    the rule did not preload. UNTRIED: no such run was made. IMPOSSIBLE: no import that a shim sees
    loads the trigger.
    """

    WON = "won"
    LOST = "lost"
    UNTRIED = "not tried"
    IMPOSSIBLE = "cannot fire"


class Remedy(Struct, frozen=True, kw_only=True):
    """What keeps the two imports apart: a preload rule, or an import to move; `text` advises.

    rule: by its text. rule_standing: what is known of it.
    """

    rule: str | None
    move: str | None
    text: str
    rule_standing: RuleStanding | None = None


class ReportedHazard(Hazard, frozen=True, kw_only=True):
    """A hazard, what ends it, and what is known of it. hold: the delay that made it fire."""

    remedy: Remedy
    standing: Standing
    hold: str | None


class Escape(Struct, frozen=True, kw_only=True):
    """A thread started a Python that does not record: why is "-I", "clean environment" and the like."""

    argv: tuple[str, ...]
    why: str


class RaceCounts(Struct, frozen=True, kw_only=True):
    """How many hazards have each standing, and how much was recorded."""

    fired: int
    confirmed: int
    possible: int
    open: int
    not_confirmed: int = field(name="not confirmed")
    no_harm_seen: int = field(name="no harm seen", default=0)
    processes: int
    threads: int
    loaded: int
    waits: int
    deadlocks: int


class RecordedProcessFacts(Struct, frozen=True, kw_only=True):
    """One recorded process; `loaded` counts the modules that its threads executed."""

    pid: int
    parent_pid: int
    executable: str
    version: str
    argv: tuple[str, ...]
    forked: bool
    threads: tuple[str, ...]
    loaded: int
    waits: int
    deadlocks: int
    escapes: tuple[Escape, ...]
    truncated: bool


class RecordedCommandFacts(Struct, frozen=True, kw_only=True):
    """How the recorded command ended; `isolated` says why its own Python did not record."""

    exit_code: int | None
    signal: str | None
    duration_s: float
    timed_out: bool
    outlived: tuple[str, ...]
    isolated: str | None


class AnalysisFacts(Struct, frozen=True, kw_only=True):
    """Whether everything that could meet was compared.

    not_looked_at: races of imports that no recording shows.
    """

    is_whole: bool
    not_looked_at: tuple[str, ...] = ()


class ImportRaceFacts(Facts, frozen=True, kw_only=True):
    """What was recorded, and what can race. An immune interpreter lacks the hazards of self-replacing modules."""

    hazards: tuple[ReportedHazard, ...]
    counts: RaceCounts
    interpreters: dict[str, Literal["exposed", "immune", "unknown"]]
    processes: tuple[RecordedProcessFacts, ...]
    command: RecordedCommandFacts
    analysis: AnalysisFacts


class ImportProbeFacts(Facts, frozen=True, kw_only=True):
    """Whether one interpreter can lose the import of one module.

    exposed: None if the module cannot be imported at all. rule: a preload rule
    that works for each program; its trigger is `threading`. Better is the module that starts the
    thread.
    """

    module: str
    attribute: str | None
    python: str
    exposed: bool | None
    error: str | None
    loaded_before: bool
    replaced: tuple[str, ...]
    immune: bool
    rule: str | None
