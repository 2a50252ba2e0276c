# SPDX-License-Identifier: Apache-2.0
"""Pure. The facts of `ci-doctor env snapshot` and `ci-doctor env diff`."""

from msgspec import Struct

from ci_doctor.model.facts import Facts


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


class FileChangeFact(Struct, frozen=True, kw_only=True):
    """A file of a package: the beginning of its hash on each side, None without the file."""

    path: str
    before: str | None
    after: str | None


class EnvironmentChangeFact(Struct, frozen=True, kw_only=True):
    """One difference.

    `area` is `packages`, `machine`, `variables` or `system`; `kind` is `changed`, `added`, `removed`
    or `bytes`; `suspicion` is `comparability`, `failure` or `information`. `address` leads to a list
    of changes.
    """

    area: str
    subject: str
    kind: str
    suspicion: str
    before: str | None
    after: str | None
    address: str | None
    interpreter: str | None
    went_back: bool
    files: tuple[FileChangeFact, ...]


class OneSidedFact(Struct, frozen=True, kw_only=True):
    """A fact that one side does not know; `unknown_in` is `before` or `after`."""

    area: str
    subject: str
    suspicion: str
    unknown_in: str
    reason: str
    known: str | None


class DriftFacts(Facts, frozen=True, kw_only=True):
    """Every difference of two snapshots, the most suspicious first.

    `before` and `after` say where the snapshots are from. `contents_compared`: the contents of files
    were compared, and not only RECORD.
    """

    before: str
    after: str
    contents_compared: bool
    changes: tuple[EnvironmentChangeFact, ...]
    one_sided: tuple[OneSidedFact, ...]


class SinceGreenFacts(Struct, frozen=True, kw_only=True):
    """The comparison with the last green run: `drift`, or why there is none (`unknown`)."""

    unknown: str | None
    drift: DriftFacts | None
