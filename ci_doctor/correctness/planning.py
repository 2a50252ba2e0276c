# SPDX-License-Identifier: Apache-2.0
"""Reads files and PATH: from settings to a plan that can run. Starts nothing."""

from collections.abc import Mapping
from pathlib import Path

from ci_doctor.config.decoding import seconds_above_zero
from ci_doctor.config.loading import Config
from ci_doctor.correctness.arms import arm_plan
from ci_doctor.correctness.budget import Budget
from ci_doctor.correctness.settings import Arm, CorrectnessSettings, ExperimentPlan, Rules
from ci_doctor.load.requests import Request
from ci_doctor.services.check import check_services
from ci_doctor.services.configured import service_specs
from ci_doctor.services.script_check import check_scripts
from ci_doctor.services.spec import LaunchContext


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
        request_timeout_s=seconds_above_zero(settings.request_timeout, "request_timeout"),
        started=budget.began,
        deadline=budget.deadline,
        grace_s=budget.grace_s,
        directory=directory,
        services_directory=loaded.directory,
        environment=environment,
    )
    _check_services(made)
    return made


def rules(settings: CorrectnessSettings) -> Rules:
    """The rules of the verdict. At least as many candidate starts are made as must be clean."""
    return Rules(
        retries=max(settings.retries, settings.min_candidate_starts),
        alpha=settings.alpha,
        policy=settings.policy,
        least_candidates=settings.min_candidate_starts,
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
