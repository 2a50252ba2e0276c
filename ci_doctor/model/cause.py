# SPDX-License-Identifier: Apache-2.0
"""Pure. Why something failed: one struct from a line of a log to page, exit code, record and history.

A retry must never hide a regression. So a cause may be retried only if another run cures its class,
if the evidence proves that it lies outside the change, and if the job ended by it.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, assert_never

import msgspec
from msgspec import Struct, structs

from ci_doctor.decodable import decodable
from ci_doctor.model.outcome import Evidence, Finding, RemedyKind, Report, Severity, Verdict
from ci_doctor.model.words import shortened

_LONGEST_LINE: Final = 500  # characters of a text in a record
# From which confidence on a word holds, the strongest first.
_LIKELIHOODS: Final = (
    (0.9, "very likely"),
    (0.7, "likely"),
    (0.5, "more likely than not"),
)
_LEAST_LIKELY: Final = "one possibility among others"
# From here on a diagnosis is likely right.
LIKELY: Final = 0.7


class RetryPolicy(StrEnum):
    """Whether running the job again can help: `yes`, `no`, or `ask` a person first."""

    YES = "yes"
    NO = "no"
    ASK = "ask"


class FailureClass(StrEnum):
    """What kind of failure a cause is; the values are what reports and rule files hold."""

    GPU_OUT_OF_MEMORY = "gpu-out-of-memory"
    HOST_OUT_OF_MEMORY = "host-out-of-memory"
    PORT_IN_USE = "port-in-use"
    IMPORT_RACE = "import-race"
    API_DRIFT = "api-drift"
    MISSING_DEPENDENCY = "missing-dependency"
    ABI_MISMATCH = "abi-mismatch"
    CUDA_ERROR = "cuda-error"
    GPU_HARDWARE = "gpu-hardware"
    RENDEZVOUS = "rendezvous"
    NETWORK = "network"
    REGISTRY = "registry"
    DISK = "disk"
    SHARED_MEMORY = "shared-memory"
    RESOURCE_LIMIT = "resource-limit"
    TIMEOUT = "timeout"
    STALLED = "stalled"
    AGENT_LOST = "agent-lost"
    SCM_VERSION = "scm-version"
    CONFIGURATION = "configuration"
    COMPILE_ERROR = "compile-error"
    LINT = "lint"
    TEST_ASSERTION = "test-assertion"
    CODE_BUG = "code-bug"


class Owner(StrEnum):
    """Who has to act.

    `change`: whoever wrote the change. `environment`: whoever sets up packages, the checkout and the
    step's options. `machine`: whoever runs the agent. `outside`: whoever runs the network, a registry
    or another service. `unknown`: the evidence does not tell.
    """

    CHANGE = "change"
    ENVIRONMENT = "environment"
    MACHINE = "machine"
    OUTSIDE = "outside"
    UNKNOWN = "unknown"

    @property
    def words(self) -> str:
        """The owner as a reader is told."""
        return _OWNERS[self]


_OWNERS: Final = {
    Owner.CHANGE: "the change",
    Owner.ENVIRONMENT: "the environment of the step",
    Owner.MACHINE: "the machine",
    Owner.OUTSIDE: "a service outside",
    Owner.UNKNOWN: "not known",
}


# What code and tests of the change themselves can be wrong in.
OF_CHANGE: Final = frozenset(
    {
        FailureClass.API_DRIFT,
        FailureClass.COMPILE_ERROR,
        FailureClass.LINT,
        FailureClass.TEST_ASSERTION,
        FailureClass.CODE_BUG,
    }
)


class ClassPolicy(Struct, frozen=True, kw_only=True):
    """What is known of a class before a log is read.

    title: the class in words. retry: whether another run can help. Whether the change is at fault
    is another question (`diagnosis/outside.py`). owner: who acts if the cause is of this class, and
    if it lies outside the change or no other run helps.
    """

    title: str
    retry: RetryPolicy
    owner: Owner = Owner.UNKNOWN


POLICIES: Final[dict[str, ClassPolicy]] = {
    FailureClass.GPU_OUT_OF_MEMORY: ClassPolicy(title="GPU out of memory", retry=RetryPolicy.ASK),
    FailureClass.HOST_OUT_OF_MEMORY: ClassPolicy(title="out of memory", retry=RetryPolicy.ASK),
    FailureClass.PORT_IN_USE: ClassPolicy(
        title="port in use", retry=RetryPolicy.YES, owner=Owner.MACHINE
    ),
    FailureClass.IMPORT_RACE: ClassPolicy(
        title="import race", retry=RetryPolicy.YES, owner=Owner.ENVIRONMENT
    ),
    FailureClass.API_DRIFT: ClassPolicy(
        title="API drift", retry=RetryPolicy.NO, owner=Owner.CHANGE
    ),
    FailureClass.MISSING_DEPENDENCY: ClassPolicy(
        title="missing dependency", retry=RetryPolicy.NO, owner=Owner.ENVIRONMENT
    ),
    FailureClass.ABI_MISMATCH: ClassPolicy(
        title="ABI mismatch", retry=RetryPolicy.NO, owner=Owner.ENVIRONMENT
    ),
    FailureClass.CUDA_ERROR: ClassPolicy(title="CUDA error", retry=RetryPolicy.ASK),
    FailureClass.GPU_HARDWARE: ClassPolicy(
        title="GPU hardware fault", retry=RetryPolicy.YES, owner=Owner.MACHINE
    ),
    FailureClass.RENDEZVOUS: ClassPolicy(title="NCCL or rendezvous", retry=RetryPolicy.ASK),
    FailureClass.NETWORK: ClassPolicy(title="network", retry=RetryPolicy.YES, owner=Owner.OUTSIDE),
    FailureClass.REGISTRY: ClassPolicy(
        title="registry or rate limit", retry=RetryPolicy.YES, owner=Owner.OUTSIDE
    ),
    FailureClass.DISK: ClassPolicy(title="disk", retry=RetryPolicy.YES, owner=Owner.MACHINE),
    FailureClass.SHARED_MEMORY: ClassPolicy(title="shared memory", retry=RetryPolicy.ASK),
    FailureClass.RESOURCE_LIMIT: ClassPolicy(
        title="limit of processes or files", retry=RetryPolicy.ASK
    ),
    FailureClass.TIMEOUT: ClassPolicy(title="time-out, with progress", retry=RetryPolicy.ASK),
    FailureClass.STALLED: ClassPolicy(title="time-out, without progress", retry=RetryPolicy.ASK),
    FailureClass.AGENT_LOST: ClassPolicy(
        title="agent lost", retry=RetryPolicy.YES, owner=Owner.MACHINE
    ),
    FailureClass.SCM_VERSION: ClassPolicy(
        title="SCM version", retry=RetryPolicy.NO, owner=Owner.ENVIRONMENT
    ),
    FailureClass.CONFIGURATION: ClassPolicy(
        title="configuration", retry=RetryPolicy.NO, owner=Owner.ENVIRONMENT
    ),
    FailureClass.COMPILE_ERROR: ClassPolicy(
        title="compile error", retry=RetryPolicy.NO, owner=Owner.CHANGE
    ),
    FailureClass.LINT: ClassPolicy(title="lint", retry=RetryPolicy.NO, owner=Owner.CHANGE),
    FailureClass.TEST_ASSERTION: ClassPolicy(
        title="test assertion", retry=RetryPolicy.NO, owner=Owner.CHANGE
    ),
    FailureClass.CODE_BUG: ClassPolicy(
        title="program error", retry=RetryPolicy.NO, owner=Owner.CHANGE
    ),
}


class LogLine(Struct, frozen=True, kw_only=True):
    """A line of a log: `line` is 1-based, `text` has no escape sequences and no CI stamps.

    message: `text` without the names of its process and its logger. Of a cause that no log names,
    `file` and the texts may be empty, and `line` None.
    """

    file: str = ""
    line: int | None = None
    text: str = ""
    message: str = ""

    @property
    def where(self) -> str:
        """`file:line`, or as much of it as is known."""
        return self.file if self.line is None else f"{self.file}:{self.line}"

    @property
    def evidence(self) -> Evidence:
        """The same for a finding."""
        return Evidence(file=self.file, line=self.line, end_line=self.line, excerpt=self.text)


class Cause(Struct, frozen=True, kw_only=True, rename={"class_": "class"}):
    """Why something failed.

    fingerprint: the same for the same cause in another job or build. title: in words.
    place: the line that shows it. rule: the id of the rule that says so, of log lines or of findings.
    class_: of failures (docs/diagnose.md), None if it has none. owner: who has to act.
    retry: whether another run can help, `yes`, `no` or `ask` (a person first).
    is_outside: the line shows a cause outside the change. is_final: the job ended by it, as far as
    its logs tell: nothing else in them can have ended the job, and its log ends soon after it.
    may_be_retried: the exit code by class is that of `infra`; it follows from these three.
    confidence: how probable it is that this is the cause, 0 to 1; None if no log was read for it.
    reasons: what it rests on. against: what speaks against it, or against another run.
    fields: what the rule captures. consequences: lines that follow from it, in their order.
    """

    fingerprint: str
    title: str
    place: LogLine = LogLine()
    rule: str | None = None
    class_: str | None = None
    owner: Owner = Owner.UNKNOWN
    retry: RetryPolicy = RetryPolicy.ASK
    is_outside: bool = False
    is_final: bool = False
    may_be_retried: bool = False
    confidence: float | None = None
    reasons: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    explanation: str = ""
    remedy: str = ""
    next_command: str | None = None
    fields: dict[str, str] = {}
    consequences: tuple[LogLine, ...] = ()

    def __post_init__(self) -> None:
        """Set `may_be_retried` anew: nobody claims it, it follows."""
        is_cured = self.retry is RetryPolicy.YES and self.is_outside and self.is_final
        structs.force_setattr(self, "may_be_retried", is_cured)

    @property
    def text(self) -> str | None:
        """The line that shows it, without the names of its process and its logger."""
        return self.place.message or None

    @property
    def where(self) -> str | None:
        """`file:line` of that line; None if nobody knows."""
        return self.place.where or None

    @property
    def phrase(self) -> str:
        """The title and the line that shows it: many causes share a class."""
        return self.title if self.text is None else f"{self.title}: {self.text}"

    @property
    def advice(self) -> str:
        """What to do: a sentence, or a command if there is no sentence; empty without either."""
        return self.remedy or self.next_command or ""

    @property
    def sentence(self) -> str:
        """The first sentence of the explanation, to stand within another one."""
        first = self.explanation.partition(". ")[0].rstrip(".")
        # `CUDA` keeps its capitals.
        if first[1:2].isupper():
            return first
        return first[:1].lower() + first[1:]

    @property
    def likelihood(self) -> str:
        """The confidence in words."""
        return likelihood(self.confidence or 0.0)

    @property
    def about_retry(self) -> str:
        """Whether another run can help, as a sentence; empty if no log was read for it."""
        if self.confidence is None:
            return ""
        # What is no more likely than not proves nothing of the next run.
        policy = self.retry if self.confidence >= _LIKELIHOODS[-1][0] else RetryPolicy.ASK
        return about_retry(policy, is_proven=self.may_be_retried, is_test=self.is_of_test)

    @property
    def is_of_test(self) -> bool:
        """Whether a test failed: that it fails again, one run does not show."""
        return is_of_test(self.class_, self.rule)


def for_record(cause: Cause, most: int = _LONGEST_LINE) -> Cause:
    """`cause` as a record keeps it: no text longer than `most` characters, no further lines."""

    def cut(text: str) -> str:
        return shortened(text, most)

    place = structs.replace(
        cause.place,
        file=cut(cause.place.file),
        text=cut(cause.place.text),
        message=cut(cause.place.message),
    )
    command = cause.next_command
    return structs.replace(
        cause,
        place=place,
        title=cut(cause.title),
        rule=None if cause.rule is None else cut(cause.rule),
        class_=None if cause.class_ is None else cut(cause.class_),
        explanation=cut(cause.explanation),
        remedy=cut(cause.remedy),
        # Half a command is one that nobody may run.
        next_command=None if command is None or len(command) > most else command,
        reasons=tuple(map(cut, cause.reasons)),
        against=tuple(map(cut, cause.against)),
        fields={},
        consequences=(),
    )


def owner_of(class_: str | None, retry: RetryPolicy, *, is_outside: bool) -> Owner:
    """Who has to act about a cause of `class_`: never surer than what proves where it lies."""
    policy = POLICIES.get(class_ or "")
    if policy is None:
        return Owner.UNKNOWN
    # Of a class that another run cures, only proof tells the machine's fault from the change's.
    is_inside = policy.retry is RetryPolicy.NO and retry is RetryPolicy.NO
    return policy.owner if is_outside or is_inside else Owner.UNKNOWN


def title_of(class_: str | None) -> str:
    """The class in words."""
    policy = POLICIES.get(class_ or "")
    return "no class" if policy is None else policy.title


def likelihood(confidence: float) -> str:
    """A confidence, 0 to 1, in words."""
    for least, words in _LIKELIHOODS:
        if confidence >= least:
            return words
    return _LEAST_LIKELY


# Rules about pytest itself: no test ran.
_WITHOUT_TEST: Final = frozenset(
    {"pytest/conftest-error", "pytest/usage-error", "pytest/internal-error"}
)


def is_of_test(class_: str | None, rule: str | None) -> bool:
    """Whether a cause of `class_`, named by the log rule `rule`, is a failed test."""
    is_of_pytest = (rule or "").startswith("pytest/") and rule not in _WITHOUT_TEST
    return class_ == FailureClass.TEST_ASSERTION or is_of_pytest


def about_retry(policy: RetryPolicy, *, is_proven: bool, is_test: bool = False) -> str:
    """Whether another run can help, as a sentence.

    is_proven: the evidence proves that the cause lies outside the change. is_test: a test failed.
    """
    if is_proven:
        return "Another run can help: the cause lies outside the change."
    match policy:
        case RetryPolicy.YES:
            return (
                "Another run may pass, but the log does not prove that the change is not at fault."
            )
        case RetryPolicy.NO if is_test:
            return "The test fails again unless it is flaky: of pytest's tests `ci-doctor pytest` tells."
        case RetryPolicy.NO:
            return "Another run is useless: it fails again."
        case RetryPolicy.ASK:
            return (
                "Ask a person before another run: the log does not tell whether the change is at "
                "fault."
            )
        case _ as never:
            assert_never(never)


_MOST_CHARACTERS = 2000


def cause_of_report(report: Report) -> Cause | None:
    """What its diagnosis names, else its first error among the findings, else what ended it."""
    diagnosed = diagnosed_cause(report)
    if diagnosed is not None:
        return diagnosed
    for finding in report.findings:
        if finding.severity is Severity.ERROR:
            return judged_by(cause_of_finding(finding), report.verdict)
    if report.error is None:
        return None
    error = report.error
    named = Cause(
        fingerprint=_fingerprint(f"error/{error.kind}", error.message),
        title=error.message,
        rule=f"error/{error.kind}",
        remedy=error.hint or "",
    )
    return judged_by(named, report.verdict)


def diagnosed_cause(report: Report) -> Cause | None:
    """The root cause of a report of `diagnose`, or of `run --diagnose`; None without one."""
    facts: Mapping[str, Any] = report.facts
    diagnosis = facts.get("diagnosis")
    if isinstance(diagnosis, Mapping):
        facts = diagnosis
    try:
        return msgspec.convert(facts.get("root_cause"), decodable(Cause | None))
    # Another version wrote it, or somebody else.
    except msgspec.ValidationError:
        return None


def diagnosed_causes(reports: Sequence[Report]) -> Iterator[Cause]:
    """Those of all `reports`, in their order."""
    for report in reports:
        cause = diagnosed_cause(report)
        if cause is not None:
            yield cause


def cause_of_finding(finding: Finding) -> Cause:
    """What a finding says of a failure, as far as it says it; the command that made it judges the rest."""
    line = next(_lines(finding), "")
    evidence = next((each for each in finding.evidence if each.file is not None), None)
    place = LogLine(text=line, message=line)
    if evidence is not None:
        place = structs.replace(place, file=evidence.file or "", line=evidence.line)
    is_command = finding.remedy_kind is RemedyKind.COMMAND
    return Cause(
        fingerprint=_fingerprint(finding.rule, f"{finding.summary} {line}".strip()),
        title=finding.summary,
        place=place,
        rule=finding.rule,
        remedy="" if is_command else finding.remedy or "",
        next_command=finding.remedy if is_command else None,
    )


def judged_by(cause: Cause, verdict: str | None) -> Cause:
    """`cause` of a job with `verdict`: only `infra` says that it lies outside, and `regression` that it does not."""
    if verdict == Verdict.REGRESSION:
        return structs.replace(cause, owner=Owner.CHANGE, retry=RetryPolicy.NO)
    if verdict != Verdict.INFRA:
        return cause
    return structs.replace(
        cause, owner=Owner.OUTSIDE, retry=RetryPolicy.YES, is_outside=True, is_final=True
    )


def _lines(finding: Finding) -> Iterator[str]:
    """The lines that the evidence marks with `> `, else the first one of each."""
    excerpts = [each.excerpt.splitlines() for each in finding.evidence if each.excerpt]
    for lines in excerpts:
        yield from (line[2:].strip() for line in lines if line.startswith("> "))
    for lines in excerpts:
        yield from (line.strip() for line in lines[:1] if line.strip())


def _fingerprint(rule: str, message: str) -> str:
    # Late: its expressions take longer to compile than a hook without a failure has.

    # Some of them take quadratic time, and a command may have printed a megabyte without a space.
    return fingerprint(rule, {}, message[:_MOST_CHARACTERS])


_DIGITS = 16
# Captures of which the number is the name: Xid 79 is another fault than Xid 48.
_CODES: Final = frozenset({"code", "signal", "status", "xid"})
# Captures that say of which kind a failure is. Two failures of a kind differ by their messages.
_KINDS: Final = frozenset({"code", "exception", "file", "kind", "result", "thread", "type"})

# In this order: a time holds digits, an address holds hexadecimal ones, a path holds versions.
_VARYING: Final = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"), "<time>"),
    (re.compile(r"\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?\b"), "<time>"),
    # The host of an address with a port, of one without a domain, and of a private one.
    (
        re.compile(
            r"(?<=://)(?:[^\s/@'\"]{1,80}@)?(?:[\w.-]+:\d+|[\w-]+|\d+(?:\.\d+){3}|\[[0-9a-fA-F:]+\](?::\d+)?"
            r"|[\w.-]+\.(?:internal|local|lan))(?=[/\s'\"<>)\],]|$)"
        ),
        "<host>",
    ),
    # `(host, 29500)`, as sockets and torch write an address.
    (re.compile(r"\('?[\w.:-]+'?, \d{2,5}\)"), "(<address>)"),
    (re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"), "<id>"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "<address>"),
    (re.compile(r"\[[0-9a-fA-F:]+(?:%\w+)?\]:\d+"), "<address>"),
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b"), "<address>"),
    # A path keeps its last part: checkouts and interpreters lie elsewhere on each agent.
    (re.compile(r"(?:\b[A-Za-z]:)?(?:[\w.@+~$-]*[\\/])+(?=[\w.@+~<-])"), ""),
    (re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b"), "<hash>"),
    # Names that tempfile and multiprocessing.shared_memory make up.
    (re.compile(r"\b(tmp|psm_|wnsm_|pymp-|mp-)[a-z0-9_]{6,12}\b"), r"\1<id>"),
    (
        re.compile(r"\bip-\d+-\d+-\d+-\d+[\w.-]*|\b[\w-]+(?:\.[\w-]+)*\.(?:internal|local|lan)\b"),
        "<host>",
    ),
    # `2.7.0`, `v1.2.3rc1+cu128`, `12.8`
    (
        re.compile(r"\bv?\d+(?:\.\d+)+(?:[.-]?(?:a|b|rc|dev|post|alpha|beta)\.?\d*)*(?:\+[\w.]+)?"),
        "<n>",
    ),
    # Which of several equal workers it was: `rank3`, `Worker_TP0`, `GPU 2`, pytest-xdist's `gw1`.
    (
        re.compile(
            r"(?i)(?<![a-z])(rank|worker|[tdpe]p|gpu|device|cuda|node|thread|core|process|gw|pid)"
            r"([ _:#=-]?)\d+\b"
        ),
        r"\1\2<n>",
    ),
    # `fp8` and `CS0103` are names, `10s` is a number.
    (re.compile(r"(?<![A-Za-z_\d])\d+(?:[.,]\d+)*"), "<n>"),
    (re.compile(r"\s+"), " "),
)


def fingerprint(rule: str, fields: Mapping[str, str], message: str, subject: str = "") -> str:
    """16 hexadecimal digits of the rule, of what it captures, and of `subject`.

    rule: its id. fields: its named groups. message: the line without prefixes; it counts if the
    groups are none, or tell only the kind of the failure. subject: what the line is about if it
    does not say so itself, as the test whose assertion it is.
    """
    parts = [rule, *(f"{name}={_value(name, fields[name])}" for name in sorted(fields))]
    if fields.keys() <= _KINDS:
        parts.append(normal_text(message))
    if subject:
        parts.append(normal_text(subject))
    digest = hashlib.sha256("\0".join(parts).encode())
    return digest.hexdigest()[:_DIGITS]


def _value(name: str, text: str) -> str:
    if name in _CODES:
        return text
    return normal_text(text)


def normal_text(text: str) -> str:
    """`text` without times, hashes, addresses, numbers, versions and directories.

    What names things stays: words, exceptions, tests, files, modules.
    """
    for pattern, replacement in _VARYING:
        text = pattern.sub(replacement, text)
    return text.strip()
