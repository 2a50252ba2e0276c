# SPDX-License-Identifier: Apache-2.0
"""Pure. The facts of the commands that prepare a job: `doctor`, `env`, `preload`, `config`, `explain` and `init`."""

from enum import StrEnum
from typing import Any

from msgspec import Struct

from ci_doctor.model.facts import Facts
from ci_doctor.model.facts.diagnose import FileState
from ci_doctor.model.outcome import Scalar


class Suspicion(StrEnum):
    """What a change may have done, the worst first."""

    COMPARABILITY = "comparability"
    FAILURE = "failure"
    INFORMATION = "information"


class ChangeKind(StrEnum):
    """`bytes`: the same version has other files."""

    CHANGED = "changed"
    ADDED = "added"
    REMOVED = "removed"
    BYTES = "bytes"


class ChangeArea(StrEnum):
    """Where a change is; what `env diff --only` names."""

    PACKAGES = "packages"
    MACHINE = "machine"
    VARIABLES = "variables"
    SYSTEM = "system"


class SnapshotFacts(Facts, frozen=True, kw_only=True):
    """What a snapshot holds. `file` is where it was written; None for stdout.

    `packages` maps the path of an interpreter to its number of packages. `unknown` maps what could
    not be read to the reason.
    """

    file: str | None
    has_contents: bool
    packages: dict[str, int]
    system_packages: int
    unknown: dict[str, str]


class FileChange(Struct, frozen=True, kw_only=True):
    """A file of a package whose version stayed: the beginning of its hash, None without the file."""

    path: str
    before: str | None
    after: str | None


class EnvironmentChange(Struct, frozen=True, kw_only=True):
    """One difference between two environments.

    `subject` is a package, a fact or a variable. `before` and `after` are None on the side without
    it. `interpreter` is given if there are several.
    """

    area: ChangeArea
    subject: str
    kind: ChangeKind
    suspicion: Suspicion
    before: str | None = None
    after: str | None = None
    interpreter: str | None = None
    files: tuple[FileChange, ...] = ()


class OneSided(Struct, frozen=True, kw_only=True):
    """A fact that only one side knows: whether it differs cannot be said.

    `known` is its value there; `unknown_in` is `before` or `after`.
    """

    area: ChangeArea
    subject: str
    suspicion: Suspicion
    unknown_in: str
    reason: str
    known: str | None = None


class Drift(Facts, frozen=True, kw_only=True):
    """Every difference of two snapshots, the most suspicious first.

    `before` and `after` say where the snapshots are from. `contents_compared`: the contents of
    installed files were compared, and not only their RECORD.
    """

    before: str
    after: str
    contents_compared: bool
    changes: tuple[EnvironmentChange, ...] = ()
    one_sided: tuple[OneSided, ...] = ()


class SinceGreenFacts(Struct, frozen=True, kw_only=True):
    """The comparison with the last green run: `drift`, or why there is none (`unknown`)."""

    unknown: str | None
    drift: Drift | None


class DoctorCheckFact(Struct, frozen=True, kw_only=True):
    """How one check ended.

    `status` is `ok`, `warning`, `error` or `unknown`; `unknown` is the reason. `problems` are the
    rules of its findings. `milliseconds` is its duration; None if it missed its deadline.
    """

    id: str
    title: str
    status: str
    summary: str
    unknown: str | None
    problems: tuple[str, ...]
    is_needed: bool
    milliseconds: float | None
    figures: dict[str, Scalar] = {}


class DoctorFacts(Facts, frozen=True, kw_only=True):
    """What was checked.

    `workload` is that of `--for`. `not_run` maps the ids of the checks that make no sense here to
    the reason. `fixed` are the changes that `--fix` has made, in words; `would_fix` those that
    `--dry-run` kept it from; `not_fixed` maps those that failed to the reason. `since_green` is the
    comparison with the last green run, if one was named.
    """

    workload: str | None
    strict: bool
    checks: tuple[DoctorCheckFact, ...]
    not_run: dict[str, str]
    fixed: tuple[str, ...] = ()
    would_fix: tuple[str, ...] = ()
    not_fixed: dict[str, str] = {}  # noqa: RUF012 - msgspec copies it
    since_green: SinceGreenFacts | None = None


# --- the facts of the commands below `ci-doctor preload`, as the room `preload` makes them ---


class Refusal(Struct, frozen=True, kw_only=True):
    """Why nothing can be done to an interpreter; `exit_code` is that of the reason alone."""

    message: str
    hint: str | None
    exit_code: int


class RefusedInterpreter(Struct, frozen=True, kw_only=True):
    """An interpreter that was refused; `state` is always `refused`."""

    python: str
    site_dir: str | None
    state: str = "refused"
    refused: Refusal


class ShimAction(Struct, frozen=True, kw_only=True):
    """A file or directory that was or would be changed; `why` is one clause for a reader."""

    path: str
    state: FileState
    why: str


class ShimChange(Struct, frozen=True, kw_only=True):
    """One interpreter; `state` is `planned`, `changed`, `unchanged`, `held back` or `refused`.

    `rules` are those that are armed at the end.
    """

    python: str
    site_dir: str | None
    state: str
    version: str | None = None
    rules: tuple[str, ...] = ()
    actions: tuple[ShimAction, ...] = ()
    refused: Refusal | None = None

    @property
    def changing(self) -> tuple[ShimAction, ...]:
        """The actions that change something."""
        return tuple(each for each in self.actions if each.state is not FileState.UNCHANGED)


class ChangeFacts(Facts, frozen=True, kw_only=True):
    """What `install` and `remove` did or would do; `changed` are paths."""

    targets: tuple[ShimChange, ...]
    changed: tuple[str, ...]
    dry_run: bool


