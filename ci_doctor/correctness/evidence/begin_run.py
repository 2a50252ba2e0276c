# SPDX-License-Identifier: Apache-2.0
"""Acts on files: writes `run.json` at the begin of a run."""

import json
from pathlib import Path

import msgspec

from ci_doctor.correctness.evidence.files import RUN, STARTS, is_ours
from ci_doctor.correctness.evidence.run_identity import RunDescription, RunIdentity, read_run
from ci_doctor.errors import UsageError
from ci_doctor.system import clock
from ci_doctor.system.files.writing import write_atomically
from ci_doctor.version import tool_version


def write_run(directory: Path, identity: RunIdentity, max_starts: tuple[int, ...] = ()) -> None:
    """Describe the run and its limit in `run.json`, before its first start.

    Raises UsageError, also if `run.json` or `starts.jsonl` belongs to somebody else.
    """
    for path in (directory / RUN, directory / STARTS):
        # Other tools write files of these names, and a directory of theirs is not ours to clear.
        if path.exists() and not is_ours(path):
            raise UsageError(
                f"{path} is not a file that ci-doctor wrote",
                hint="choose another directory with --report-dir",
            )
    run = RunDescription(
        version=tool_version(),
        started_at=clock.timestamp(),
        identity=identity,
        max_starts=max_starts,
    )
    _write(directory, run)


def write_limits(directory: Path, max_starts: tuple[int, ...]) -> None:
    """Note the limits under which the run in `directory` was made, and goes on. Raises UsageError."""
    run = read_run(directory)
    if run.max_starts != max_starts:
        _write(directory, msgspec.structs.replace(run, max_starts=max_starts))


def _write(directory: Path, run: RunDescription) -> None:
    content = json.dumps(msgspec.to_builtins(run)).encode("ascii")
    write_atomically(directory / RUN, content + b"\n")
