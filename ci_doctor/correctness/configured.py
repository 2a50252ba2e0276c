# SPDX-License-Identifier: Apache-2.0
"""The `[correctness]` section with the command line on top, as a request. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import structs

from ci_doctor.config.decoding import decode_section, path_in
from ci_doctor.config.loading import Config
from ci_doctor.correctness.settings import Arm, ArmSettings, CorrectnessSettings
from ci_doctor.errors import UsageError
from ci_doctor.model.suggestion import did_you_mean


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
