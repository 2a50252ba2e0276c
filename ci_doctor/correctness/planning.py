# SPDX-License-Identifier: Apache-2.0
"""From what a person wrote to a plan that can be run. Reads files and PATH, starts nothing."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from ci_doctor.config.decoding import decode_section, seconds_above_zero
from ci_doctor.config.loading import Config
from ci_doctor.correctness.estimate import default_budget
from ci_doctor.correctness.settings import (
    Arm,
    ArmPlan,
    ArmSettings,
    CorrectnessSettings,
    Plan,
    Proof,
    Rules,
)
from ci_doctor.environment.determinism import differing
from ci_doctor.errors import UsageError
from ci_doctor.load.requests import Request
from ci_doctor.model.finding import Evidence, Finding, Severity
from ci_doctor.model.suggestion import did_you_mean
from ci_doctor.services.check import check_services
from ci_doctor.services.configured import service_specs
from ci_doctor.services.spec import LaunchContext, ServiceSpec
from ci_doctor.system.gpu_memory import can_read_gpu_memory

# Of a budget, what is kept for stopping the last start and writing the report, and for ending the process.
LONGEST_RESERVE_S = 12.0
SHORTEST_RESERVE_S = 0.5
DEFAULT_BUDGET_S = 25 * 60.0


class Budget(Struct, frozen=True, kw_only=True):
    """`seconds` of wall clock from the monotonic time `began` on, the report included."""

    began: float
    seconds: float


def budget_of(
    settings: CorrectnessSettings, environment: Mapping[str, str], began: float
) -> tuple[Budget, str]:
    """The budget of a run that began then, and where it comes from if nobody gave it. Raises UsageError."""
    if settings.budget is not None:
        return Budget(began=began, seconds=seconds_above_zero(settings.budget, "budget")), ""
    seconds, note = default_budget(environment) or (DEFAULT_BUDGET_S, "")
    return Budget(began=began, seconds=seconds), note


def plan(
    settings: CorrectnessSettings,
    loaded: Config,
    requests: tuple[Request, ...],
    *,
    budget: Budget,
    directory: Path,
    environment: Mapping[str, str],
) -> Plan:
    """The plan of an experiment. Raises UsageError for what cannot work."""
    specs = service_specs(loaded)
    reserve = min(LONGEST_RESERVE_S, SHORTEST_RESERVE_S + 0.25 * budget.seconds)
    made = Plan(
        arms={arm: _arm(arm, settings, specs, loaded) for arm in Arm},
        requests=requests,
        rules=rules(settings),
        concurrency=settings.concurrency,
        passes=settings.passes,
        caches=settings.caches,
        request_timeout_s=seconds_above_zero(settings.request_timeout, "request_timeout"),
        started=budget.began,
        deadline=budget.began + budget.seconds - reserve,
        grace_s=min(5.0, reserve / 3),
        directory=directory,
        services_directory=loaded.directory,
        environment=environment,
    )
    _check(made)
    return made


def rules(settings: CorrectnessSettings) -> Rules:
    """By which rules a verdict is made; as many candidate starts as must be clean are made at least."""
    return Rules(
        retries=max(settings.retries, settings.min_candidate_starts),
        alpha=settings.alpha,
        policy=settings.policy,
        least_candidates=settings.min_candidate_starts,
    )


def _check(made: Plan) -> None:
    """Raises UsageError for services that cannot work."""
    for arm, planned in made.arms.items():
        context = LaunchContext(
            environment=made.environment,
            directory=made.services_directory,
            log_directory=made.directory / "logs",
            placeholders={"arm": arm.value, "start": "1"},
        )
        check_services(planned.specs, planned.names, context)


def read_settings(
    loaded: Config,
    environment: Mapping[str, str],
    flags: Mapping[str, Any],
    commands: Mapping[Arm, str | None],
    variables: Mapping[Arm, Mapping[str, str]],
) -> tuple[CorrectnessSettings, dict[str, str]]:
    """The `[correctness]` section under the command line's `flags`, and where each value came from.

    A command on the command line takes the place of an arm's configured services; `variables` go on top of both.
    """
    settings, origins = decode_section(
        loaded, "correctness", CorrectnessSettings, environ=environment, flags=flags
    )
    arms: dict[str, ArmSettings] = {}
    for arm in Arm:
        chosen: ArmSettings = getattr(settings, arm.value) or ArmSettings()
        if command := commands[arm]:
            chosen = structs.replace(chosen, command=command, services=())
        arms[arm.value] = structs.replace(chosen, env={**chosen.env, **variables[arm]})
    return structs.replace(settings, **arms), origins


def _arm(
    arm: Arm, settings: CorrectnessSettings, specs: Mapping[str, ServiceSpec], loaded: Config
) -> ArmPlan:
    chosen: ArmSettings = getattr(settings, arm.value) or ArmSettings()
    if not (chosen.services or chosen.command):
        raise UsageError(
            f"the {arm} is missing: nothing says how to start it",
            hint=f"give --{arm} 'CMD … {{port}}', or services = […] in [correctness.{arm}]",
        )
    if chosen.services and chosen.command:
        raise UsageError(
            f"{loaded.where('correctness', arm.value)}: the {arm} has both `services` and `command`",
            hint="keep one of them",
        )
    names = chosen.services
    if chosen.command:
        specs, names = {arm.value: ServiceSpec(command=chosen.command)}, (arm.value,)
    else:
        for name in names:
            if name not in specs:
                where = loaded.where("correctness", arm.value, "services")
                raise UsageError(
                    f"{where}: no service is named `{name}`", hint=did_you_mean(name, specs)
                )
    return ArmPlan(
        specs={
            name: _over(spec, chosen, settings, last=name == names[-1])
            for name, spec in specs.items()
        },
        names=tuple(names),
        proof=_checked_proof(arm, chosen, names, loaded),
        reset=_path(
            chosen.reset or settings.reset, loaded.where("correctness", arm.value, "reset")
        ),
    )


def _checked_proof(
    arm: Arm, chosen: ArmSettings, names: Sequence[str], loaded: Config
) -> tuple[Proof, ...]:
    where = loaded.where("correctness", arm.value, "proof")
    for proof in chosen.proof:
        if (proof.metric is None) == (proof.log is None):
            raise UsageError(
                f"{where}: a proof has either `metric` or `log`",
                hint='write { metric = "…", above = 0 }',
            )
        if proof.service is not None and proof.service not in names:
            raise UsageError(
                f"{where}: the {arm} starts no service `{proof.service}`",
                hint=did_you_mean(proof.service, names),
            )
        try:
            re.compile(proof.log or "")
        except re.error as error:
            raise UsageError(f"{where}: /{proof.log}/ is no regular expression: {error}") from error
    return chosen.proof


def _path(reset: str | None, where: str) -> str | None:
    if reset is not None and not re.fullmatch(r"/(?!/)[!-~]*", reset):
        raise UsageError(
            f"{where}: `{reset}` is not the path of a URL",
            hint='write reset = "/reset_prefix_cache"',
        )
    return reset


def _over(
    spec: ServiceSpec, chosen: ArmSettings, settings: CorrectnessSettings, *, last: bool
) -> ServiceSpec:
    """A service with what the arm and the command line say on top."""
    changes: dict[str, object] = {"env": {**spec.env, **chosen.env}}
    if settings.start_timeout is not None:
        changes["start_timeout"] = settings.start_timeout
    if settings.ready is not None and last:
        changes["ready"] = settings.ready
    if "gpu-memory" not in spec.released and can_read_gpu_memory():
        changes["released"] = [*spec.released, "gpu-memory"]
    return structs.replace(spec, **changes)


def determinism_findings(plan: Plan) -> tuple[Finding, ...]:
    """A warning where the arms run under different determinism variables: then these are part of what is compared."""
    environments = [{**plan.environment, **_environment(plan.arms[arm])} for arm in Arm]
    names = differing(*environments)
    if not names:
        return ()
    told = [
        f"{name}: {' against '.join(repr(each.get(name, 'unset')) for each in environments)}"
        for name in names
    ]
    return (
        Finding(
            rule="correctness/different-determinism",
            severity=Severity.WARNING,
            summary=f"the arms run under different determinism variables: {', '.join(names)}",
            evidence=(Evidence(excerpt="\n".join(told)),),
            remedy="give both arms the same, unless this is the change under test",
        ),
    )


def _environment(arm: ArmPlan) -> dict[str, str]:
    return {key: value for name in arm.names for key, value in arm.specs[name].env.items()}


def parse_arm_variables(words: Sequence[str]) -> dict[Arm, dict[str, str]]:
    """`ARM:NAME=VALUE` for each of `words`. Raises UsageError."""
    variables: dict[Arm, dict[str, str]] = {arm: {} for arm in Arm}
    for word in words:
        arm, colon, assignment = word.partition(":")
        name, equals, value = assignment.partition("=")
        if not (colon and equals and name):
            raise UsageError(
                f"--env {word}: not ARM:NAME=VALUE",
                hint="write --env candidate:VLLM_LOGGING_LEVEL=DEBUG",
            )
        if arm not in set(Arm):
            raise UsageError(
                f"--env {word}: unknown arm `{arm}`", hint=did_you_mean(arm, list(Arm))
            )
        variables[Arm(arm)][name] = value
    return variables
