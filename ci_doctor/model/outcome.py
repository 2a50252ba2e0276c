# SPDX-License-Identifier: Apache-2.0
"""Pure. What every room returns: verdicts, findings, tables, outcome and report. Nothing here knows a directory or a terminal."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any, Final

from msgspec import UNSET, Meta, Struct, UnsetType, field

from ci_doctor.model.exit_code import ExitCode
from ci_doctor.model.facts import Facts


class Meaning(Struct, frozen=True):
    """`meaning` and `remedy` are sentences for a reader who sees the word for the first time."""

    meaning: str
    remedy: str


class Verdict(StrEnum):
    """What the evidence proves.

    docs/design.md defines the words, docs/exit-codes.md what a pipeline does with each.
    """

    PASS = "pass"  # noqa: S105
    REGRESSION = "regression"  # a baseline proves it
    FAILED = "failed"  # nothing was compared: nobody knows whether it is the change's fault
    FLAKY = "flaky"
    NONDETERMINISTIC = "nondeterministic"
    INFRA = "infra"
    INCONCLUSIVE = "inconclusive"
    VOID = "void"


# Before a repository's own `[exit-codes]`. `flaky` has its code only under `--fail-on-flaky`;
# without it, it passes.
EXIT_CODES: dict[Verdict, ExitCode] = {
    Verdict.PASS: ExitCode.PASS,
    Verdict.REGRESSION: ExitCode.FAILURE,
    Verdict.FAILED: ExitCode.FAILURE,
    Verdict.FLAKY: ExitCode.FLAKY,
    Verdict.NONDETERMINISTIC: ExitCode.NONDETERMINISTIC,
    Verdict.INFRA: ExitCode.INFRA,
    Verdict.INCONCLUSIVE: ExitCode.UNDECIDED,
    Verdict.VOID: ExitCode.UNDECIDED,
}

# Stands for a report without a verdict (a usage error, a bug, a signal), and for a job that was
# cancelled or never came to its command.
NO_VERDICT = "error"
MISSING = (
    "missing"  # of a job of a build without any report: nothing is proven, as with an empty one
)
# The most urgent one first: it stands for all reports of a job, and for all attempts of a build.
WORST_FIRST: tuple[str, ...] = (
    Verdict.REGRESSION,
    Verdict.FAILED,
    NO_VERDICT,
    MISSING,
    Verdict.VOID,
    Verdict.INCONCLUSIVE,
    Verdict.INFRA,
    Verdict.NONDETERMINISTIC,
    Verdict.FLAKY,
    Verdict.PASS,
)
# What a job of a build has beside a verdict. Both say less of the change than any verdict but a green one.
CANCELLED: Final = "cancelled"
SOFT_FAILED: Final = "soft-failed"
_RANKS: Final = {
    word: rank
    for rank, word in enumerate((*WORST_FIRST[:-2], CANCELLED, SOFT_FAILED, *WORST_FIRST[-2:]))
}
_GREEN: Final = frozenset({Verdict.PASS, Verdict.FLAKY})


def is_green(word: str | None) -> bool:
    """Whether what ended with this verdict lets a pipeline go on."""
    return word in _GREEN


def rank(word: str) -> int:
    """0 for the worst. A word that this version does not know is as bad as no verdict."""
    return _RANKS.get(word, _RANKS[NO_VERDICT])


def worst(words: Iterable[str]) -> str:
    """The worst of `words`; `void` without any."""
    return min(words, key=rank, default=str(Verdict.VOID))


def ordered(words: Iterable[str]) -> list[str]:
    """Each of `words` once, the worst first."""
    return sorted(set(words), key=lambda word: (rank(word), word))


VERDICTS: dict[Verdict, Meaning] = {
    Verdict.PASS: Meaning("Everything was answered, and all of it is the same.", "Nothing."),
    Verdict.REGRESSION: Meaning(
        "The change is at fault: a baseline proves it.",
        "Mend the change. Never retry it until it is green.",
    ),
    Verdict.FAILED: Meaning(
        "Something failed, and nothing was compared: nobody knows whether the change is at fault.",
        "See what is named, and whether the same fails without the change.",
    ),
    Verdict.FLAKY: Meaning(
        "The baseline differs from itself; the candidate adds nothing of its own.",
        "The change may go in; `--fail-on-flaky` makes it a failure (7).",
    ),
    Verdict.NONDETERMINISTIC: Meaning(
        "The environment never repeats itself where it matters.",
        "`soft_fail: [{exit_status: 85}]`, and find out why.",
    ),
    Verdict.INFRA: Meaning(
        "The evidence could not be gathered, for a reason outside the change.",
        "`retry: {automatic: [{exit_status: 75}]}`.",
    ),
    Verdict.INCONCLUSIVE: Meaning(
        "The evidence is not enough.",
        "Run the proposed command: more time (`--budget`), or more starts (`--max-starts`).",
    ),
    Verdict.VOID: Meaning(
        "The evidence is empty, or proves nothing.",
        "See what is missing. It fails closed on purpose.",
    ),
}

EXIT_CODE_MEANINGS: dict[ExitCode, Meaning] = {
    ExitCode.PASS: Meaning("`pass`; `flaky` unless `--fail-on-flaky`.", "Nothing."),
    ExitCode.FAILURE: Meaning("`regression` or `failed`.", "Mend what is named. Never retried."),
    ExitCode.USAGE: Meaning(
        "The command line or the configuration is wrong. Nothing was started, or a command cannot run as it "
        "is written.",
        "Do what the hint says.",
    ),
    ExitCode.FLAKY: Meaning(
        "`flaky` under `--fail-on-flaky` (pytest-rerunfailures' own code).",
        "See the clusters of starts.",
    ),
    ExitCode.BUG: Meaning(
        "A bug in ci-doctor: it says nothing about the job.",
        "Report it, with the text that was printed.",
    ),
    ExitCode.INFRA: Meaning(
        "`infra`: the evidence could not be gathered, for a reason outside the change "
        "(sysexits EX_TEMPFAIL).",
        "`retry: {automatic: [{exit_status: 75, limit: 2}]}`.",
    ),
    ExitCode.NONDETERMINISTIC: Meaning(
        "`nondeterministic`: the environment differs from itself.",
        "`soft_fail: [{exit_status: 85}]`.",
    ),
    ExitCode.UNDECIDED: Meaning(
        "`inconclusive` or `void`: the evidence is not enough, or is empty.",
        "It fails closed. See what is missing.",
    ),
    ExitCode.SIGINT: Meaning(
        "SIGINT: the whole process tree was stopped first, and the report written.", "Run it again."
    ),
    ExitCode.SIGTERM: Meaning(
        "SIGTERM: the whole process tree was stopped first, and the report written.",
        "Run it again.",
    ),
}


# --- a finding: its rule, one sentence, the evidence, and a remedy that can be pasted ---


class Severity(StrEnum):
    """`error` ends the command with exit code 1; `warning` and `note` never change it."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class RemedyKind(StrEnum):
    """How a remedy is to be read: an `advice` is a sentence, a `command` is pasted into a shell."""

    ADVICE = "advice"
    COMMAND = "command"


