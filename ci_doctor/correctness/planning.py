# SPDX-License-Identifier: Apache-2.0
"""Reads files, PATH and the list of GPUs: from settings to a plan that can run. Starts no service."""

from collections.abc import Mapping
from pathlib import Path

from ci_doctor.config.decoding import seconds_above_zero
from ci_doctor.config.loading import Config
from ci_doctor.correctness.arms import arm_plan
from ci_doctor.correctness.budget import Budget
from ci_doctor.correctness.comparison import read_comparison
from ci_doctor.correctness.devices import placeholders, places_of
from ci_doctor.correctness.settings import (
    Arm,
    CorrectnessSettings,
    ExperimentPlan,
    Policy,
    Rules,
)
from ci_doctor.correctness.verdict.looks import widened
from ci_doctor.errors import UsageError
from ci_doctor.load.requests import Request
from ci_doctor.services.check import check_scripts, check_services
from ci_doctor.services.spec import LaunchContext, service_specs

# Four and five starts separate the arms with p = 1/70 in the blocks 1+1 and 3+4: fewer cannot reach
# alpha = 0.025.
FEWEST_STARTS = 9


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
    arms = {arm: arm_plan(arm, settings, specs, loaded) for arm in Arm}
    made = ExperimentPlan(
        arms=arms,
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
        may_take_longer=budget.is_assumed,
        grace_s=budget.grace_s,
        directory=directory,
        services_directory=loaded.directory,
        environment=environment,
        control=settings.control,
        places=places_of(settings.devices, arms, environment),
    )
    _check_services(made)
    return made


def rules(settings: CorrectnessSettings) -> Rules:
    """The rules of the verdict. Raises UsageError for limits within which nothing can be decided.

    At least as many candidate starts are made as must answer before a pass. If those leave no
    regression to be decided within `max_starts`, more starts are allowed (see `widening`).
    """
    _check_limits(settings)
    chosen = Rules(
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
    if settings.policy is Policy.ANY:
        return chosen
    try:
        # Not beside an archive: whether it holds anything is not known yet, and it needs fewer.
        return widened(chosen, archived=False)
    except ValueError as error:
        raise UsageError(f"alpha: {error}", hint="write alpha = 0.001 or more") from error


def widening(settings: CorrectnessSettings, made: Rules) -> str | None:
    """That the limit of the starts is larger than the one that was written; None if it is not."""
    # A policy without a test, or a limit that is large enough.
    if made.max_starts == settings.max_starts:
        return None
    first = f"{made.least_baselines} baseline and {made.least_candidates} candidate starts first"
    return (
        f"max_starts is raised from {settings.max_starts} to {made.max_starts}: with {first}, "
        "fewer starts can decide no regression"
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
            placeholders={"arm": arm.value, "start": "1", **placeholders(*made.places[:1])},
        )
        order = check_services(planned.specs, planned.names, context)
        check_scripts(planned.specs, order, context, elsewhere)
        for name in order:
            elsewhere.update(planned.specs[name].words())
