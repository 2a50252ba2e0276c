# SPDX-License-Identifier: Apache-2.0
"""Reads files and PATH: from settings to a plan that can run. Starts nothing."""

from collections.abc import Mapping
from pathlib import Path

from ci_doctor.config.decoding import seconds_above_zero
from ci_doctor.config.loading import Config
from ci_doctor.correctness.arms import arm_plan
from ci_doctor.correctness.budget import Budget
from ci_doctor.correctness.comparison import read_comparison
from ci_doctor.correctness.settings import (
    Arm,
    CorrectnessSettings,
    ExperimentPlan,
    Policy,
    Rules,
)
from ci_doctor.errors import UsageError
from ci_doctor.load.requests import Request
from ci_doctor.services.check import check_services
from ci_doctor.services.configured import service_specs
from ci_doctor.services.script_check import check_scripts
from ci_doctor.services.spec import LaunchContext

# With five starts of each arm, full separation has p = 2/140 in the blocks 1+1 and 4+4: fewer starts
# cannot reach alpha = 0.025.
FEWEST_STARTS = 10


def plan(
    settings: CorrectnessSettings,
    loaded: Config,
    requests: tuple[Request, ...],
    *,
    budget: Budget,
    directory: Path,
    environment: Mapping[str, str],
) -> ExperimentPlan:
    """The plan of an experiment. Raises UsageError for what cannot work."""
    specs = service_specs(loaded)
    made = ExperimentPlan(
        arms={arm: arm_plan(arm, settings, specs, loaded) for arm in Arm},
        requests=requests,
        rules=rules(settings),
        concurrency=settings.concurrency,
        passes=settings.passes,
        caches=settings.caches,
        shared=settings.shared,
        request_timeout_s=seconds_above_zero(settings.request_timeout, "request_timeout"),
        comparison=read_comparison(settings.compare, settings.limit),
        started=budget.began,
        deadline=budget.deadline,
        grace_s=budget.grace_s,
        directory=directory,
        services_directory=loaded.directory,
        environment=environment,
        control=settings.control,
    )
    _check_services(made)
    return made


def rules(settings: CorrectnessSettings) -> Rules:
    """The rules of the verdict. Raises UsageError for limits within which nothing can be decided.

    At least as many candidate starts are made as must answer before a pass.
    """
    _check_limits(settings)
    return Rules(
        retries=max(settings.retries, settings.min_candidate_starts),
        alpha=settings.alpha,
        policy=settings.policy,
        least_candidates=settings.min_candidate_starts,
        least_baselines=settings.min_baseline_starts,
        archive_builds=settings.archive_builds,
        max_starts=settings.max_starts,
        seed=settings.seed or 0,
        evidence=settings.evidence,
    )


def _check_limits(settings: CorrectnessSettings) -> None:
    # This policy makes `retries` pairs, and no test.
    if settings.policy is Policy.ANY:
        return
    if settings.max_starts < FEWEST_STARTS:
        raise UsageError(
            f"max_starts: with {settings.max_starts} starts no regression can be declared, "
            f"because the exact test takes {FEWEST_STARTS} starts for a small enough p-value",
            hint=f"write {FEWEST_STARTS} or more; --budget bounds the time",
        )
    first = settings.min_baseline_starts + settings.min_candidate_starts
    if first > settings.max_starts:
        raise UsageError(
            f"max_starts: a pass takes {first} starts (min_baseline_starts and "
            f"min_candidate_starts), and {settings.max_starts} are the most",
            hint=f"raise max_starts to {first} or more",
        )


def _check_services(made: ExperimentPlan) -> None:
    """Raises UsageError for services that cannot work."""
    # A script that the baseline runs is no typing error in the candidate: if it is not there, the
    # change has removed it.
    elsewhere: set[str] = set()
    for arm, planned in made.arms.items():
        context = LaunchContext(
            environment=made.environment,
            directory=made.services_directory,
            log_directory=made.directory / "logs",
            placeholders={"arm": arm.value, "start": "1"},
        )
        order = check_services(planned.specs, planned.names, context)
        check_scripts(planned.specs, order, context, elsewhere)
        for name in order:
            elsewhere.update(planned.specs[name].words())
