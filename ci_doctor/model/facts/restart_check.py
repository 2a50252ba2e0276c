# SPDX-License-Identifier: Apache-2.0
"""What `ci-doctor restart-check` observes of a service that is killed and started again: its facts. Pure."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from ci_doctor.model.facts import Facts
from ci_doctor.model.facts.launch import NamedProcess, ServiceFailure, StopResult
from ci_doctor.model.outcome import Verdict


class Phase(StrEnum):
    """What is going on when a request is sent. `kill` is the load until the service is dead.

    `control` are the fresh starts before the one that is killed.
    """

    CONTROL = "control"
    BASELINE = "baseline"
    KILL = "kill"
    OUTAGE = "outage"
    RECOVERY = "recovery"
    AFTER = "after"


class Moment(StrEnum):
    """When the signal is sent: during a start, under load, while it saves, while an orderly stop goes on."""

    BEFORE_READY = "before-ready"
    UNDER_LOAD = "under-load"
    SAVING = "saving"
    STOPPING = "stopping"


class RestartEnding(StrEnum):
    """Why the check ended: it was complete (or could not go on), time was up, or a signal came."""

    COMPLETE = "complete"
    BUDGET = "budget"
    SIGINT = "SIGINT"
    SIGTERM = "SIGTERM"
    SIGHUP = "SIGHUP"
    SIGQUIT = "SIGQUIT"

    @property
    def is_signal(self) -> bool:
        """Whether a signal ended the check."""
        return self not in {RestartEnding.COMPLETE, RestartEnding.BUDGET}


class Counts(Struct, kw_only=True):
    """The requests of a phase by how they ended; `hung` ones were given up at their time limit.

    `seconds` is how long requests were sent, `rate` the answers per second of the best pass (of
    phases that consist of whole passes), `free_rate` that of the best pass without the time in which
    one thread of the services, or of ci-doctor, waited for a CPU. `errors` are the first three that differ, `empty` counts
    answers that hold no text, `blank` those and the ones with white space alone.
    """

    ok: int = 0
    failed: int = 0
    hung: int = 0
    empty: int = 0
    blank: int = 0
    seconds: float = 0.0
    rate: float | None = None
    free_rate: float | None = None
    errors: tuple[str, ...] = ()

    @property
    def sent(self) -> int:
        """How many requests were sent."""
        return self.ok + self.failed + self.hung

    @property
    def has_words(self) -> bool:
        """Whether any answer holds a word."""
        return self.ok > max(self.empty, self.blank)

    @property
    def answers_a_second(self) -> float | None:
        """Answers per second of the best pass or the whole phase; None if it took no time."""
        if self.rate is not None:
            return self.rate
        if not self.seconds:
            return None
        return self.ok / self.seconds


class ProcessIdentity(Struct, frozen=True, kw_only=True):
    """One start of a service: `started` is clock ticks since boot."""

    pid: int
    started: int


class Released(Struct, kw_only=True):
    """Seconds from the death until each was released; None if not in time, or not checked.

    `port` is the checked number, `port_owner` who still had it. `processes` outlived the service
    and were stopped then, `commands` are how they were started. `memory_left` are sentences,
    `memory_seen` the places that were looked at. `memory_taken_back` names what its next start
    removed or uses itself. `rss` is what the service's processes held before, in bytes.
    """

    port: int | None = None
    port_s: float | None = None
    port_owner: str | None = None
    tree_s: float | None = None
    processes: tuple[NamedProcess, ...] = ()
    commands: tuple[str, ...] = ()
    memory_s: float | None = None
    memory_left: tuple[str, ...] = ()
    memory_seen: tuple[str, ...] = ()
    memory_taken_back: tuple[str, ...] = ()
    rss: int = 0


class ConditionResult(Struct, frozen=True, kw_only=True):
    """A `recovered` condition: seconds from the relaunch until it held.

    Without `after_s` it did not hold, and `problem` is what was wrong last.
    """

    label: str
    after_s: float | None
    problem: str | None = None


class DifferentAnswer(Struct, frozen=True, kw_only=True):
    """An answer that the baseline never gave to this request: both as a person reads them."""

    id: str
    phase: Phase
    before: str
    after: str


class BlankAnswer(Struct, frozen=True, kw_only=True):
    """An answer without any word to a request that always got words in the baseline."""

    id: str
    phase: Phase


class AcknowledgedWrites(Struct, frozen=True, kw_only=True):
    """What the command `load` printed as acknowledged, and what `verify` says of it.

    `before_kill` lines came before the signal, `acknowledged` is all of them. `load_ended` tells how the
    load ended before the kill, if it did. `lost` are the first lines of the verifier, of `lost_count`.
    `verified` tells that it could judge; otherwise `problem` is what was wrong.
    """

    before_kill: int = 0
    acknowledged: int = 0
    load_ended: str | None = None
    lost: tuple[str, ...] = ()
    lost_count: int = 0
    verified: bool = False
    problem: str | None = None


class AnswerComparison(Struct, frozen=True, kw_only=True):
    """The answers after the restart beside those before, whatever `same_outputs` is.

    `requests` were answered before, `compared` of them also after. `blank` are the first answers
    that lost their words, of `blank_count` since the kill. `different_before` and
    `different_after` count the different texts over all requests. `shorter` counts requests whose
    every answer has less than half of its length before; `steady` those that got one text in every
    pass of the baseline, and `changed` those of them that got another one after. `controls` fresh starts
    before the baseline were answered, and `restless` of the steady requests got another text in one of
    them. `agreed` requests got one text in every one of them and in the
    baseline; `unkept` are the first of those that got another one in every pass after, of `unkept_count`.
    `noisy` requests varied before the kill and repeated themselves: by chance alone `chance` requests
    at most would be among the unkept ones. The models are those that the answers name.
    """

    requests: int = 0
    blank: tuple[BlankAnswer, ...] = ()
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
    unkept: tuple[DifferentAnswer, ...] = ()
    unkept_count: int = 0
    noisy: int = 0
    chance: float = 0.0
    models_before: tuple[str, ...] = ()
    models_after: tuple[str, ...] = ()


class Observation(Facts, frozen=True, kw_only=True):
    """Everything observed; what was not reached is None or empty.

    `requests` is the size of the load, of so many different `prompts`. `failures` are of services that failed by themselves in
    `failed_in`, the root cause first. `killed_at` is how many requests were done when the signal
    was sent. `unreached` tells why the moment for it did not come. An orderly stop took `stop_s` and the start
    after it `start_s`; the signal came `into_s` seconds into one of them, or after `saving` held.
    `writes` is None without a command that makes them. `ended_s` counts from that to the end of the process, `outage_s` from there to the
    relaunch, `ready_s` and `recovered_s` from the relaunch. `refused` tells that it did not end by
    the signal and had to be killed. `not_ready` is what was wrong with its own probe when the time
    was up. `unready_before` are conditions that did not even hold before the kill. `unstable`
    requests got different answers in the baseline itself.
    """

    requests: int
    prompts: int = 0
    phases: Mapping[Phase, Counts] = {}
    failures: tuple[ServiceFailure, ...] = ()
    failed_in: Phase | None = None
    unready_before: tuple[ConditionResult, ...] = ()
    killed_at: int | None = None
    unreached: str | None = None
    stop_s: float | None = None
    start_s: float | None = None
    into_s: float | None = None
    refused: bool = False
    ended_s: float | None = None
    released: Released | None = None
    outage_s: float | None = None
    ready_s: float | None = None
    recovered_s: float | None = None
    not_ready: str | None = None
    conditions: tuple[ConditionResult, ...] = ()
    old: ProcessIdentity | None = None
    new: ProcessIdentity | None = None
    no_longer_ready: str | None = None
    different: tuple[DifferentAnswer, ...] = ()
    different_count: int = 0
    unstable: tuple[str, ...] = ()
    answers: AnswerComparison = AnswerComparison()
    writes: AcknowledgedWrites | None = None
    stopped: StopResult | None = None
    ending: RestartEnding = RestartEnding.COMPLETE

    @property
    def was_killed(self) -> bool:
        """Whether the signal was sent, after a load that was answered whole."""
        return self.killed_at is not None

    def counts(self, phase: Phase) -> Counts:
        """The requests of a phase; none if it was not reached."""
        return self.phases.get(phase, Counts())

    @property
    def since_kill(self) -> dict[Phase, Counts]:
        """The phases after the baseline, as far as they were reached."""
        phases = dict(self.phases)
        phases.pop(Phase.CONTROL, None)
        phases.pop(Phase.BASELINE, None)
        return phases

    @property
    def ratio(self) -> float | None:
        """Throughput after the restart over that before; None if one of them is missing."""
        before = self.counts(Phase.BASELINE).rate
        after = self.counts(Phase.AFTER).rate
        # `not before` covers 0.0 too, by which nothing can be divided.
        if not before or after is None:
            return None
        return after / before

    @property
    def hung(self) -> int:
        """Requests of all phases after the baseline that were given up at their time limit."""
        hung = 0
        for counts in self.since_kill.values():
            hung += counts.hung
        return hung


class Terms(Struct, frozen=True, kw_only=True):
    """What is promised: which service is killed and how, limits in seconds, the least throughput.

    The signal is sent at `moment`; `stop_signal` is what asks for an orderly stop. `by_command`: the
    clients are commands, which may be silent. A `throughput` of 0 promises none. `control_starts` are wanted before the kill. `acknowledged` writes are wanted before it,
    0 without a load that writes.
    """

    kill: str
    signal: str
    moment: Moment = Moment.UNDER_LOAD
    stop_signal: str = "SIGTERM"
    by_command: bool = False
    request_timeout_s: float
    release_timeout_s: float
    recovery_timeout_s: float
    throughput: float
    same_outputs: bool
    control_starts: int = 0
    acknowledged: int = 0


class RestartCheckFacts(Observation, frozen=True, kw_only=True):
    """Everything observed, what was promised, and what became of it.

    `promises` are `kept`, `broken` or `untested` by rule. `down_s` counts from the end of the
    service to its being ready again.
    """

    terms: Terms
    promises: dict[str, str]
    down_s: float | None


class RestartCell(Struct, frozen=True, kw_only=True):
    """One restart of a sweep: its moment and signal, what was concluded, and what that rests on.

    `restart` is None if the budget ended before it was begun, or it could not be made. `kept` tells that an earlier run had made it.
    """

    moment: Moment
    signal: str
    verdict: Verdict
    summary: str
    restart: RestartCheckFacts | None = None
    kept: bool = False


class RestartSweepFacts(Facts, frozen=True, kw_only=True):
    """Every restart of a sweep, in the order in which they were made."""

    cells: tuple[RestartCell, ...]
