# SPDX-License-Identifier: Apache-2.0
"""The facts of `ci-doctor import-race` and of `ci-doctor import-race probe`. Pure."""

from typing import Literal

from msgspec import Struct, field

from ci_doctor.model.facts import Facts


class SiteFacts(Struct, frozen=True, kw_only=True):
    """A line of code."""

    file: str
    line: int
    module: str


class ImportFacts(Struct, frozen=True, kw_only=True):
    """One thread's import of a module; times are nanoseconds of the machine's monotonic clock.

    chain: the statements from the outermost one to `site`.
    """

    thread: str
    name: str
    site: SiteFacts
    chain: tuple[SiteFacts, ...]
    began_ns: int
    ended_ns: int | None
    names: tuple[str, ...]
    thread_started_at: SiteFacts | None


class RemedyFacts(Struct, frozen=True, kw_only=True):
    """What keeps the two imports apart: a preload rule, or an import to move; `text` advises.

    `rule_standing` is `won` if the race that fired did not fire with the rule, else `not tried`.
    """

    rule: str | None
    move: str | None
    text: str
    rule_standing: str | None = None


class HazardFacts(Struct, frozen=True, kw_only=True):
    """Two imports that must not meet; `margin_ns` is negative if they overlapped."""

    kind: str
    closeness: str
    pid: int
    modules: tuple[str, ...]
    first: ImportFacts
    second: ImportFacts
    margin_ns: int | None
    pair: tuple[str, str] | None
    remedy: RemedyFacts
    detail: str


class JudgedHazardFacts(HazardFacts, frozen=True, kw_only=True):
    """A hazard and what is known of it. hold: the delay that made it fire."""

    standing: str
    hold: str | None


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


class EscapeFacts(Struct, frozen=True, kw_only=True):
    """A child that did not record, and why."""

    argv: tuple[str, ...]
    why: str


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
    escapes: tuple[EscapeFacts, ...]
    ended_by_itself: bool
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
    """What was recorded, and what can race.

    `immune_to` are hazards that an immune interpreter does not have.
    """

    hazards: tuple[JudgedHazardFacts, ...]
    immune_to: tuple[HazardFacts, ...]
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
