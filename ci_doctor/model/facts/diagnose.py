# SPDX-License-Identifier: Apache-2.0
"""Pure. The facts of `ci-doctor setup-env`, `ci-doctor run` with a watch or a diagnosis, and `ci-doctor diagnose`."""

from enum import StrEnum

from msgspec import Struct

from ci_doctor.model.cause import Cause, LogLine
from ci_doctor.model.facts import Facts
from ci_doctor.model.facts.launch import LeftBehind, ServiceFailure


class SetVariable(Struct, frozen=True, kw_only=True):
    """Export `name=value`; `why` is one clause for a reader."""

    name: str
    value: str
    why: str


class FileState(StrEnum):
    """What writing a file would do, or did."""

    CREATE = "create"
    REPLACE = "replace"
    UNCHANGED = "unchanged"
    REMOVE = "remove"


class DeterminismFact(Struct, frozen=True, kw_only=True):
    """One determinism variable: the value that was requested, by whom, and what is known of its effect."""

    name: str
    requested: str
    set_by: str
    effective: str


class ProofFact(Struct, frozen=True, kw_only=True):
    """Whether a build of a project's metadata has proven its pin; `reason` is None if it has."""

    project: str
    proven: bool
    seconds: float
    reason: str | None = None


class SetupEnvFacts(Facts, frozen=True, kw_only=True):
    """What a job is to export.

    `exports` in their order; `changed` names the variables and files that differ from before;
    `targets` are the interpreters that the environment was prepared for. `proofs` are the pins
    that were tried in a build, and those that could not be.
    """

    exports: dict[str, str]
    changed: tuple[str, ...]
    determinism: tuple[DeterminismFact, ...]
    targets: tuple[str, ...]
    proofs: tuple[ProofFact, ...] = ()


class RunFacts(SetupEnvFacts, frozen=True, kw_only=True):
    """`preload` are the rules by which the command preloads."""

    preload: tuple[str, ...] = ()


# --- what `ci-doctor run --watch` saw of a script; the same in a report's facts ---


class WatchedCommand(Struct, frozen=True, kw_only=True):
    """A command of the script's tree.

    start_s: from the script's start to its own, the first of `count` times. seconds: how long it ran
    in all. exit_code and signal: of the last time; None if nobody knows, or if it runs on. log: the
    file that its output went to. ports: those that it listened on.
    """

    command: str
    pid: int
    start_s: float
    seconds: float
    count: int = 1
    exit_code: int | None = None
    signal: str | None = None
    runs_on: bool = False
    log: str | None = None
    ports: tuple[int, ...] = ()


class WatchedServer(Struct, frozen=True, kw_only=True):
    """A port that was served from `start_s` to `end_s`; None if it still was at the end.

    command: None if its process is none of the script's. asked_s: when a connection to it was
    refused first, `refused` how many were before it was up.
    """

    port: int
    command: str | None
    start_s: float
    end_s: float | None = None
    asked_s: float | None = None
    refused: int = 0


class WatchedDeath(Struct, frozen=True, kw_only=True):
    """A server that ended while the script waited for it: how, and `waits`, a sentence on what waits.

    port: the one that was asked for, None if it was a line in its log. is_late: no wait was noticed;
    it had ended before the script failed, and `waits` is on that failure.
    """

    failure: ServiceFailure
    waits: str
    said_s: float
    port: int | None = None
    is_late: bool = False


class WatchedStall(Struct, frozen=True, kw_only=True):
    """A time in which nothing was done, and what each process waited for, in lines.

    why: `stall`, or `deadline` if only the time of the step was short.
    """

    start_s: float
    seconds: float
    why: str
    processes: tuple[str, ...]


