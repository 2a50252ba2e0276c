# SPDX-License-Identifier: Apache-2.0
"""Reads the configuration and whether there is a GPU driver: the `[correctness]` section as the plan of a run."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import structs

from ci_doctor.config.decoding import decode_section, path_in, seconds_above_zero
from ci_doctor.config.loading import Config
from ci_doctor.correctness.devices import placeholders, places_of
from ci_doctor.correctness.pace import Budget
from ci_doctor.correctness.settings import (
    Arm,
    ArmPlan,
    ArmSettings,
    CorrectnessSettings,
    ExperimentPlan,
    Policy,
    Proof,
    Rules,
    read_comparison,
)
from ci_doctor.correctness.verdict.looks import widened
from ci_doctor.errors import UsageError
from ci_doctor.load.metrics import parse_selector
from ci_doctor.load.requests import Request
from ci_doctor.machine.gpus import can_read_gpu_memory
from ci_doctor.model.words import did_you_mean
from ci_doctor.services.check import check_scripts, check_services
from ci_doctor.services.spec import LaunchContext, ServiceSpec, service_specs


def read_settings(
    loaded: Config,
    environment: Mapping[str, str],
    flags: Mapping[str, Any],
    variables: Mapping[Arm, Mapping[str, str]],
) -> CorrectnessSettings:
    """The `[correctness]` section under the command line's `flags`.

    A flag named like an arm holds a command, which replaces the configured services of that arm;
    `variables` go on top of both. Paths are relative to the working directory. Raises ConfigError.
    """
    flags = dict(flags)
    if flags.get("devices"):
        flags["devices"] = tuple(flags["devices"].split(","))
    commands = {arm: flags.pop(arm.value, None) for arm in Arm}
    settings, origins = decode_section(
        loaded, "correctness", CorrectnessSettings, environ=environment, flags=flags
    )
    changes: dict[str, ArmSettings | str] = {}
    for name in ("requests", "archive"):
        path = getattr(settings, name)
        # The address of an object store is no path.
        if path is not None and "://" not in path:
            changes[name] = str(path_in(loaded, origins[name], path))
    for arm in Arm:
        chosen = settings.arm(arm)
        if command := commands[arm]:
            # An arm with both is refused; the command line wins over a file.
            chosen = structs.replace(chosen, command=command, services=())
        changes[arm.value] = structs.replace(chosen, env={**chosen.env, **variables[arm]})
    return structs.replace(settings, **changes)


def parse_arm_variables(words: Sequence[str]) -> dict[Arm, dict[str, str]]:
    """The variables of each arm from words `ARM:NAME=VALUE`. Raises UsageError."""
    variables: dict[Arm, dict[str, str]] = {arm: {} for arm in Arm}
    for word in words:
        arm, _, assignment = word.partition(":")
        name, equals, value = assignment.partition("=")
        if not equals or not name:
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


# The path of a URL in printable ASCII; `//host` would be another server.
_PATH = re.compile(r"/(?!/)[!-~]*")


def arm_plan(
    arm: Arm, settings: CorrectnessSettings, specs: Mapping[str, ServiceSpec], loaded: Config
) -> ArmPlan:
    """The plan of one arm; `specs` are the configured services. Raises UsageError."""
    chosen = settings.arm(arm)
    names = chosen.services
    if not (names or chosen.command):
        raise UsageError(
            f"the {arm} is missing: nothing says how to start it",
            hint=f"give --{arm} 'CMD … {{port}}', or services = […] in [correctness.{arm}]",
        )
    if names and chosen.command:
        where = loaded.where("correctness", arm.value)
        raise UsageError(
            f"{where}: the {arm} has both `services` and `command`", hint="keep one of them"
        )
    reset = chosen.reset or settings.reset
    if reset is not None and not _PATH.fullmatch(reset):
        where = loaded.where("correctness", arm.value, "reset")
        raise UsageError(
            f"{where}: `{reset}` is not the path of a URL",
            hint='write reset = "/reset_prefix_cache"',
        )
    if chosen.command:
        # The service bears the name of the arm, which cannot clash: it is the only one.
        specs = {arm.value: ServiceSpec(command=chosen.command)}
        names = (arm.value,)
    for name in names:
        if name not in specs:
            where = loaded.where("correctness", arm.value, "services")
            raise UsageError(
                f"{where}: no service is named `{name}`", hint=did_you_mean(name, specs)
            )
    own_specs = {
        name: _spec(spec, chosen, settings, answers=name == names[-1])
        for name, spec in specs.items()
    }
    return ArmPlan(
        specs=own_specs,
        names=tuple(names),
        proof=tuple(_checked_proof(arm, chosen, names, loaded)),
        reset=reset,
    )


def _checked_proof(
    arm: Arm, chosen: ArmSettings, names: Sequence[str], loaded: Config
) -> Iterator[Proof]:
    """The proofs of an arm, with `metric` as a name alone: `hits{kind="hit"}` names labels too."""
    where = loaded.where("correctness", arm.value, "proof")
    for proof in chosen.proof:
        if (proof.metric is None) == (proof.log is None):
            raise UsageError(
                f"{where}: a proof has either `metric` or `log`",
                hint='write { metric = "…", above = 0 }',
            )
        wrong = "at_start" if proof.at_start and proof.log is None else ""
        wrong = wrong or ("labels" if proof.labels and proof.metric is None else "")
        if wrong:
            raise UsageError(f"{where}: `{wrong}` does not belong there", hint=f"remove `{wrong}`")
        if proof.service is not None and proof.service not in names:
            raise UsageError(
                f"{where}: the {arm} starts no service `{proof.service}`",
                hint=did_you_mean(proof.service, names),
            )
        try:
            re.compile(proof.log or "")
            name, labels = parse_selector(proof.metric) if proof.metric else (None, {})
        except re.error as error:
            raise UsageError(f"{where}: /{proof.log}/ is no regular expression: {error}") from error
        except ValueError as error:
            hint = """write { metric = "hits", labels = { kind = "hit" } }"""
            raise UsageError(f"{where}: {error}", hint=hint) from error
        yield structs.replace(proof, metric=name, labels={**labels, **proof.labels})


def _spec(
    spec: ServiceSpec, chosen: ArmSettings, settings: CorrectnessSettings, *, answers: bool
) -> ServiceSpec:
    """A service with the settings of the arm and of the command line on top.

    `ready` is for the service that `answers` the requests.
    """
    changes: dict[str, object] = {"env": {**spec.env, **chosen.env}}
    if settings.start_timeout is not None:
        changes["start_timeout"] = settings.start_timeout
    if settings.ready is not None and answers:
        changes["ready"] = settings.ready
    # A start that finds the memory of the one before still in use differs from it.
    if "gpu-memory" not in spec.released and can_read_gpu_memory():
        changes["released"] = [*spec.released, "gpu-memory"]
    return structs.replace(spec, **changes)


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
    # This policy makes `retries` pairs, and no test.
    if settings.policy is Policy.ANY:
        return chosen
    if settings.max_starts < FEWEST_STARTS:
        raise UsageError(
            f"max_starts: with {settings.max_starts} starts no regression can be declared, "
            f"because the exact test takes {FEWEST_STARTS} starts for a small enough p-value",
            hint=f"write {FEWEST_STARTS} or more; --budget bounds the time",
        )
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
