# SPDX-License-Identifier: Apache-2.0
"""Reads files: the last green run below a path that a person named, and what changed since then."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct

from ci_doctor.drift.compare import SHOWN, change_rows, compare, one_sided_row, sentence
from ci_doctor.drift.snapshot import SNAPSHOT_FILE, Snapshot, read_snapshot
from ci_doctor.errors import CiDoctorError, UsageError
from ci_doctor.model.facts.preparing import Drift, SinceGreenFacts, Suspicion
from ci_doctor.model.outcome import Report, Row, Table, Verdict, is_green
from ci_doctor.system.files.access import read_regular

_REPORT: Final = "report.json"
_UNREADABLE: Final = "cannot be read, or has no snapshot"
# A directory of many runs: build/step/command.
_DEPTH: Final = 3


_TITLE: Final = "Since the last green run"
_IN_A_SENTENCE: Final = 4


class GreenRun(Struct, frozen=True, kw_only=True):
    """The environment of a green run. `source` says where it is from, for a reader."""

    snapshot: Snapshot
    source: str


def latest_green(path: Path, step: str | None) -> GreenRun | str:
    """The newest green run of `step` (a step's key; None: of any) below `path`, or why there is none.

    A snapshot's file counts as green, because it was named. A report directory counts if its verdict
    is `pass` or `flaky`. Of a directory of many of them the newest green one of the step counts.
    Raises nothing.
    """
    try:
        if path.is_dir():
            return _of_directory(path, step)
        if path.exists():
            return GreenRun(snapshot=read_snapshot(path), source=str(path))
    except CiDoctorError as error:
        return error.message
    except OSError as error:
        return f"{path} cannot be read: {error.strerror or error}"
    return f"{path} does not exist"


def _of_directory(directory: Path, step: str | None) -> GreenRun | str:
    if (directory / _REPORT).exists():
        reason = why_not_green(_report(directory))
        if reason is not None:
            return f"the run in {directory} {reason}"
        return GreenRun(snapshot=read_snapshot(directory), source=str(directory))
    if (directory / SNAPSHOT_FILE).exists():
        return f"{directory} holds no {_REPORT}, so its run may not have been green"
    return _newest(directory, step)


def why_not_green(report: Report) -> str | None:
    """Why the run of `report` does not count as green, as a predicate; None if it does."""
    if report.error is not None:
        return "ended by an error"
    # `run -- CMD` judges nothing, and hands on the status of CMD.
    if report.verdict is None and report.command == "run" and report.exit_code == 0:
        return None
    if report.verdict is None:
        return "has no verdict"
    if not is_green(report.verdict):
        return f"ended {report.verdict}"
    if report.exit_code and report.verdict is Verdict.PASS:
        return f"ended with exit code {report.exit_code}"
    return None


class _GreenCandidate(NamedTuple):
    """A run that may count: when it was (RFC 3339 in UTC), and where it lies."""

    time: str
    path: Path


def _newest(directory: Path, step: str | None) -> GreenRun | str:
    """Of a directory of many: report directories at any of its first levels, and snapshot files."""
    candidates: list[_GreenCandidate] = []
    reasons: Counter[str] = Counter()
    for path in _paths(directory):
        candidate = _candidate(path, step)
        if isinstance(candidate, _GreenCandidate):
            candidates.append(candidate)
        else:
            reasons[candidate] += 1
    # Only the newest is read whole: a snapshot has some megabytes, and there may be hundreds.
    for candidate in sorted(candidates, reverse=True):
        try:
            snapshot = read_snapshot(candidate.path)
        except (CiDoctorError, OSError):
            reasons[_UNREADABLE] += 1
        else:
            return GreenRun(snapshot=snapshot, source=str(candidate.path))
    if not reasons:
        return f"{directory} holds no snapshot and no report"
    counts = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
    return f"no run in {directory} is one to compare with: {counts}"


def _candidate(path: Path, step: str | None) -> _GreenCandidate | str:
    """A run; or why it does not count, without its name, because many have the same reason."""
    try:
        if path.is_dir():
            report = _report(path)
            reason = why_not_green(report)
            if reason is not None:
                return reason
            about = report.about
            time = report.started_at
        else:
            snapshot = read_snapshot(path)
            about = snapshot.about
            time = snapshot.taken_at
    except (CiDoctorError, OSError):
        return _UNREADABLE
    if step is not None and about.step != step:
        return f"of the step {about.step}" if about.step else "of no known step"
    return _GreenCandidate(time=time, path=path)


def _paths(directory: Path) -> Iterator[Path]:
    """Report directories, and the JSON files beside them that may be snapshots."""
    for place, names, files in os.walk(directory):
        if len(Path(place).relative_to(directory).parts) >= _DEPTH:
            names.clear()
        names.sort()
        if _REPORT in files:
            yield Path(place)
            names.clear()
            continue
        for name in sorted(files):
            if name.endswith(".json") and name != SNAPSHOT_FILE:
                yield Path(place) / name


def _report(directory: Path) -> Report:
    from ci_doctor.render import json

    try:
        return json.parse(read_regular(directory / _REPORT))
    except RecursionError as error:
        raise UsageError(f"{directory / _REPORT} is no report: it is not JSON") from error


def label(run: GreenRun) -> str:
    """When it was, and which build: `2026-11-20, build 41`."""
    day = run.snapshot.taken_at[:10]
    build = run.snapshot.about.build
    return day if build is None else f"{day}, build {build}"


class SinceGreen(Struct, frozen=True, kw_only=True):
    """A section of a report: `table`, its first line, and the same for programs."""

    table: Table
    line: str
    facts: SinceGreenFacts


def since_green(green: GreenRun | str, now: Snapshot) -> SinceGreen:
    """What is different `now`; why that is unknown, if there is no green run to compare with."""
    if isinstance(green, str):
        return unknown_since_green(green)
    drift = compare(green.snapshot, now, sources=(green.source, "this run"))
    line = f"since the last green run: {_phrase(drift)}"
    # What one side does not know, and what would matter.
    one_sided = [each for each in drift.one_sided if each.suspicion is not Suspicion.INFORMATION]
    rows = [
        Row(label=line),
        *change_rows(drift.changes),
        *map(one_sided_row, one_sided[:SHOWN]),
    ]
    return SinceGreen(
        table=Table(title=f"{_TITLE} ({label(green)})", rows=tuple(rows)),
        line=line,
        facts=SinceGreenFacts(unknown=None, drift=drift),
    )


def unknown_since_green(reason: str) -> SinceGreen:
    """The section of a run whose changes cannot be known: never `no changes`."""
    line = f"unknown: {reason}"
    return SinceGreen(
        table=Table(title=_TITLE, rows=(Row(label=line),)),
        line=f"since the last green run: {line}",
        facts=SinceGreenFacts(unknown=reason, drift=None),
    )


def _phrase(drift: Drift) -> str:
    """The most suspicious changes in words; informational ones only if there are no others."""
    relevant = [each for each in drift.changes if each.suspicion is not Suspicion.INFORMATION]
    if not relevant:
        unknown = [each for each in drift.one_sided if each.suspicion is not Suspicion.INFORMATION]
        if unknown:
            return f"no difference is known, and {len(unknown)} facts are known to one side only"
        count = len(drift.changes)
        return f"only {count} informational differences" if count else "no difference"
    phrases = [sentence(each) for each in relevant[:_IN_A_SENTENCE]]
    rest = len(relevant) - len(phrases)
    if rest:
        phrases.append(f"and {rest} more")
    return ", ".join(phrases)
