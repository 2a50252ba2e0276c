# SPDX-License-Identifier: Apache-2.0
"""Pure. The facts of the commands below `ci-doctor preload`."""

from msgspec import Struct

from ci_doctor.model.facts import Facts


class RefusalFact(Struct, frozen=True, kw_only=True):
    """Why nothing can be done to an interpreter; `exit_code` is that of the reason alone."""

    message: str
    hint: str | None
    exit_code: int


class RefusedFact(Struct, frozen=True, kw_only=True):
    """An interpreter that was refused; `state` is always `refused`."""

    python: str
    site_dir: str | None
    state: str = "refused"
    refused: RefusalFact


class ActionFact(Struct, frozen=True, kw_only=True):
    """A file that was or would be changed: `create`, `replace`, `unchanged`, `remove`."""

    path: str
    state: str
    why: str


class PresetFact(Struct, frozen=True, kw_only=True):
    """A preset; `fit` is `holds`, `does not hold`, `package absent` or `unknown version`."""

    name: str
    fit: str
    version: str | None


class ChangeFact(Struct, frozen=True, kw_only=True):
    """One interpreter; `state` is `planned`, `changed`, `unchanged`, `held back` or `refused`."""

    python: str
    site_dir: str | None
    state: str
    version: str | None = None
    rules: tuple[str, ...] = ()
    presets: tuple[PresetFact, ...] = ()
    actions: tuple[ActionFact, ...] = ()
    refused: RefusalFact | None = None


class ChangeFacts(Facts, frozen=True, kw_only=True):
    """What `plan`, `install` and `remove` did or would do; `changed` are paths."""

    targets: tuple[ChangeFact, ...]
    changed: tuple[str, ...]
    dry_run: bool


class StartFileFact(Struct, frozen=True, kw_only=True):
    """A file that runs at every start; costs in microseconds."""

    path: str
    lines: tuple[str, ...]
    cost_us: int
    imports: dict[str, int]
    everywhere: bool


class NeverRunFact(Struct, frozen=True, kw_only=True):
    """A file that never runs, and the file or reason that prevents it."""

    path: str
    by: str


class ShimFact(Struct, frozen=True, kw_only=True):
    """The shim of one interpreter; `state` is `asked`, `former` or `refused`.

    `start_up` has the files that run at every start, and those that never do.
    """

    python: str
    site_dir: str | None
    state: str
    version: str | None = None
    installed: bool = False
    outdated: bool = False
    rules: tuple[str, ...] = ()
    files: dict[str, str] = {}
    cut_off: tuple[str, ...] = ()
    start_up: tuple[tuple[StartFileFact, ...], tuple[NeverRunFact, ...]] | None = None
    refused: RefusalFact | None = None


class StatusFacts(Facts, frozen=True, kw_only=True):
    """The shims, interpreter by interpreter."""

    shims: tuple[ShimFact, ...]


class CheckFact(Struct, frozen=True, kw_only=True):
    """One check of an interpreter; `outcome` is `passed`, `failed`, `not-needed` or `void`."""

    python: str
    name: str
    outcome: str
    sentence: str
    evidence: str


class VerifyFacts(Facts, frozen=True, kw_only=True):
    """All checks, and the interpreters that did not answer."""

    checks: tuple[CheckFact, ...]
    refused: tuple[RefusedFact, ...]


class RaceFact(Struct, frozen=True, kw_only=True):
    """A module that a thread and `rival` both import.

    `hazard`: `replaces itself`, `import circle`, `package and submodule`, `not installed`, or
    `safe`: the import lock suffices. `thread` and `other` are the places of the two imports.
    """

    module: str
    hazard: str
    rival: str
    thread: str
    other: str


class ThreadStartFact(Struct, frozen=True, kw_only=True):
    """A thread start, as `file:line`.

    `when` is `at import`, `when run`, each with `, conditionally` if a condition leads there, or
    `if called`: by code that was not followed. `imports` is the number of modules that the thread
    imports. `preload_rule` cures the races, if a rule can; `rule_standing` is
    `not tried` then.
    """

    file: str
    line: int
    module: str
    kind: str
    target: str
    when: str
    entry_points: tuple[str, ...]
    imports: int
    races: tuple[RaceFact, ...]
    preload_rule: str | None = None
    rule_standing: str | None = None


class AuditLimitsFact(Struct, frozen=True, kw_only=True):
    """What was not followed: places as `file:line`, modules by name."""

    unknown_starts: tuple[str, ...] = ()
    unknown_targets: tuple[str, ...] = ()
    dynamic_imports: tuple[str, ...] = ()
    unread: dict[str, str] = {}
    unfollowed: tuple[str, ...] = ()
    callbacks: int = 0
    is_cut: bool = False


class AuditedPackageFact(Struct, frozen=True, kw_only=True):
    """A package in one interpreter. `modules` were read; `seconds` is wall time."""

    python: str
    distribution: str | None
    version: str | None
    entry_points: tuple[str, ...]
    modules: int
    seconds: float
    starts: tuple[ThreadStartFact, ...]
    limits: AuditLimitsFact


class AuditFacts(Facts, frozen=True, kw_only=True):
    """The thread starts of a package, interpreter by interpreter."""

    package: str
    audits: tuple[AuditedPackageFact, ...]
    refused: tuple[RefusedFact, ...]
