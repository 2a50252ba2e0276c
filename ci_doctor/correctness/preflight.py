# SPDX-License-Identifier: Apache-2.0
"""Warnings about a plan before its first start. Pure."""

from collections.abc import Sequence
from pathlib import Path

from ci_doctor.correctness import rules
from ci_doctor.correctness.settings import Arm, ArmPlan, ExperimentPlan
from ci_doctor.environment.determinism import differing
from ci_doctor.load.prompts import parameters_of
from ci_doctor.load.requests import Request, protocol_of
from ci_doctor.model.finding import Evidence, Finding


def sampling_findings(requests: Sequence[Request], path: Path) -> tuple[Finding, ...]:
    """A warning if requests ask for random sampling: their answers may differ by design."""
    random = [request for request in requests if not _is_greedy(request)]
    if not random:
        return ()
    # One place is enough: the requests of a file are mostly written alike.
    first = random[0]
    return (
        rules.NOT_GREEDY.finding(
            f"{len(random)} of {len(requests)} requests do not ask for temperature 0: "
            "their answers may differ by design",
            evidence=(Evidence(file=str(path), line=first.line, excerpt=f"request {first.id}"),),
            remedy=rules.NOT_GREEDY.remedy,
        ),
    )


def _is_greedy(request: Request) -> bool:
    """Whether the likeliest token is always taken. With `top_k` 1 the temperature is irrelevant.

    text-generation-inference takes no temperature of 0, and has `do_sample` for it.
    """
    if not protocol_of(request).sampled:
        return True
    parameters = parameters_of(request)
    if parameters.get("do_sample") is False:
        return True
    return parameters.get("temperature") == 0 or parameters.get("top_k") == 1


def determinism_findings(plan: ExperimentPlan) -> tuple[Finding, ...]:
    """A warning if the arms run under different determinism variables.

    Then the variables are part of what is compared.
    """
    # Inherited variables count: one arm may merely repeat what both inherit.
    baseline = {**plan.environment, **_variables(plan.arms[Arm.BASELINE])}
    candidate = {**plan.environment, **_variables(plan.arms[Arm.CANDIDATE])}
    names = differing(baseline, candidate)
    if not names:
        return ()
    lines = []
    for name in names:
        left = baseline.get(name, "unset")
        right = candidate.get(name, "unset")
        lines.append(f"{name}: {left!r} against {right!r}")
    return (
        rules.DIFFERENT_DETERMINISM.finding(
            f"the arms run under different determinism variables: {', '.join(names)}",
            evidence=(Evidence(excerpt="\n".join(lines)),),
            remedy=rules.DIFFERENT_DETERMINISM.remedy,
        ),
    )


def _variables(arm: ArmPlan) -> dict[str, str]:
    variables = {}
    for name in arm.names:
        variables.update(arm.specs[name].env)
    return variables
