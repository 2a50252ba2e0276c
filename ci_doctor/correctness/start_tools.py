# SPDX-License-Identifier: Apache-2.0
"""Acts on directories: what a start needs besides the plan, directories of its own among it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ci_doctor.correctness.attempt import ExperimentProgress, StartTools
from ci_doctor.correctness.caches import cache_places, fresh_caches
from ci_doctor.correctness.evidence.samples import Sample
from ci_doctor.correctness.restored_caches import copy_restored
from ci_doctor.correctness.settings import Caches, ExperimentPlan
from ci_doctor.errors import InfraError
from ci_doctor.system.files.own_directory import own_directory

# The directory of a run's compile caches, in its report directory.
CACHES = ".ci-doctor-caches"


@contextmanager
def start_tools(
    plan: ExperimentPlan,
    caches: Path,
    keep: Callable[[Sample], None],
    tell: Callable[[ExperimentProgress], None],
    devices: str = "",
) -> Iterator[StartTools]:
    """The tools of a start, with its TMPDIR, which is removed at the end.

    What it computes and keeps goes into the directory `caches`; it runs on `devices`. If caches are used as they are,
    nothing is the start's own. Raises InfraError if a directory cannot be made.
    """
    environment = plan.environment
    if plan.caches is Caches.AS_IS:
        places = cache_places(environment)
        yield StartTools(keep=keep, tell=tell, cache_places=places, devices=devices)
        return
    with ExitStack() as stack:
        try:
            variables = fresh_caches(caches, environment)
            copy_restored(plan.restored, variables)
            # Not below `caches`: the path of a socket has 107 characters at most.
            variables["TMPDIR"] = stack.enter_context(own_directory("start"))
        except OSError as error:
            raise InfraError(
                f"cannot make {error.filename or caches}: {error.strerror}",
                hint="free some disk space",
            ) from error
        yield StartTools(
            keep=keep, tell=tell, caches=variables, cache_places=(caches,), devices=devices
        )
