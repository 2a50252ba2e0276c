# SPDX-License-Identifier: Apache-2.0
"""Reads the job's log that the agent keeps beside the job, while the job runs.

The agent sets BUILDKITE_JOB_LOG_TMPFILE under its option `enable-job-log-tmpfile` (off by default).
https://buildkite.com/docs/pipelines/configure/environment-variables#BUILDKITE_JOB_LOG_TMPFILE
"""

import os
import stat
import time
from collections.abc import Mapping
from pathlib import Path

from ci_doctor.buildkite.job_log import CommandOutput, command_output
from ci_doctor.system import clock

VARIABLE = "BUILDKITE_JOB_LOG_TMPFILE"
MOST_BYTES = 64 * 1024 * 1024
# The agent passes output on as it comes; the last of it is a moment behind.
_WAIT_S = 2.0
_PAUSE_S = 0.1


def read_log_file(
    environ: Mapping[str, str], *, wait_s: float = _WAIT_S, most_bytes: int = MOST_BYTES
) -> CommandOutput | str | None:
    """The command's output, a sentence on why it cannot be had, or None without such a file.

    Waits up to `wait_s` seconds for the end of the output; reads the last `most_bytes` bytes.
    """
    name = environ.get(VARIABLE)
    if not name:
        return None
    try:
        return _until_whole(Path(name), most_bytes, wait_s)
    except OSError as error:
        return f"the job's log {name} cannot be read: {error.strerror or error}"


def _until_whole(path: Path, most_bytes: int, wait_s: float) -> CommandOutput | str:
    """Read again whenever the file has grown, until the end of the output is there."""
    deadline = clock.now() + wait_s
    known_bytes = -1
    output = None
    while True:
        size = path.stat().st_size
        if size != known_bytes:
            known_bytes = size
            output = _read(path, most_bytes)
        if output is not None and output.problem is None:
            return output
        if clock.now() >= deadline:
            return output or "the job's log does not show where the command begins"
        # Twenty looks at a size at most. inotify(7) would need the event loop, for nothing more.
        time.sleep(_PAUSE_S)


def _read(path: Path, most_bytes: int) -> CommandOutput | None:
    # Not a pipe, at which an open would wait.
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(f"{path} is not a regular file")
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        start = max(0, size - most_bytes)
        file.seek(start)
        return command_output(file.read(most_bytes), is_whole=start == 0)
