# SPDX-License-Identifier: Apache-2.0
"""Pure. The facts of `ci-doctor doctor` and `ci-doctor env`."""

from enum import StrEnum

from msgspec import Struct

from ci_doctor.model.facts import Facts
from ci_doctor.model.table import Scalar


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