class WatchFacts(Struct, frozen=True, kw_only=True):
    """What was seen of a script.

    unseen: how many pids were given out and gone before a look could tell what they were, in this
    pid namespace: processes and threads, others' too. cpu_s: what the watch took itself. is_ended:
    it ended the script. problem: why it saw no more. ends: jobs in the background that ended by a
    fault of their own before the script failed, where nothing shows that it needed them.
    """

    commands: tuple[WatchedCommand, ...] = ()
    servers: tuple[WatchedServer, ...] = ()
    deaths: tuple[WatchedDeath, ...] = ()
    ends: tuple[ServiceFailure, ...] = ()
    stalls: tuple[WatchedStall, ...] = ()
    left: LeftBehind = LeftBehind()
    unseen: int = 0
    cpu_s: float = 0.0
    is_ended: bool = False
    problem: str | None = None

    @property
    def unanswered(self) -> tuple[WatchedDeath, ...]:
        """The deaths after which nobody served that port again."""
        return tuple(
            each
            for each in self.deaths
            if not any(it.port == each.port and it.start_s > each.said_s for it in self.servers)
        )


# --- the facts of `ci-doctor diagnose` ---


class LogLines(Struct, frozen=True, kw_only=True):
    """Neighbouring lines of a log.

    first_line: the 1-based number of the first one. marked: the index of the one meant. messages:
    the lines without the names of the process and the logger, if they are of the same process.
    """

    file: str
    first_line: int
    lines: tuple[str, ...]
    marked: int
    messages: tuple[str, ...]


class DiagnoseFacts(Facts, frozen=True, kw_only=True):
    """What the logs tell.

    root_cause: None without a good candidate. excerpt: the lines around it, or around the best
    place to begin. source: the place in source code that the cause names. others: what else might
    be the cause. logs: those that were read. unreadable: from what could not be read, or not whole, to
    the reason. exit_status: of the command, or the negative number of the signal that ended it; None
    if nobody gave it.
    """

    root_cause: Cause | None
    excerpt: LogLines | None
    others: tuple[LogLine, ...]
    logs: tuple[str, ...]
    unreadable: dict[str, str]
    exit_status: int | None = None


class FollowFacts(Facts, frozen=True, kw_only=True):
    """The causes that were named while logs were followed, in the order of their appearance."""

    causes: tuple[Cause, ...]


class LogRuleFacts(Struct, frozen=True, kw_only=True, rename={"class_": "class"}):
    """A rule about log lines."""

    id: str
    role: str
    class_: str | None
    explanation: str
    remedy: str


class LogRulesFacts(Facts, frozen=True, kw_only=True):
    """All rules, in the order of their files."""

    rules: tuple[LogRuleFacts, ...]


class RuleProblemFacts(Struct, frozen=True, kw_only=True):
    """What is wrong with a rule: `line` is that of its file, 1-based; None if it is not known.

    is_mistake: the rule cannot be used; otherwise it may do less than it seems.
    """

    rule: str
    line: int | None
    problem: str
    is_mistake: bool = True


class RuleCheckFacts(Facts, frozen=True, kw_only=True):
    """How a rules file did: the rules in it, and what is wrong with them."""

    file: str
    rules: int
    problems: tuple[RuleProblemFacts, ...]


class SupervisedRunFacts(RunFacts, frozen=True, kw_only=True):
    """How the command ended, beside what it was prepared with.

    exit_code: of the command itself; None if `signal` ended it. log: its output, relative to the
    report directory; None if it was not kept. problems: sentences on output that could not be
    handed on or kept, or on a diagnosis that could not be made. kernel: sentences on what the kernel
    says of memory and faults, if a signal may have ended the command. diagnosis: what its log says,
    as of `ci-doctor diagnose`; None if nobody looked for a cause. watch: what was seen of the script,
    with `--watch`.
    """

    command: tuple[str, ...]
    exit_code: int | None
    signal: str | None
    log: str | None
    problems: tuple[str, ...] = ()
    kernel: tuple[str, ...] = ()
    diagnosis: DiagnoseFacts | None = None
    watch: WatchFacts | None = None
