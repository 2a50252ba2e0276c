# SPDX-License-Identifier: Apache-2.0
"""Pure. The facts of `ci-doctor diagnose`."""

from msgspec import Struct

from ci_doctor.model.cause import Cause, LogLine
from ci_doctor.model.facts import Facts
from ci_doctor.model.facts.setup_env import RunFacts
from ci_doctor.model.facts.watch import WatchFacts


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
