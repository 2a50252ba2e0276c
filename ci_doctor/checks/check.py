# SPDX-License-Identifier: Apache-2.0
"""Pure. A check: its declared need and cost, and the function that looks."""

from enum import Enum
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_doctor.checks.result import CheckResult
from ci_doctor.checks.workload import NONE, Workload

if TYPE_CHECKING:  # the context reads files, and this module is pure
    from collections.abc import Callable

    from ci_doctor.checks.context import CheckContext


class Need(Enum):
    """What must be there for a check to make sense; without it the check is not run.

    The value says what is missing, as a clause.
    """

    NOTHING = ""
    GPU = "this machine has no NVIDIA GPU"
    INTERPRETER = "no Python interpreter was chosen or found"
    GIT_CHECKOUT = "the working directory is in no git checkout"
    SERVICES = "no service is configured"


class Cost(Enum):
    """How long a check may take, in seconds: its deadline. Most take less than 0.1 s.

    A file is read at once. A program is started. A GPU's driver may have to be woken. An import of
    a large package reads thousands of files.
    """

    FILES = 1.5
    PROGRAM = 1.7
    GPU_DRIVER = 15.0
    IMPORT = 60.0


class DoctorCheck(Struct, frozen=True, kw_only=True):
    """One check.

    `id` is `area/what`, as people type it; `title` says what is looked at. `needed_for`: the
    workloads that cannot be judged without it. `run` may raise UndeterminedError, and OSError for
    what cannot be read; both make the result unknown. `deadline_s` is that of the cost, if None.
    The report shows the summary of an `is_measurement` even if it is ok: its figures were asked for.
    """

    id: str
    title: str
    run: "Callable[[CheckContext], CheckResult]"
    need: Need = Need.NOTHING
    cost: Cost = Cost.FILES
    needed_for: frozenset[Workload] = NONE
    deadline_s: float | None = None
    is_measurement: bool = False

    @property
    def limit_s(self) -> float:
        """Seconds that the check may take."""
        if self.deadline_s is not None:
            return self.deadline_s
        return self.cost.value

    @property
    def area(self) -> str:
        """The part of the id before the slash."""
        return self.id.partition("/")[0]


class FinishedCheck(Struct, frozen=True, kw_only=True):
    """A check and its result; `duration_s` is None if it missed its deadline."""

    check: DoctorCheck
    result: CheckResult
    duration_s: float | None
