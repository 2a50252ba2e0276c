# SPDX-License-Identifier: Apache-2.0
"""The `[correctness]` section with the command line on top. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import structs

from ci_doctor.config import loading as config
from ci_doctor.config.loading import Config
from ci_doctor.correctness.settings import Arm, ArmSettings, CorrectnessSettings
from ci_doctor.errors import UsageError
from ci_doctor.model.suggestion import did_you_mean


def read_settings(
    loaded: Config,
    environment: Mapping[str, str],
    flags: Mapping[str, Any],
    commands: Mapping[Arm, str | None],
    variables: Mapping[Arm, Mapping[str, str]],
) -> tuple[CorrectnessSettings, dict[str, str]]:
    """The `[correctness]` section under the command line's `flags`, and the origin of each value.

    A command on the command line replaces an arm's configured services; `variables` go on top of
    both. Raises ConfigError.
    """
    settings, origins = config.decode(
        loaded, "correctness", CorrectnessSettings, environ=environment, flags=flags
    )
    arms: dict[str, ArmSettings] = {}
    for arm in Arm:
        chosen = settings.arm(arm)
        if command := commands[arm]:
            chosen = structs.replace(chosen, command=command, services=())
        arms[arm.value] = structs.replace(chosen, env={**chosen.env, **variables[arm]})
    return structs.replace(settings, **arms), origins


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
