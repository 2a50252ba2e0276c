# SPDX-License-Identifier: Apache-2.0
"""What came of installing or removing preload shims, in the words of a report."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_doctor.environment.targets import TargetInterpreter
from ci_doctor.model.action import FileState
from ci_doctor.model.finding import Finding

if TYPE_CHECKING:  # most environments are prepared without a shim
    from ci_doctor.preload.result import InstallResult


class Shims(Struct, frozen=True, kw_only=True):
    """A line per interpreter, the files that were written, and what was found."""

    lines: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


def install(rules: Sequence[str], targets: Sequence[TargetInterpreter], *, dry_run: bool) -> Shims:
    """Install `rules`, presets among them, into each of `targets`.

    Raises UsageError for a bad rule, UsageError or PreparationError where a target is refused.
    """
    from ci_doctor.preload.install import install_shims
    from ci_doctor.preload.presets import rules_of

    return describe(
        install_shims([target.python for target in targets], rules_of(rules), dry_run=dry_run)
    )


def describe(results: "Sequence[InstallResult]") -> Shims:
    """The results of installing or removing."""
    return Shims(
        lines=tuple(_line(result) for result in results),
        changed=tuple(
            str(action.path)
            for result in results
            for action in result.actions
            if _changes(action.state)
        ),
        findings=tuple(finding for result in results for finding in result.findings),
    )


def _line(result: "InstallResult") -> str:
    states = {action.state for action in result.actions if _changes(action.state)}
    what = ", ".join(sorted(states)) if states else "unchanged"
    return f"{result.target.site_dir}  {what}"


def _changes(state: FileState) -> bool:
    return state is not FileState.UNCHANGED
