# SPDX-License-Identifier: Apache-2.0
"""Pure. The facts of `ci-doctor lint`."""

from msgspec import Struct

from ci_doctor.model.facts import Facts


class UnreadableFact(Struct, frozen=True, kw_only=True):
    """A file, or a part of it, that no rule has looked at."""

    file: str
    line: int
    reason: str


class LintSinceFacts(Struct, frozen=True, kw_only=True):
    """The base of `--since`: the name given, and the merge base."""

    reference: str
    base: str


class LintBaselineFacts(Struct, frozen=True, kw_only=True):
    """The baseline file: how many violations it has taken away, and entries that matched nothing."""

    file: str
    known: int
    stale: int


class LintFixFacts(Struct, frozen=True, kw_only=True):
    """What `--fix` did, or would do under `--dry-run`.

    `diff` is a unified one. `files` maps each file to the number of violations mended in it,
    `refused` those left as they were to the reason. `overlapping` edits wait for another run.
    """

    is_dry_run: bool
    diff: str
    files: dict[str, int]
    refused: dict[str, str]
    overlapping: int


class LintFacts(Facts, frozen=True, kw_only=True):
    """What was read, and what became of the violations.

    `lint_files` counts files by what they are in CI: `scripts`, `pipelines`, `gates` (Python in CI
    folders), `other files`. `embedded` are scripts that stand in pipelines. `left_out` counts files
    that were not read, by reason. `rules` counts those that ran by family. `latin1` are files whose bytes are not UTF-8. `silenced` violations have a comment, `unreported` ones are
    above the limit of a report. `meanings` are those of the rules that report.
    """

    lint_files: dict[str, int]
    embedded: int
    rules: dict[str, int]
    unreadable: tuple[UnreadableFact, ...]
    left_out: dict[str, int]
    latin1: int
    silenced: int
    errors: int
    warnings: int
    notes: int
    unreported: int = 0
    since: LintSinceFacts | None = None
    baseline: LintBaselineFacts | None = None
    fix: LintFixFacts | None = None
    meanings: dict[str, str] = {}  # noqa: RUF012 - msgspec copies it
