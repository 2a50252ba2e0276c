# SPDX-License-Identifier: Apache-2.0
"""Reads PATH: what a launch starts, by its command line, and what runs under it."""

import os
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec import structs

from ci_doctor.errors import UsageError
from ci_doctor.model.words import did_you_mean
from ci_doctor.services.check import candidates, is_executable
from ci_doctor.services.instance import RunningService
from ci_doctor.services.launch_report import NOT_EXECUTABLE, NOT_FOUND
from ci_doctor.services.spec import (
    ServiceSpec,
    check_placeholders,
    fill,
    placeholders_in,
    start_order,
)

_NOTHING = "give --service NAME='CMD … {port}', or [services.NAME] tables in ci-doctor.toml"


def choose(
    configured: Mapping[str, ServiceSpec],
    services: Sequence[str],
    ready: Sequence[str],
    needs: Sequence[str],
    liveness: Sequence[str] = (),
) -> tuple[dict[str, ServiceSpec], tuple[str, ...]]:
    """All services as the options change them, and the names of those to start.

    What those need comes on top. `services` holds `NAME` (a configured one) or `NAME=CMD`: a new
    one, or a configured one with another command. Without any, all configured ones are started.
    `ready` and `liveness` hold `NAME=PROBE`, and `needs` `NAME=OTHER`. Raises UsageError with a hint for
    everything that makes no sense, and if there is nothing to start.
    """
    commands = _commands(services)
    names = tuple(commands) or tuple(configured)
    if not names:
        raise UsageError("there is nothing to start", hint=_NOTHING)
    specs = _with_commands(configured, commands)
    specs = _with_probes(specs, "ready", ready)
    specs = _with_needs(_with_probes(specs, "liveness", liveness), needs)
    started = set(start_order(specs, names))
    _refuse_unused("--ready", ready, started)
    _refuse_unused("--liveness", liveness, started)
    _refuse_unused("--needs", needs, started)
    return specs, names


def with_leaks(
    specs: Mapping[str, ServiceSpec], leaks: Literal["report", "strict", "off"]
) -> dict[str, ServiceSpec]:
    """All services with this setting in place of their own."""
    return {name: structs.replace(spec, leaks=leaks) for name, spec in specs.items()}


def _commands(services: Sequence[str]) -> dict[str, str | None]:
    """The command of each name, None for a name alone."""
    commands: dict[str, str | None] = {}
    for text in services:
        name, equals, command = text.partition("=")
        if not name:
            raise UsageError(
                f"--service {text}: the name is missing", hint="write --service NAME='CMD … {port}'"
            )
        if any(map(str.isspace, name)):
            written = shlex.quote(f"server={text}")
            raise UsageError("--service: NAME= is missing", hint=f"write --service {written}")
        if equals and not command.strip():
            raise UsageError(
                f'--service: the command of "{name}" is empty', hint="name what to run"
            )
        if name in commands:
            raise UsageError(
                f'--service: two services are named "{name}"', hint="give each a name of its own"
            )
        commands[name] = command if equals else None
    return commands


def _with_commands(
    configured: Mapping[str, ServiceSpec], commands: Mapping[str, str | None]
) -> dict[str, ServiceSpec]:
    specs = dict(configured)
    for name, command in commands.items():
        if command is None and name not in configured:
            advice = f"to start a command, write --service {name}='CMD'"
            raise _unknown("--service", name, configured, advice)
        if command is None:
            continue
        if name in configured:
            specs[name] = structs.replace(configured[name], command=command)
        else:
            specs[name] = ServiceSpec(command=command)
    return specs


def _with_probes(
    specs: Mapping[str, ServiceSpec], key: str, probes: Sequence[str]
) -> dict[str, ServiceSpec]:
    changed = dict(specs)
    done: set[str] = set()
    for name, probe in _assignments(f"--{key}", probes, specs):
        if name in done:
            hint = "keep one of them, or write { all = [PROBE, …] }"
            raise UsageError(f'--{key}: "{name}" has two probes', hint=hint)
        done.add(name)
        changed[name] = structs.replace(changed[name], **{key: probe})
    return changed


def _with_needs(specs: Mapping[str, ServiceSpec], needs: Sequence[str]) -> dict[str, ServiceSpec]:
    changed = dict(specs)
    for name, others in _assignments("--needs", needs, specs):
        # On top of the configured ones, and of an earlier --needs for the same service.
        spec = changed[name]
        for part in others.split(","):
            other = part.strip()
            if other not in specs:
                raise _unknown(f"--needs {name}", other, specs)
            if other not in spec.needs:
                spec = structs.replace(spec, needs=[*spec.needs, other])
        changed[name] = spec
    return changed