class StartFile(Struct, frozen=True, kw_only=True):
    """A file that runs at every start.

    `lines` are the import lines of a `.pth` file; a sitecustomize or usercustomize has none.
    `cost_us` is the time that it took. `stderr` are the lines that it wrote there.
    """

    path: str
    lines: tuple[str, ...]
    cost_us: int
    stderr: tuple[str, ...] = ()


class FileCondition(StrEnum):
    """What occupies the place of a file of the shim."""

    ABSENT = "absent"
    OURS = "ours"
    EDITED = "edited"  # it names us as its owner, and is not as we wrote it
    FOREIGN = "foreign"
    NOT_A_FILE = "not-a-file"  # a symbolic link, a directory


class Shim(Struct, frozen=True, kw_only=True):
    """The shim of one interpreter; `state` is `asked` or `refused`.

    `installed`: all files are as ci-doctor wrote them; `outdated`: another version did. `cut_off`
    are the remainders of killed processes. `start_up` has the files that run at every start.
    """

    python: str
    site_dir: str | None
    state: str = "asked"
    version: str | None = None
    installed: bool = False
    outdated: bool = False
    rules: tuple[str, ...] = ()
    files: dict[str, FileCondition] = {}
    cut_off: tuple[str, ...] = ()
    start_up: tuple[StartFile, ...] | None = None
    refused: Refusal | None = None


class StatusFacts(Facts, frozen=True, kw_only=True):
    """The shims, interpreter by interpreter."""

    shims: tuple[Shim, ...]


class CheckOutcome(StrEnum):
    """`void`: nothing is proven either way. `not-needed`: the fault cannot happen here."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_NEEDED = "not-needed"
    VOID = "void"


class ShimCheck(Struct, frozen=True, kw_only=True):
    """One check: `name` is short and the same from run to run, `sentence` has no full stop.

    `rule` is the id of its finding, None for an outcome without one; `evidence` is text, such as a
    traceback.
    """

    python: str
    name: str
    outcome: CheckOutcome
    sentence: str
    evidence: str = ""
    rule: str | None = None
    remedy: str | None = None


class VerifyFacts(Facts, frozen=True, kw_only=True):
    """All checks, and the interpreters that did not answer."""

    checks: tuple[ShimCheck, ...]
    refused: tuple[RefusedInterpreter, ...]


# --- the facts of `ci-doctor config`, `explain` and `init` ---


class ConfigValue(Struct, frozen=True, kw_only=True):
    """A value of the configuration, as JSON has it, and where it came from."""

    value: Any
    origin: str


class ConfigFacts(Facts, frozen=True, kw_only=True):
    """Every value by its section and key."""

    values: dict[str, dict[str, ConfigValue]]


class ConfigSchemaFacts(Facts, frozen=True, kw_only=True):
    """The JSON Schema of `ci-doctor.toml`."""

    configuration: dict[str, Any]


class RetryRule(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A rule of `retry.automatic`, with its own fields; the first that matches counts.

    https://buildkite.com/docs/pipelines/configure/retry
    """

    exit_status: int | None = None
    signal_reason: str | None = None
    limit: int


class SoftFailRule(Struct, frozen=True, kw_only=True):
    """A rule of `soft_fail`: https://buildkite.com/docs/pipelines/configure/soft-fail."""

    exit_status: int


class RetryRulesFacts(Facts, frozen=True, kw_only=True):
    """The repository's exit codes by verdict, and what a step is to do with them.

    `left_out`: by verdict, why it has no rule: one would retry or let pass what must stay red.
    """

    exit_codes: dict[str, int]
    retry: tuple[RetryRule, ...]
    soft_fail: tuple[SoftFailRule, ...]
    left_out: dict[str, str]
    yaml: str = ""


class ExplainFacts(Facts, frozen=True, kw_only=True):
    """Two sentences on the word.

    The rest is of a log rule, and of a text that one recognises: the id of the rule, the class of
    failures, whether another run can help (`yes`, `no`, `ask`), and a command of ours to go on with.
    """

    meaning: str
    remedy: str
    rule: str | None = None
    failure_class: str | None = None
    retry: str | None = None
    next_command: str | None = None


class InitServer(Struct, frozen=True, kw_only=True):
    """A server of the repository: its command with `{port}`, where it stands, what it answers.

    variables: those of the environment that the job must set. role: the part that it plays in a server
    of several; null for a whole one.
    """

    kind: str
    origin: str
    command: list[str]
    count: int
    apis: list[str]
    model: str | None
    connector: str | None
    role: str | None
    variables: list[str]


class InitLeftOut(Struct, frozen=True, kw_only=True):
    """A command of a server that is not proposed: where it stands, and why in a clause."""

    origin: str
    why: str


class InitFile(Struct, frozen=True, kw_only=True):
    """A file that is proposed: `path` from the top of the repository, why in a clause; `is_written`: it is there now."""

    path: str
    why: str
    text: str
    is_written: bool = False


class InitFacts(Facts, frozen=True, kw_only=True):
    """What was read, what is proposed, and what was written.

    root: the top of the repository; directory: where the configuration belongs, relative to it. arms:
    what the proposed arms differ by; null without any. to_paste: blocks for files that exist.
    """

    root: str
    directory: str
    is_repository: bool
    files_unread: list[str]
    pipelines: list[str]
    workflows: list[str]
    queues: list[str]
    commands: int
    servers: list[InitServer]
    left_out: list[InitLeftOut]
    arms: str | None
    files: list[InitFile]
    kept: list[str]
    steps: list[str]
    to_paste: dict[str, str]
