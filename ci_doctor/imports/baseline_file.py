# SPDX-License-Identifier: Apache-2.0
"""Acts on files: reads and writes the baseline of known import races."""

from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.errors import UsageError
from ci_doctor.imports import rules
from ci_doctor.imports.baseline import HEADER, Baseline, read_baseline, updated
from ci_doctor.imports.confirm.standing import JudgedHazard, Standing
from ci_doctor.imports.investigation import Investigation
from ci_doctor.imports.report.conclude import nothing_known
from ci_doctor.model.finding import Finding
from ci_doctor.system.files.writing import write_atomically


def load_baseline(path: Path, *, may_be_missing: bool) -> Baseline:
    """The baseline in the file `path`; an empty one if it `may_be_missing` and is.

    Raises UsageError if the file is missing or cannot be read, or is not a baseline.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        if may_be_missing:
            return Baseline()
        raise UsageError(
            f"{path}: there is no such baseline",
            hint="make it with --update-baseline, or name another file",
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: the baseline cannot be read: {error}") from error
    # Any text file has lines; only this one tells a baseline from a file of somebody else.
    if not text.startswith(HEADER.partition(":")[0]):
        raise UsageError(
            f"{path} is not a baseline of ci-doctor",
            hint=f"its first line must be `{HEADER}`",
        )
    return read_baseline(text, str(path))


class BaselineUpdate(Struct, frozen=True, kw_only=True):
    """An investigation with the baseline that was written, or findings that say why none was."""

    investigation: Investigation
    findings: tuple[Finding, ...] = ()


def update_baseline(path: Path, investigation: Investigation) -> BaselineUpdate:
    """Write the races of `investigation` to the baseline in `path`, and accept them."""
    reason = _no_evidence(investigation)
    if reason is not None:
        return _not_updated(investigation, reason)
    races = [
        judged.candidate.worst
        for judged in investigation.judged
        if judged.standing is not Standing.SAFE
    ]
    baseline = updated(investigation.baseline, races)
    try:
        write_atomically(path, baseline.text.encode())
    except UsageError as error:
        return _not_updated(investigation, error.message)
    accepted = tuple(_accepted(judged, baseline) for judged in investigation.judged)
    return BaselineUpdate(investigation=replace(investigation, judged=accepted, baseline=baseline))


def _no_evidence(investigation: Investigation) -> str | None:
    """Why a run must not change what is accepted: a race that did not occur may still be there."""
    recorded = investigation.recorded
    gap = nothing_known(investigation)
    if gap is not None:
        return gap
    if recorded.received is not None:
        return f"the run was ended by {recorded.received.name}"
    if recorded.command_failed:
        return f"the command ended with {recorded.describe_end()}"
    if not investigation.is_whole:
        return "not all imports were compared"
    return None


def _not_updated(investigation: Investigation, reason: str) -> BaselineUpdate:
    rule = rules.BASELINE_NOT_UPDATED
    finding = rule.finding(f"the baseline was not updated: {reason}", remedy=rule.remedy)
    return BaselineUpdate(investigation=investigation, findings=(finding,))


def _accepted(judged: JudgedHazard, baseline: Baseline) -> JudgedHazard:
    if baseline.entry_of(judged.candidate.worst) is None:
        return judged
    return replace(judged, standing=Standing.KNOWN)
