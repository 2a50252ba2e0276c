# SPDX-License-Identifier: Apache-2.0
"""Reads /proc: who the processes on a GPU are. In a container the driver's pids may be others'."""

import os
from typing import Final

from msgspec import Struct

from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.gpu.smi_log import SmiProcess
from ci_doctor.checks.processes import RunningProcess, job_of, read_processes

_MOST_FILES: Final = 4096


class GpuHolder(Struct, frozen=True, kw_only=True):
    """A process on a GPU.

    `facts` is what /proc says of it; None if the pid is not that of a process here, so that it runs
    outside of this container. `job` is its Buildkite job, if that is another than ours.
    """

    process: SmiProcess
    facts: RunningProcess | None
    job: str | None = None


def describe_holder(process: SmiProcess, context: CheckContext) -> GpuHolder:
    """What /proc says of `process`. Raises UndeterminedError if /proc shows nothing at all."""
    facts = context.shared(read_processes).get(process.pid)
    if facts is None or _uses_gpu(context, process.pid) is False:
        return GpuHolder(process=process, facts=None)
    job = job_of(context, process.pid)
    if job == context.environ.get("BUILDKITE_JOB_ID"):
        job = None
    return GpuHolder(process=process, facts=facts, job=job)


def _uses_gpu(context: CheckContext, pid: int) -> bool | None:
    """Whether it has a file of the driver open; None if this user may not see its files.

    Without one it is another process that has this pid here.
    """
    place = context.proc / str(pid) / "fd"
    try:
        names = os.listdir(place)  # noqa: PTH208 - a server has thousands of them
    except OSError:
        return None
    for name in names[:_MOST_FILES]:
        try:
            target = os.readlink(place / name)  # noqa: PTH115
        except OSError:
            continue
        if target.startswith("/dev/nvidia"):
            return True
    return False
