# SPDX-License-Identifier: Apache-2.0
"""From the entries of `recovered` to conditions that can be checked. Pure."""

import functools

from ci_doctor.errors import UsageError
from ci_doctor.model.suggestion import did_you_mean
from ci_doctor.restart.settings import Condition, RecoveredSpec, RestartPlan
from ci_doctor.services.port_names import port_names
from ci_doctor.services.probes.ready import ReadySpec, Scheme, parse_ready
from ci_doctor.services.spec import LaunchContext, fill, placeholders_for

# No port is reserved yet; a probe is only parsed here, and none is made.
_ANY_PORT = 1


def plan_condition(
    written: str | RecoveredSpec, answering: str, order: tuple[str, ...]
) -> Condition:
    """The condition that `written` means, of the service `answering` unless it names another.

    Raises UsageError if it makes no sense.
    """
    if isinstance(written, str):
        return Condition(label=written, service=answering, ready=written)
    service = written.service or answering
    if service not in order:
        raise UsageError(
            f"recovered: {service!r} is none of the services that are started",
            hint=did_you_mean(service, order),
        )
    if written.metric is None:
        return _probe_condition(written, service)
    # RecoveredSpec has the keys of a probe too: each that was set beside `metric` is a mistake.
    plain = ReadySpec()
    for key in ReadySpec.__struct_fields__:
        if getattr(written, key) != getattr(plain, key):
            raise UsageError(
                f"recovered: metric = {written.metric!r} stands beside keys of a probe",
                hint="write two entries",
            )
    wanted = "as before"
    if written.at_least is not None:
        wanted = f"at least {written.at_least:g}"
    return Condition(
        label=f"{written.metric} {wanted}",
        service=service,
        metric=written.metric,
        at_least=written.at_least,
    )


def _probe_condition(written: RecoveredSpec, service: str) -> Condition:
    if written.at_least is not None:
        raise UsageError(
            "recovered: `at_least` without a `metric`",
            hint='write { metric = "workers_alive", at_least = 4 }',
        )
    label = _target(written)
    if written.json:
        label += f" {written.json}"
    return Condition(label=label, service=service, ready=written)


def _target(written: RecoveredSpec) -> str:
    """What the probe is aimed at, as written."""
    for scheme in Scheme:
        value = getattr(written, scheme)
        if isinstance(value, str):
            return value
        if value is not None:  # the words of an `exec` probe
            return " ".join(value)
    return ""


def check_conditions(plan: RestartPlan, context: LaunchContext) -> None:
    """Raises UsageError if a probe of the plan's conditions cannot work."""
    ports = dict.fromkeys(port_names(plan.specs, plan.order), _ANY_PORT)
    for condition in plan.conditions:
        if condition.ready is None:
            continue
        placeholders = placeholders_for(condition.service, context, ports)
        filled = functools.partial(fill, placeholders=placeholders)
        try:
            probe = parse_ready(
                condition.ready, _ANY_PORT, directory=context.directory, fill=filled
            )
            probe.authorization_value(plan.environment)
        except ValueError as error:
            raise UsageError(
                f"recovered: {error}",
                hint='write for example recovered = ["/ready", { metric = "workers_alive", '
                "at_least = 4 }]",
            ) from error
