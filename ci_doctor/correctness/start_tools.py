# SPDX-License-Identifier: Apache-2.0
"""Acts on directories: what a start needs besides the plan, its compile caches among it."""

from collections.abc import Callable
from pathlib import Path

from ci_doctor.correctness.attempt import ExperimentProgress, StartTools
from ci_doctor.correctness.caches import cache_places, fresh_caches
from ci_doctor.correctness.evidence.samples import Sample
from ci_doctor.correctness.restored_caches import copy_restored
from ci_doctor.correctness.settings import Caches, ExperimentPlan
from ci_doctor.errors import InfraError

# The directory of a run's compile caches, in its report directory.
CACHES = ".ci-doctor-caches"


def start_tools(
    plan: ExperimentPlan,
    caches: Path,
    keep: Callable[[Sample], None],
    tell: Callable[[ExperimentProgress], None],
) -> StartTools:
    """The tools of a start whose compile caches go into the directory `caches`, if not as they are.

    Raises InfraError if that directory cannot be made.
    """
    environment = plan.environment
    if plan.caches is Caches.AS_IS:
        return StartTools(keep=keep, tell=tell, cache_places=cache_places(environment))
    try:
        variables = fresh_caches(caches, environment)
        copy_restored(plan.restored, variables)
    except OSError as error:
        raise InfraError(
            f"cannot make {caches}: {error.strerror}", hint="free some disk space"
        ) from error
    return StartTools(keep=keep, tell=tell, caches=variables, cache_places=(caches,))
