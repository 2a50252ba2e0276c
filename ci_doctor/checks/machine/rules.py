# SPDX-License-Identifier: Apache-2.0
"""Pure. The rules of the area `machine`."""

from typing import Final

from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

SHARED_MEMORY_SMALL: Final = Rule(
    id="doctor/shared-memory-small",
    severity=Severity.ERROR,
    meaning="/dev/shm has less room than NCCL and the worker processes of a server need. A "
    "container has 64 MiB of it, if nobody says more, and workers then die by a bus error.",
    remedy="Start the container with `--ipc=host` or `--shm-size=16g`. In Kubernetes, mount an "
    "`emptyDir` with `medium: Memory` at /dev/shm.",
)

RULES: Final[tuple[Rule, ...]] = (SHARED_MEMORY_SMALL,)
