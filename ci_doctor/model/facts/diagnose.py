# SPDX-License-Identifier: Apache-2.0
"""Pure. The facts of `ci-doctor diagnose`."""

from msgspec import Struct

from ci_doctor.model.facts import Facts


class LogLine(Struct, frozen=True, kw_only=True):
    """A line of a log: `line` is 1-based, `text` has no escape sequences and no CI stamps.

    message: `text` without the names of its process and its logger.
    """

    file: str
    line: int
    text: str
    message: str


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


class RootCause(Struct, frozen=True, kw_only=True, rename={"class_": "class"}):
    """The line that explains the failure.

    rule: the id of the log rule. class_: of failures, None if the rule has none, and `title` the
    same in words. retry: whether another run can help, `yes`, `no` or `ask` (a person first), and
    `about_retry` as a sentence.
    is_outside: the line shows a cause outside the change. may_be_retried: the exit code by class is
    that of `infra`. confidence: how probable it is that this is the cause, 0 to 1, and `likelihood`
    the same in words. reasons: what it rests on. fingerprint: the same for the same cause in another
    build. consequences: what follows from it, in order.
    """

    place: LogLine
    rule: str
    class_: str | None
    title: str
    retry: str
    about_retry: str
    is_outside: bool
    may_be_retried: bool
    confidence: float
    likelihood: str
    reasons: tuple[str, ...]
    fingerprint: str
    explanation: str
    remedy: str
    next_command: str | None
    consequences: tuple[LogLine, ...] = ()


class DiagnoseFacts(Facts, frozen=True, kw_only=True):
    """What the logs tell.

    root_cause: None without a good candidate. excerpt: the lines around it, or around the best
    place to begin. source: the place in source code that the cause names. others: what else might
    be the cause. logs: those that were read. unreadable: from what could not be read, or not whole, to
    the reason. exit_status: of the command, or the negative number of the signal that ended it; None
    if nobody gave it.
    """

    root_cause: RootCause | None
    excerpt: LogLines | None
    others: tuple[LogLine, ...]
    logs: tuple[str, ...]
    unreadable: dict[str, str]
    exit_status: int | None = None


class NamedCause(Struct, frozen=True, kw_only=True, rename={"class_": "class"}):
    """A cause that appeared in a log that is followed; the fields are those of RootCause."""

    place: LogLine
    rule: str
    class_: str | None
    title: str
    retry: str
    fingerprint: str
    explanation: str
    remedy: str
    next_command: str | None


class FollowFacts(Facts, frozen=True, kw_only=True):
    """The causes that were named while logs were followed, in the order of their appearance."""

    causes: tuple[NamedCause, ...]


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
