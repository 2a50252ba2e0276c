# SPDX-License-Identifier: Apache-2.0
"""From what a person wrote to a plan that can be run. Reads files and PATH, starts nothing."""

import functools
import os
import signal
from collections.abc import Mapping
from pathlib import Path

from ci_doctor.config.decoding import path_in, seconds_above_zero, seconds_of
from ci_doctor.config.loading import Config
from ci_doctor.errors import UsageError
from ci_doctor.load.requests import read_requests
from ci_doctor.model.suggestion import did_you_mean
from ci_doctor.restart.settings import Condition, Plan, RecoveredSpec, RestartSettings
from ci_doctor.services.check import check_services
from ci_doctor.services.configured import service_specs
from ci_doctor.services.probes.ready import ReadySpec, parse_ready
from ci_doctor.services.released import check_gpu_library
from ci_doctor.services.spec import LaunchContext, fill, placeholders_for

# Of a budget, what is kept for stopping everything and writing the report.
_LONGEST_RESERVE_S = 12.0
_SHORTEST_RESERVE_S = 0.5
# What these do by default is not to end a process (signal(7)).
_NO_END = frozenset(
    getattr(signal, name)
    for name in (
        "SIGCHLD",
        "SIGCONT",
        "SIGSTOP",
        "SIGTSTP",
        "SIGTTIN",
        "SIGTTOU",
        "SIGURG",
        "SIGWINCH",
    )
)
_ANY_PORT = 1


def make_plan(
    settings: RestartSettings,
    origins: Mapping[str, str],
    loaded: Config,
    *,
    started: float,
    directory: Path,
    environment: Mapping[str, str],
) -> Plan:
    """The plan of a check that began at monotonic time `started`. Raises UsageError for what cannot work."""
    specs = service_specs(loaded)
    names = settings.services or tuple(specs)
    context = LaunchContext(
        environment=environment,
        directory=loaded.directory.absolute(),
        log_directory=directory / "logs",
    )
    order = check_services(specs, names, context)
    if settings.gpu_memory:
        check_gpu_library()
    budget = seconds_above_zero(settings.budget, "budget")
    reserve = min(_LONGEST_RESERVE_S, _SHORTEST_RESERVE_S + 0.25 * budget)
    plan = Plan(
        specs=specs,
        names=names,
        order=order,
        kill=_killed(settings, origins, names, order),
        signal=read_signal(settings.signal),
        at=settings.at,
        requests=read_requests(_requests_file(settings, origins, loaded)),
        concurrency=settings.concurrency,
        passes=settings.passes,
        request_timeout_s=seconds_above_zero(settings.request_timeout, "request_timeout"),
        outage_s=seconds_of(settings.outage, "outage"),
        release_timeout_s=seconds_of(settings.release_timeout, "release_timeout"),
        recovery_timeout_s=seconds_above_zero(settings.recovery_timeout, "recovery_timeout"),
        conditions=tuple(_condition(each, names[-1], order) for each in settings.recovered),
        throughput=settings.throughput,
        same_outputs=settings.same_outputs,
        shared_memory=settings.shared_memory,
        gpu_memory=settings.gpu_memory,
        deadline=started + budget - reserve,
        grace_s=min(5.0, reserve / 3),
        directory=directory,
        services_directory=loaded.directory.absolute(),
        environment=environment,
    )
    _check_conditions(plan, context)
    return plan


def read_signal(text: str) -> signal.Signals:
    """A signal that ends a process, by name (`SIGKILL`, `term`). Raises UsageError."""
    known = {number.name: number for number in signal.Signals if number not in _NO_END}
    name = text.strip().upper()
    name = name if name.startswith("SIG") else f"SIG{name}"
    if name in known:
        return known[name]
    if name in signal.Signals.__members__:
        raise UsageError(
            f"signal: {name} does not end a process", hint='use "SIGKILL" or "SIGTERM"'
        )
    raise UsageError(f"signal: there is no {text!r}", hint=did_you_mean(name, known))


def _killed(
    settings: RestartSettings,
    origins: Mapping[str, str],
    names: tuple[str, ...],
    order: tuple[str, ...],
) -> str:
    if settings.kill is None:
        return names[-1]
    if settings.kill not in order:
        raise UsageError(
            f"{origins['kill']}: kill = {settings.kill!r} is none of the services that are started",
            hint=did_you_mean(settings.kill, order),
        )
    return settings.kill


def _requests_file(settings: RestartSettings, origins: Mapping[str, str], loaded: Config) -> Path:
    if settings.requests is None:
        raise UsageError(
            "no requests file is named",
            hint='give --requests FILE, or requests = "…" in [restart-check]',
        )
    path = path_in(loaded, origins["requests"], settings.requests)
    return Path(os.path.relpath(path))


def _condition(written: str | RecoveredSpec, answering: str, order: tuple[str, ...]) -> Condition:
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
    if any(
        getattr(written, key) != getattr(ReadySpec(), key) for key in ReadySpec.__struct_fields__
    ):
        raise UsageError(
            f"recovered: metric = {written.metric!r} stands beside keys of a probe",
            hint="write two entries",
        )
    wanted = "as before" if written.at_least is None else f"at least {written.at_least:g}"
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
    given = next(
        (
            value
            for key in ("http", "tcp", "log", "exec", "file")
            if (value := getattr(written, key)) is not None
        ),
        "",
    )
    label = given if isinstance(given, str) else " ".join(given)
    return Condition(
        label=label + (f" {written.json}" if written.json else ""), service=service, ready=written
    )


def _check_conditions(plan: Plan, context: LaunchContext) -> None:
    ports = dict.fromkeys(plan.order, _ANY_PORT)
    for condition in plan.conditions:
        if condition.ready is None:
            continue
        filled = functools.partial(
            fill, placeholders=placeholders_for(condition.service, context, ports)
        )
        try:
            probe = parse_ready(
                condition.ready, _ANY_PORT, directory=context.directory, fill=filled
            )
            probe.authorization_value(plan.environment)
        except ValueError as error:
            hint = 'write for example recovered = ["/ready", { metric = "workers_alive", at_least = 4 }]'
            raise UsageError(f"recovered: {error}", hint=hint) from error
