# SPDX-License-Identifier: Apache-2.0
"""In which order services are started. Pure."""

from collections.abc import Mapping, Sequence

from ci_doctor.errors import UsageError
from ci_doctor.model.suggestion import did_you_mean
from ci_doctor.services.spec import ServiceSpec


def start_order(specs: Mapping[str, ServiceSpec], names: Sequence[str]) -> tuple[str, ...]:
    """`names` with everything that they need, each once, and after what it needs.

    Raises UsageError if no name is given, a name is unknown, or services need each other in a
    cycle.
    """
    if not names:
        hint = "describe one in ci-doctor.toml, as [services.NAME]"
        if specs:
            hint = f"name one of: {', '.join(specs)}"
        raise UsageError("no service is named", hint=hint)
    order: list[str] = []
    for name in names:
        _visit(name, (), specs, order)
    return tuple(order)


def _visit(
    name: str, path: tuple[str, ...], specs: Mapping[str, ServiceSpec], order: list[str]
) -> None:
    """Append what `name` needs, then `name`; `path` leads from a name that was given to it."""
    if name in path:
        cycle = " -> ".join((*path[path.index(name) :], name))
        raise UsageError(
            f"services need each other in a circle: {cycle}", hint="remove one of these needs"
        )
    if name not in specs:
        subject = f'service "{name}"'
        if path:  # only what needs it can be mended
            subject = f'service "{path[-1]}" needs "{name}", which'
        raise UsageError(f"{subject} is not defined", hint=did_you_mean(name, specs))
    for needed in specs[name].needs:
        _visit(needed, (*path, name), specs, order)
    if name not in order:
        order.append(name)
