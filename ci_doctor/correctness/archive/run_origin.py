# SPDX-License-Identifier: Apache-2.0
"""Reads git's files, `run.json` and the name of the host: where a run's baseline starts are from."""

import os

from ci_doctor.buildkite.job import JobEnvironment
from ci_doctor.correctness.archive.build_origin import BuildOrigin, build_origin
from ci_doctor.correctness.evidence.run_identity import read_run
from ci_doctor.correctness.settings import Arm, ExperimentPlan
from ci_doctor.errors import UsageError
from ci_doctor.identity.libraries import commit_of


def origin_of_run(plan: ExperimentPlan, commit: str | None) -> BuildOrigin | None:
    """The build that makes the starts of `plan`; `commit` is the one that is checked out.

    A resumed run is the same as before. None if the run is not described in the report directory:
    a start of an unknown build is better than a run that ends with an error after its verdict.
    """
    job = JobEnvironment.from_environ(plan.environment)
    try:
        started_at = read_run(plan.directory).started_at
    except UsageError:
        return None
    run = f"{os.uname().nodename} {started_at}"
    return build_origin(job, run, commit, _baseline_commit(plan))


def _baseline_commit(plan: ExperimentPlan) -> str | None:
    """The commit of the repository in which the baseline's answering service runs."""
    arm = plan.arms[Arm.BASELINE]
    spec = arm.specs[arm.names[-1]]
    return commit_of((plan.services_directory / (spec.cwd or "")).absolute())
