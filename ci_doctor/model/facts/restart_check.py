# SPDX-License-Identifier: Apache-2.0
"""The facts of `ci-doctor restart-check`. Pure."""

from msgspec import Struct

from ci_doctor.model.facts import Facts
from ci_doctor.model.service import NamedProcess, ServiceFailure, StopResult


class PhaseFacts(Struct, frozen=True, kw_only=True):
    """The requests of a phase by how they ended; `rate` is answers a second of the best pass.

    `empty` answers hold no text, `blank` ones nothing but white space.
    """

    ok: int
    failed: int
    hung: int
    empty: int
    seconds: float
    rate: float | None
    errors: tuple[str, ...]
    blank: int = 0


class RestartIdentityFacts(Struct, frozen=True, kw_only=True):
    """One start of the service: `started` is clock ticks since boot."""

    pid: int
    started: int


class ReleaseFacts(Struct, frozen=True, kw_only=True):
    """Seconds from the death until each was released; `rss` was held before, in bytes."""

    port: int | None
    port_s: float | None
    port_owner: str | None
    tree_s: float | None
    processes: tuple[NamedProcess, ...]
    commands: tuple[str, ...]
    memory_s: float | None
    memory_left: tuple[str, ...]
    rss: int
    memory_seen: tuple[str, ...] = ()
    memory_unknown: tuple[str, ...] = ()
    memory_taken_back: tuple[str, ...] = ()


class ConditionFacts(Struct, frozen=True, kw_only=True):
    """A condition: seconds from the relaunch until it held, or what was wrong last."""

    label: str
    after_s: float | None
    problem: str | None


class DifferenceFacts(Struct, frozen=True, kw_only=True):
    """An answer that the baseline never gave."""

    id: str
    phase: str
    before: str
    after: str


class BlankAnswerFacts(Struct, frozen=True, kw_only=True):
    """An answer without any word to a request that always got words before the kill."""

    id: str
    phase: str


class WritesFacts(Struct, frozen=True, kw_only=True):
    """The lines that `load` printed, before the kill and in all, and what `verify` says is lost."""

    before_kill: int
    acknowledged: int
    load_ended: str | None
    lost: tuple[str, ...]
    lost_count: int
    verified: bool
    problem: str | None


class AnswerComparisonFacts(Struct, frozen=True, kw_only=True):
    """The answers after the restart beside those before; counts of requests, but for `blank_count`.

    `different_…` count texts. `shorter`: less than half as long. `steady`: one text in every pass
    of the baseline; `changed`: another one after; `restless`: another one in a control start. `agreed`: the same text in all `controls` starts before
    the baseline, too; `unkept_count`: another one in every pass after. `noisy`: varied and repeated
    before the kill; `chance`: so many of them may look unkept by chance.
    """

    requests: int = 0
    blank: tuple[BlankAnswerFacts, ...] = ()
    blank_count: int = 0
    different_before: int = 0
    different_after: int = 0
    compared: int = 0
    shorter: int = 0
    steady: int = 0
    changed: int = 0
    controls: int = 0
    restless: int = 0
    agreed: int = 0
    unkept: tuple[DifferenceFacts, ...] = ()
    unkept_count: int = 0
    noisy: int = 0
    chance: float = 0.0
    models_before: tuple[str, ...] = ()
    models_after: tuple[str, ...] = ()


class TermsFacts(Struct, frozen=True, kw_only=True):
    """What was promised; 0 of `throughput`, `control_starts` or `acknowledged` is none."""

    kill: str
    signal: str
    request_timeout_s: float
    release_timeout_s: float
    recovery_timeout_s: float
    throughput: float
    same_outputs: bool
    control_starts: int = 0
    acknowledged: int = 0


class RestartCheckFacts(Facts, frozen=True, kw_only=True):
    """Everything observed; what was not reached is null or empty.

    `promises` are `kept`, `broken` or `untested` by rule. `down_s` counts from the end of the
    service to its being ready again.
    """

    requests: int
    phases: dict[str, PhaseFacts]
    failures: tuple[ServiceFailure, ...]
    failed_in: str | None
    unready_before: tuple[ConditionFacts, ...]
    killed_at: int | None
    refused: bool
    ended_s: float | None
    released: ReleaseFacts | None
    outage_s: float | None
    ready_s: float | None
    recovered_s: float | None
    not_ready: str | None
    conditions: tuple[ConditionFacts, ...]
    old: RestartIdentityFacts | None
    new: RestartIdentityFacts | None
    no_longer_ready: str | None
    different: tuple[DifferenceFacts, ...]
    different_count: int
    unstable: tuple[str, ...]
    stopped: StopResult | None
    ending: str
    terms: TermsFacts
    promises: dict[str, str]
    down_s: float | None
    identity_changed: bool | None
    throughput_ratio: float | None
    answers: AnswerComparisonFacts = AnswerComparisonFacts()
    prompts: int = 0
    writes: WritesFacts | None = None