class ShellCommand(Struct, frozen=True):
    """A remedy to paste into a shell, in one line or several."""

    words: str


NextStep = str | ShellCommand


class Evidence(Struct, frozen=True, kw_only=True):
    """One thing a reader can check.

    `line` and `end_line` are 1-based and inclusive; `excerpt` is text as it stands there, or a
    figure.
    """

    file: str | None = None
    line: int | None = None
    end_line: int | None = None
    excerpt: str | None = None


class Finding(Struct, frozen=True, kw_only=True):
    """What a rule found in one case.

    `rule` is `family/what-happened`: `ci-doctor explain RULE` says more. `summary` is one sentence
    without a full stop. `remedy_kind` is None without a remedy.
    """

    rule: str
    severity: Severity
    summary: str
    evidence: tuple[Evidence, ...] = ()
    remedy: str | None = None
    remedy_kind: RemedyKind | None = None

    @property
    def is_advice(self) -> bool:
        """Whether the remedy is a sentence to read; else it is pasted whole and never broken."""
        return self.remedy_kind is not RemedyKind.COMMAND


class Rule(Struct, frozen=True, kw_only=True):
    """`id` is `family/what-happened`, which `ci-doctor explain` takes.

    `severity` is the usual one. `meaning` and `remedy` are sentences for a reader who sees the id
    for the first time; `remedy` is None if there is nothing to do.
    """

    id: str
    severity: Severity
    meaning: str
    remedy: str | None = None

    def finding(
        self,
        summary: str,
        *,
        evidence: tuple[Evidence, ...] = (),
        remedy: NextStep | None = None,
        severity: Severity | None = None,
    ) -> Finding:
        """A finding by this rule.

        `summary` is one sentence without a full stop. `remedy` is what to do in this very case,
        either advice or a ShellCommand to paste; None leaves it out, and `ci-doctor explain` prints
        the rule's own. `severity` replaces the usual one.
        """
        if isinstance(remedy, ShellCommand):
            text: str | None = remedy.words
            kind: RemedyKind | None = RemedyKind.COMMAND
        else:
            text = remedy
            kind = RemedyKind.ADVICE if remedy else None
        return Finding(
            rule=self.id,
            severity=self.severity if severity is None else severity,
            summary=summary,
            evidence=evidence,
            remedy=text,
            remedy_kind=kind,
        )


