# SPDX-License-Identifier: Apache-2.0
"""Reads the traces that the processes of a run wrote into a folder."""

from pathlib import Path

from ci_doctor.errors import InfraError
from ci_doctor.imports.record.recorded import RecordedProcess
from ci_doctor.imports.record.trace import read_trace


def read_traces(directory: Path) -> tuple[tuple[RecordedProcess, ...], tuple[str, ...]]:
    """The processes that wrote traces into `directory`, and why other traces cannot be read.

    The processes are in the order of their starts. A process that ended before its first line was
    complete had not imported anything yet, and is in neither.
    """
    processes = []
    unreadable = []
    for path in sorted(directory.glob("*.trace")):
        try:
            process = read_trace(path.read_text(encoding="ascii", errors="replace"))
        except (InfraError, OSError) as error:
            unreadable.append(f"{path.name}: {error}")
            continue
        if process is not None:
            processes.append(process)
    # The names of the files begin with pids, which say nothing about the order of starts.
    processes.sort(key=lambda process: process.started_ns)
    return tuple(processes), tuple(unreadable)
