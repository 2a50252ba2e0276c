# SPDX-License-Identifier: Apache-2.0
"""Acts on files: how long a job waits for Buildkite's API, by the agent and by REST, in all its hooks.

A slow API must not cost a job more than the job itself is worth.
"""

import contextlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from ci_doctor.buildkite.plugin import HOST_REPORT_DIR_VARIABLE, REPORT_DIR_VARIABLE
from ci_doctor.errors import CiDoctorError
from ci_doctor.system.files.writing import write_atomically

MOST_S: Final = 30.0
SPENT: Final = f"Buildkite's API has had its {MOST_S:g} s of this job"
_FILE: Final = ".api.json"
# Of what is left, for one call: those after it are to have a part, too.
_SHARE: Final = 2 / 3
_LEAST_S: Final = 3.0
# What is shorter is not written for the next hook: it would cost more than it counts.
_COUNTED_S: Final = 0.5
# Of files that are moved: a network that is slower than this counts as an API that is slow.
_BYTES_A_SECOND: Final = 5_000_000
_SECONDS_A_FILE: Final = 0.1


class ApiTime:
    """The seconds that are left of MOST_S for a job.

    kept: the file in which the hooks of `job` hand on what they have taken; None for none.
    """

    def __init__(self, job: str = "", kept: Path | None = None) -> None:
        self._job = job
        self._kept = kept
        self._taken_s = self._read()

    @classmethod
    def of_job(cls, environ: Mapping[str, str]) -> Self:
        """What is left for the job of `environ`; all of it where nothing is kept."""
        job = environ.get("BUILDKITE_JOB_ID", "")
        root = environ.get(HOST_REPORT_DIR_VARIABLE) or environ.get(REPORT_DIR_VARIABLE)
        return cls(job, Path(root, _FILE) if job and root else None)

    def left_s(self) -> float:
        """Seconds left; 0 or less if there are none."""
        return MOST_S - self._taken_s

    def limit_s(self, wanted_s: float) -> float:
        """Of `wanted_s` what one call may take; 0 or less if it is not to be made."""
        left_s = self.left_s()
        return min(wanted_s, max(_SHARE * left_s, min(left_s, _LEAST_S)))

    @contextlib.contextmanager
    def counted(self, work_s: float = 0.0) -> Iterator[None]:
        """Count the time of a call, but for `work_s` seconds that its files take."""
        began = time.monotonic()
        try:
            yield
        finally:
            seconds = time.monotonic() - began - work_s
            self._taken_s += max(seconds, 0.0)
            if seconds >= _COUNTED_S:
                self._write()

    def _read(self) -> float:
        try:
            kept = json.loads(self._kept.read_bytes()) if self._kept else {}
            # A directory may be one for several jobs.
            return float(kept["seconds"]) if kept.get("job") == self._job else 0.0
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return 0.0

    def _write(self) -> None:
        if self._kept is None or not self._kept.parent.is_dir():
            return
        # Without it the next hook waits as if there had been no other.
        with contextlib.suppress(CiDoctorError):
            content = {"job": self._job, "seconds": round(self._taken_s, 3)}
            write_atomically(self._kept, json.dumps(content).encode())


def moving_s(sizes: Sequence[int]) -> float:
    """Seconds that files of these sizes may take to be moved: no fault of the API."""
    return sum(sizes) / _BYTES_A_SECOND + len(sizes) * _SECONDS_A_FILE
