# SPDX-License-Identifier: Apache-2.0
"""Pure. The `[lint]` section."""

from msgspec import Struct

from ci_doctor.model.finding import Severity


class PathSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What counts for some files: globs relative to the repository's root, and rules to leave out."""

    match: tuple[str, ...]
    ignore: tuple[str, ...]


class LintSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rules are named by their ids or by patterns: `shell/*`, `*`.

    baseline: a file of `--write-baseline`, relative to the file that names it.
    """

    ignore: tuple[str, ...] = ()
    severity: dict[str, Severity] = {}
    paths: tuple[PathSettings, ...] = ()
    baseline: str | None = None
