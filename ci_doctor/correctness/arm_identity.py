# SPDX-License-Identifier: Apache-2.0
"""Reads the machine: the identity of an arm's servers, before they are started."""

from collections.abc import Iterator, Sequence

from ci_doctor.correctness.archive.facts import schedule_facts
from ci_doctor.correctness.settings import Arm, ArmPlan, ExperimentPlan
from ci_doctor.identity.identity import Identity
from ci_doctor.identity.read import Served, read_identity
from ci_doctor.services.spec import start_order
from ci_doctor.system.secrets.redaction import Redactor


def identity_of(
    plan: ExperimentPlan, arm: Arm, redactor: Redactor, ignore: Sequence[str]
) -> Identity:
    """The identity of an arm's servers.

    It covers machine, libraries, model, command line and schedule. `ignore` holds patterns of facts
    that may differ.
    """
    arm_plan = plan.arms[arm]
    # Requests may name several models, such as LoRA adapters.
    models = {str(request.body["model"]) for request in plan.requests if "model" in request.body}
    facts = schedule_facts(
        plan.requests,
        passes=plan.passes,
        concurrency=plan.concurrency,
        caches=plan.caches,
        reset=arm_plan.reset,
    )
    identity = read_identity(list(_served(plan, arm_plan)), models, redactor, ignore)
    return identity.also(Identity.of(facts))


def _served(plan: ExperimentPlan, arm_plan: ArmPlan) -> Iterator[Served]:
    for name in start_order(arm_plan.specs, arm_plan.names):
        spec = arm_plan.specs[name]
        # The environment of the arm goes on top of ours, as it does at the start.
        yield Served(
            name=name,
            words=tuple(spec.words()),
            environ={**plan.environment, **spec.env},
            cwd=plan.services_directory / (spec.cwd or ""),
        )