# --- tables as values: labels, values and units ---


Scalar = str | int | float | bool | None


class Unit(StrEnum):
    """What a number counts; it decides how a renderer formats the number."""

    SECONDS = "s"
    BYTES = "B"
    SHARE = "share"  # 0 to 1, shown in percent


class Cell(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One value. `unit` is None for text and for plain numbers."""

    value: Scalar
    unit: Unit | None = None


class Row(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A label and its values. A row without cells is a line of text."""

    label: str
    cells: tuple[Cell, ...] = ()


class Table(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A titled block of rows, in the order to be read.

    `columns` name the cells; the label's own column has no name. Empty `columns` make a list of
    labelled values, which needs no header. `is_aside`: it is less urgent than the findings, and
    stands below them. `is_detail`: of a pass, a terminal leaves it to the report's files.
    `is_verbatim`: the rows are lines to copy, and stand as they are.
    """

    title: str
    columns: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    is_aside: bool = False
    is_detail: bool = False
    is_verbatim: bool = False


def seconds(value: float | None) -> Cell:
    """A duration in seconds."""
    return Cell(value=value, unit=Unit.SECONDS)


def size(value: int | None) -> Cell:
    """A size in bytes."""
    return Cell(value=value, unit=Unit.BYTES)


def share(value: float | None) -> Cell:
    """A share between 0 and 1."""
    return Cell(value=value, unit=Unit.SHARE)


def row(label: str, *values: Cell | Scalar) -> Row:
    """A row; plain values become cells without a unit."""
    cells = (each if isinstance(each, Cell) else Cell(value=each) for each in values)
    return Row(label=label, cells=tuple(cells))


def text_table(title: str, lines: tuple[str, ...]) -> Table:
    """A table of lines of text."""
    return Table(title=title, rows=tuple(Row(label=line) for line in lines))


# --- what a report is about: the build, the job, the commit and the machine ---


class About(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where and on what a command ran. What is unknown is absent.

    `build` is the build's number, `step` the step's key, `parallel_index` counts from 0, `attempt`
    counts the job's retries from 0, `repository` is the address of its pages, `gpus` are the names of the machine's GPUs.
    https://buildkite.com/docs/pipelines/configure/environment-variables
    """

    pipeline: str | None = None
    build: int | None = None
    build_url: str | None = None
    job: str | None = None
    step: str | None = None
    parallel_index: int | None = None
    attempt: int | None = None
    commit: str | None = None
    branch: str | None = None
    repository: str | None = None
    agent: str | None = None
    queue: str | None = None
    gpus: tuple[str, ...] = ()


SEPARATOR = "::"


def junit_identity(node_id: str) -> tuple[str, str]:
    """The class name and the name of a pytest node id: `tests/test_a.py::TestX::test_b[1]`.

    They are `tests.test_a.TestX` and `test_b[1]` (`mangle_test_address` of _pytest/junitxml.py). An
    id without `::` has no class name.
    """
    # A parameter may hold `::` and `/`, and ends the id.
    plain, bracket, parameters = node_id.partition("[")
    file, *names = plain.split(SEPARATOR)
    if not names:
        return "", node_id
    classes = names[:-1]
    return ".".join([dotted(file), *classes]), f"{names[-1]}{bracket}{parameters}"


def dotted(file: str) -> str:
    """`tests.test_a` for `tests/test_a.py`, `docs.guide.rst` for `docs/guide.rst`."""
    return file.removesuffix(".py").replace("/", ".")


class CaseOutcome(StrEnum):
    """How one case ended, in JUnit's words.

    `failed` is the change's fault, `error` any other failure.
    """

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    SKIPPED = "skipped"


class CaseAttempt(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One of several executions of a case; `started_at` is RFC 3339 in UTC.

    `job` is the id of the Buildkite job in which it ran, if that is not the report's own.
    """

    outcome: CaseOutcome
    message: str | None = None
    detail: str | None = None
    duration_s: float | None = None
    started_at: str | None = None
    job: str | None = None


class Case(Struct, frozen=True, kw_only=True, gc=False):
    """One checked thing (a request, a pin, a shim), for readers that count test cases.

    Those are JUnit's readers and Buildkite Test Engine. `group` and `name` together identify it
    from run to run. `detail` may be long. `outcome` is the final one. `attempts` are all its
    executions from the first one on; empty if there was one. `kind` is its type in JUnit, if that
    is not the outcome.
    """

    group: str
    name: str
    outcome: CaseOutcome
    message: str | None = None
    detail: str | None = None
    duration_s: float | None = None
    attempts: tuple[CaseAttempt, ...] = ()
    kind: str | UnsetType = UNSET


class Attempt(Struct, frozen=True, kw_only=True):
    """One try at gathering evidence: a server start, a test run.

    `outcome` is a short phrase ("answered 100/100", "died before ready: exit code 3"); `log` is a
    path.
    """

    name: str
    outcome: str
    ok: bool
    duration_s: float
    log: str | None = None
    facts: dict[str, Scalar] = {}


class Attachment(Struct, frozen=True, kw_only=True):
    """A file that proves something.

    `path` is relative to the report directory if the file lies inside it.
    """

    path: str
    title: str
    media_type: str = "text/plain"


class ErrorKind(StrEnum):
    """What sort of error ended a command; it decides the exit code if there is no verdict."""

    USAGE = "usage"
    BUG = "bug"
    PREPARATION = "preparation"
    INFRA = "infra"
    SIGINT = "sigint"
    SIGTERM = "sigterm"
    SIGHUP = "sighup"
    SIGQUIT = "sigquit"


def signal_kind(name: str) -> ErrorKind:
    """The kind of an error that the signal `name` is: `SIGINT`, `SIGTERM`, `SIGHUP`, `SIGQUIT`.

    Raises KeyError for another one, which ends no command in order.
    """
    return ErrorKind[name]


class Failure(Struct, frozen=True, kw_only=True):
    """Why the command did not come to its end: what happened, and what to do next.

    `kind` is None in reports of schema 1, and if the command's status speaks for itself.
    """

    message: str
    hint: str | None = None
    detail: str | None = None
    kind: ErrorKind | None = None


def concluded(
    verdict: Verdict | None, summary: str, findings: tuple[Finding, ...]
) -> tuple[Verdict | None, str]:
    """`verdict` and `summary`; `failed` if it would pass beside a finding of severity error.

    The first such finding becomes part of the summary then.
    """
    # A gate must never fail open.
    if not is_green(verdict):
        return verdict, summary
    for finding in findings:
        if finding.severity is Severity.ERROR:
            return Verdict.FAILED, f"{summary}; but {finding.summary}"
    return verdict, summary


class Outcome(Struct, frozen=True, kw_only=True):
    """What a room concludes, and what it rests on.

    `verdict` is None if nothing was judged, or if an error ended the command before anything could
    be. `error` stands beside a verdict only if that verdict is the error's own (`infra`, `failed`).
    `command_status` is the exit status of a command that the user gave (the client of `launch`);
    the session hands it on in place of the verdict's exit code.
    `reproduce` is a shell command line; None stands for the command line that was typed.
    """

    verdict: Verdict | None
    summary: str
    error: Failure | None = None
    findings: tuple[Finding, ...] = ()
    tables: tuple[Table, ...] = ()
    facts: Facts = field(default_factory=Facts)
    cases: tuple[Case, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    reproduce: str | None = None
    command_status: int | None = None


# History: 1 = first form (2026-11). 2 = verdict `failed`; `tables` in place of `sections`; `about`;
# `error.kind`; a verdict may stand beside an error, and be null without one (2026-11).
SCHEMA = "ci-doctor/report/2"


class Report(Struct, frozen=True, kw_only=True):
    """What was done, what it means, and what proves it.

    `started_at` is RFC 3339 in UTC, `duration_s` seconds of wall clock. `verdict` is None if
    nothing was judged, or if `error` says why nothing could be. `reproduce` is a shell command
    line. `facts` are the command's own (docs/report.md), with their `version`.
    """

    schema: Annotated[str, Meta(pattern="^ci-doctor/report/2$")] = SCHEMA
    tool_version: str
    command: str
    argv: tuple[str, ...]
    started_at: str
    duration_s: float
    about: About = About()
    verdict: Verdict | None
    error: Failure | None = None
    exit_code: int
    summary: str
    reproduce: str | None = None
    findings: tuple[Finding, ...] = ()
    tables: tuple[Table, ...] = ()
    facts: dict[str, Any] = {}
    cases: tuple[Case, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    attachments: tuple[Attachment, ...] = ()
