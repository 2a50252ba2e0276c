# SPDX-License-Identifier: Apache-2.0
"""What the command line of `launch` asks for: which services, changed how. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import structs

from ci_doctor.errors import UsageError
from ci_doctor.model.suggestion import did_you_mean
from ci_doctor.services.check import start_order
from ci_doctor.services.spec import ServiceSpec

_NOTHING = "give --service NAME='CMD … {port}', or [services.NAME] tables in ci-doctor.toml"


def choose(
    configured: Mapping[str, ServiceSpec],
    services: Sequence[str],
    ready: Sequence[str],
    needs: Sequence[str],
) -> tuple[dict[str, ServiceSpec], tuple[str, ...]]:
    """The services there are, and the names of those to start (what they need comes on top), as the options say.

    `services` holds `NAME` (a configured one) or `NAME=CMD`: a new one, or a configured one with another command; without
    any, all configured ones are started. `ready` holds `NAME=PROBE` and `needs` `NAME=OTHER`. Raises UsageError with a
    hint for everything that cannot be meant, and where there is nothing to start.
    """
    commands = _commands(services)
    specs = dict(configured)
    for name, command in commands.items():
        if command is None and name not in configured:
            raise _unknown(
                "--service", name, configured, f"to start a command, write --service {name}='CMD'"
            )
        if command is not None:
            known = configured.get(name)
            specs[name] = (
                structs.replace(known, command=command) if known else ServiceSpec(command=command)
            )
    names = tuple(commands) or tuple(configured)
    if not names:
        raise UsageError("there is nothing to start", hint=_NOTHING)
    specs = _with_needs(_with_probes(specs, ready), needs)
    chosen = set(start_order(specs, names))
    for option, values in (("--ready", ready), ("--needs", needs)):
        for name, _ in _assignments(option, values):
            if name not in chosen:
                raise UsageError(
                    f'{option}: service "{name}" is not started',
                    hint=f"add --service {name}, or remove the option",
                )
    return specs, names


def _commands(services: Sequence[str]) -> dict[str, str | None]:
    """The command of each name, None for one that is only named."""
    commands: dict[str, str | None] = {}
    for text in services:
        name, equals, command = text.partition("=")
        if not name:
            raise UsageError(
                f"--service {text}: the name is missing", hint="write --service NAME='CMD … {port}'"
            )
        if equals and not command.strip():
            raise UsageError(f'--service: the command of "{name}" is empty', hint="say what to run")
        if name in commands:
            raise UsageError(
                f'--service: two services are named "{name}"', hint="give each a name of its own"
            )
        commands[name] = command if equals else None
    return commands


def _with_probes(specs: Mapping[str, ServiceSpec], ready: Sequence[str]) -> dict[str, ServiceSpec]:
    changed = dict(specs)
    seen: set[str] = set()
    for name, probe in _known("--ready", ready, specs):
        if name in seen:
            raise UsageError(f'--ready: "{name}" has two probes', hint="keep one of them")
        seen.add(name)
        changed[name] = structs.replace(changed[name], ready=probe)
    return changed


def _with_needs(specs: Mapping[str, ServiceSpec], needs: Sequence[str]) -> dict[str, ServiceSpec]:
    changed = dict(specs)
    for name, others in _known("--needs", needs, specs):
        for other in (part.strip() for part in others.split(",")):
            if other not in specs:
                raise _unknown(f"--needs {name}", other, specs)
            if other not in changed[name].needs:
                changed[name] = structs.replace(changed[name], needs=[*changed[name].needs, other])
    return changed


def _known(option: str, values: Iterable[str], specs: Collection[str]) -> Iterator[tuple[str, str]]:
    for name, value in _assignments(option, values):
        if name not in specs:
            raise _unknown(option, name, specs)
        yield name, value


def _assignments(option: str, values: Iterable[str]) -> Iterator[tuple[str, str]]:
    what = {"--ready": "PROBE", "--needs": "OTHER"}[option]
    for text in values:
        name, equals, value = text.partition("=")
        if not (name and equals and value.strip()):
            raise UsageError(
                f"{option} {text}: not NAME={what}", hint=f"write {option} NAME={what}"
            )
        yield name, value


def _unknown(
    option: str, name: str, known: Iterable[str], otherwise: str | None = None
) -> UsageError:
    suggestion = did_you_mean(name, known)
    hint = "; ".join(filter(None, [suggestion, otherwise]))
    return UsageError(f"{option}: no service is named `{name}`", hint=hint or _NOTHING)