def _refuse_unused(option: str, values: Sequence[str], started: Collection[str]) -> None:
    for text in values:
        name = text.partition("=")[0]
        if name not in started:
            raise UsageError(
                f'{option}: service "{name}" is not started',
                hint=f"add --service {name}, or remove the option",
            )


def _assignments(
    option: str, values: Iterable[str], specs: Collection[str]
) -> Iterator[tuple[str, str]]:
    """The name and the value of each NAME=VALUE."""
    what = "OTHER" if option == "--needs" else "PROBE"
    for text in values:
        name, equals, value = text.partition("=")
        if not name or not equals or not value.strip():
            raise UsageError(
                f"{option} {text}: not NAME={what}", hint=f"write {option} NAME={what}"
            )
        if name not in specs:
            raise _unknown(option, name, specs)
        yield name, value


def _unknown(option: str, name: str, names: Iterable[str], advice: str | None = None) -> UsageError:
    hint = did_you_mean(name, names) or ""
    if hint and advice:
        hint = f"{hint}; {advice}"
    elif advice:
        hint = advice
    # Without any name to choose from, there are no services at all.
    hint = hint or _NOTHING
    return UsageError(f"{option}: no service is named `{name}`", hint=hint)


_NO_NAME = re.compile(r"[^A-Z0-9]", re.ASCII)


def check_words(
    words: Sequence[str], names: Collection[str], further_ports: Collection[str] = ()
) -> None:
    """Check the client's words against the `names` of the services and their further ports.

    Raises UsageError if a word holds the port of an unknown service, or two services would share a
    variable.
    """
    known = (*names, *further_ports)
    check_placeholders("the command", words, [f"{name}.port" for name in known])
    for word in words:
        for match in placeholders_in(word):
            name, dot, end = match[1].rpartition(".")
            if dot and end == "port" and name not in known:
                raise UsageError(
                    f"{match[0]} in the command: no service is named `{name}`",
                    hint=did_you_mean(name, known),
                )
    prefixes: dict[str, str] = {}
    for name in names:
        prefix = _variable(name)
        if prefix in prefixes:
            raise UsageError(
                f'services "{prefixes[prefix]}" and "{name}" would share the variables {prefix}_…',
                hint="rename one of them",
            )
        prefixes[prefix] = name


def filled_words(
    words: Sequence[str], services: Iterable[RunningService], reserved: Mapping[str, int]
) -> tuple[str, ...]:
    """`words` with `{NAME.port}` replaced for each service, and for each further port.

    `reserved` are the group's ports by what stands before `.port`.
    """
    ports = {}
    for name, port in reserved.items():
        ports[f"{name}.port"] = str(port)
    for service in services:
        # It listens on a fixed port, so nobody is on the reserved one.
        if service.port not in reserved.values():
            ports[f"{service.name}.port"] = str(service.port)
    return tuple(fill(word, ports) for word in words)


def client_environment(
    environment: Mapping[str, str], services: Iterable[RunningService]
) -> dict[str, str]:
    """`environment` and where each service is.

    That is `CI_DOCTOR_SERVICES_<NAME>_PORT`, `_URL` and `_LOG`.
    """
    whole = dict(environment)
    for service in services:
        prefix = _variable(service.name)
        whole[f"{prefix}_PORT"] = str(service.port)
        whole[f"{prefix}_URL"] = service.base_url
        whole[f"{prefix}_LOG"] = str(service.log)
    return whole


def _variable(name: str) -> str:
    return f"CI_DOCTOR_SERVICES_{_NO_NAME.sub('_', name.upper())}"


def problem(
    command: str, environment: Mapping[str, str], directory: Path
) -> tuple[int, str] | None:
    """Why `command` cannot be run in `directory`; None if it can.

    Returns the exit status of a shell (127, 126) and a sentence.
    """
    paths = candidates(command, environment, directory) if command else []
    if any(map(is_executable, paths)):
        return None
    if any(map(os.path.exists, paths)):  # PATH may hold folders that we may not enter
        return NOT_EXECUTABLE, f"{command}: not an executable file"
    if "/" in command:
        return NOT_FOUND, f"{command}: no such file"
    return NOT_FOUND, f"{command}: command not found"
