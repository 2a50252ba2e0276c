# SPDX-License-Identifier: Apache-2.0
"""Reads whether there is a GPU driver: an arm's settings as a plan of its services."""

import re
from collections.abc import Mapping, Sequence

from msgspec import structs

from ci_doctor.config.loading import Config
from ci_doctor.correctness.settings import Arm, ArmPlan, ArmSettings, CorrectnessSettings, Proof
from ci_doctor.errors import UsageError
from ci_doctor.load.metrics import parse_selector
from ci_doctor.machine.gpus import can_read_gpu_memory
from ci_doctor.model.suggestion import did_you_mean
from ci_doctor.services.spec import ServiceSpec

# The path of a URL in printable ASCII; `//host` would be another server.
_PATH = re.compile(r"/(?!/)[!-~]*")


def arm_plan(
    arm: Arm, settings: CorrectnessSettings, specs: Mapping[str, ServiceSpec], loaded: Config
) -> ArmPlan:
    """The plan of one arm; `specs` are the configured services. Raises UsageError."""
    chosen = settings.arm(arm)
    _check_alternatives(arm, chosen, loaded)
    names = chosen.services
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
    own_specs = {}
    for name, spec in specs.items():
        own_specs[name] = _spec(spec, chosen, settings, answers=name == names[-1])
    return ArmPlan(
        specs=own_specs,
        names=tuple(names),
        proof=_checked_proof(arm, chosen, names, loaded),
        reset=_checked_reset(arm, chosen.reset or settings.reset, loaded),
    )


def _check_alternatives(arm: Arm, chosen: ArmSettings, loaded: Config) -> None:
    """Exactly one of `services` and `command` must be there. Raises UsageError."""
    if not (chosen.services or chosen.command):
        raise UsageError(
            f"the {arm} is missing: nothing says how to start it",
            hint=f"give --{arm} 'CMD … {{port}}', or services = […] in [correctness.{arm}]",
        )
    if chosen.services and chosen.command:
        where = loaded.where("correctness", arm.value)
        raise UsageError(
            f"{where}: the {arm} has both `services` and `command`", hint="keep one of them"
        )


def _checked_proof(
    arm: Arm, chosen: ArmSettings, names: Sequence[str], loaded: Config
) -> tuple[Proof, ...]:
    where = loaded.where("correctness", arm.value, "proof")
    proofs = []
    for proof in chosen.proof:
        if (proof.metric is None) == (proof.log is None):
            raise UsageError(
                f"{where}: a proof has either `metric` or `log`",
                hint='write { metric = "…", above = 0 }',
            )
        if proof.at_start and proof.log is None:
            raise UsageError(f"{where}: `at_start` is about a `log`: a counter has to rise")
        if proof.service is not None and proof.service not in names:
            raise UsageError(
                f"{where}: the {arm} starts no service `{proof.service}`",
                hint=did_you_mean(proof.service, names),
            )
        try:
            re.compile(proof.log or "")
        except re.error as error:
            raise UsageError(f"{where}: /{proof.log}/ is no regular expression: {error}") from error
        proofs.append(_with_labels(proof, where))
    return tuple(proofs)


def _with_labels(proof: Proof, where: str) -> Proof:
    """A proof whose `metric` is a name alone: `hits{kind="hit"}` names labels too."""
    if proof.metric is None:
        if proof.labels:
            raise UsageError(f"{where}: `labels` belong to a `metric`", hint="remove `labels`")
        return proof
    try:
        name, labels = parse_selector(proof.metric)
    except ValueError as error:
        hint = """write { metric = "hits", labels = { kind = "hit" } }"""
        raise UsageError(f"{where}: {error}", hint=hint) from error
    return structs.replace(proof, metric=name, labels={**labels, **proof.labels})


def _checked_reset(arm: Arm, reset: str | None, loaded: Config) -> str | None:
    if reset is not None and not _PATH.fullmatch(reset):
        where = loaded.where("correctness", arm.value, "reset")
        raise UsageError(
            f"{where}: `{reset}` is not the path of a URL",
            hint='write reset = "/reset_prefix_cache"',
        )
    return reset


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
