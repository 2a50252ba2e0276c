# SPDX-License-Identifier: Apache-2.0
"""The `[restart-check]` section, checked, and the plan that comes of it. Pure."""

import functools
import shlex
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from ci_doctor.config.decoding import seconds_above_zero, seconds_of
from ci_doctor.errors import UsageError
from ci_doctor.load.requests import Request, read_requests
from ci_doctor.machine.gpus import check_gpu_library
from ci_doctor.model.suggestion import did_you_mean
from ci_doctor.services.check import check_scripts, check_services
from ci_doctor.services.probes.ready import ReadySpec, Scheme, parse_ready
from ci_doctor.services.spec import (
    Duration,
    LaunchContext,
    ServiceSpec,
    fill,
    placeholders_for,
    port_names,
)

Count = Annotated[int, Meta(ge=1)]


class RecoveredSpec(ReadySpec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of `recovered`: a probe as in `ready`, or a `metric` on /metrics.

    `service` is the one to check, the answering one unless named. The metric must be `at_least`
    this much; without it, it must come back to its value before the kill. Its samples are summed
    over labels.
    """

    service: str | None = None
    metric: str | None = None
    at_least: float | None = None


class RestartSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person writes (docs/restart-check.md). Durations are text such as "90s" or seconds.

    The last of `services` answers the requests; `kill` is that one unless named. `at` is the
    fraction of the load that is done when it is killed. `throughput` is the least ratio of after to
    before, 0 for none. `control_starts` is how often everything is started, asked and stopped before
    the start that is killed. `load` is a command that prints each acknowledged write as a line, and
    `acknowledged` how many come before the kill; `verify` prints what is lost of them.
    """

    services: tuple[str, ...] = ()
    kill: str | None = None
    signal: str = "SIGKILL"
    at: Annotated[float, Meta(ge=0, le=1)] = 0.5
    requests: str | None = None
    concurrency: Count = 40
    passes: Count = 2
    control_starts: Annotated[int, Meta(ge=0)] = 2
    load: str | list[str] | None = None
    acknowledged: Count = 100
    verify: str | list[str] | None = None
    request_timeout: Duration = "30s"
    outage: Duration = "5s"
    release_timeout: Duration = "10s"
    recovery_timeout: Duration = "120s"
    recovered: tuple[str | RecoveredSpec, ...] = ()
    throughput: Annotated[float, Meta(ge=0)] = 0.8
    same_outputs: bool = False
    shared_memory: bool = True
    gpu_memory: bool = False
    budget: Duration = "25m"


class Condition(Struct, frozen=True, kw_only=True):
    """What must hold of `service` again: a probe, or a metric.

    The metric must be `at_least` so much; None stands for its value before the kill.
    """

    label: str
    service: str
    ready: str | ReadySpec | None = None
    metric: str | None = None
    at_least: float | None = None


class RestartRequest(Struct, frozen=True, kw_only=True):
    """A check as it is wanted.

    `services_directory` is the base of the services' relative `cwd`, `requests` the file of
    requests, if there is one; `directory` receives the logs. The check began at monotonic time `started`, from which
    its budget counts. `origins` tells where each setting was written, for errors.
    """

    settings: RestartSettings
    specs: Mapping[str, ServiceSpec]
    requests: Path | None
    environment: Mapping[str, str]
    directory: Path
    services_directory: Path = Path()
    started: float
    origins: Mapping[str, str] = {}


class RestartPlan(Struct, frozen=True, kw_only=True):
    """Everything that a check needs; times in seconds.

    `order` are all services in start order, `names` those that were named. `load` and `verify` are
    words of commands, empty for none. `deadline` is the
    monotonic time at which the check is stopped, `grace_s` what its processes then have to end by
    themselves; `directory` receives the logs.
    """

    specs: Mapping[str, ServiceSpec]
    names: tuple[str, ...]
    order: tuple[str, ...]
    kill: str
    signal: signal.Signals
    at: float
    requests: tuple[Request, ...]
    concurrency: int
    passes: int
    control_starts: int
    load: tuple[str, ...]
    acknowledged: int
    verify: tuple[str, ...]
    request_timeout_s: float
    outage_s: float
    release_timeout_s: float
    recovery_timeout_s: float
    conditions: tuple[Condition, ...]
    throughput: float
    same_outputs: bool
    shared_memory: bool
    gpu_memory: bool
    deadline: float
    grace_s: float
    directory: Path
    services_directory: Path
    environment: Mapping[str, str]

    @property
    def kill_when_done(self) -> int:
        """How many requests are done when the service is killed."""
        return round(self.at * len(self.requests))


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


# Of a budget, what is kept for stopping everything and writing the report.
# Stopping a group takes 8 s at most (services/stopping.py); a short budget cannot spare that.
_LONGEST_RESERVE_S = 12.0
_SHORTEST_RESERVE_S = 0.5
# What these do by default is not to end a process (signal(7)).
_NO_END = frozenset(
    {
        signal.SIGCHLD,
        signal.SIGCONT,
        signal.SIGSTOP,
        signal.SIGTSTP,
        signal.SIGTTIN,
        signal.SIGTTOU,
        signal.SIGURG,
        signal.SIGWINCH,
    }
)


def make_plan(request: RestartRequest) -> RestartPlan:
    """Check everything before anything is started. Raises UsageError for what cannot work."""
    settings = request.settings
    names = settings.services or tuple(request.specs)
    context = LaunchContext(
        environment=request.environment,
        directory=request.services_directory.absolute(),
        log_directory=request.directory.absolute() / "logs",
    )
    order = check_services(request.specs, names, context)
    check_scripts(request.specs, order, context)
    if settings.gpu_memory:
        check_gpu_library()
    conditions = [plan_condition(written, names[-1], order) for written in settings.recovered]
    load, verify = _commands_of_writes(settings)
    requests = () if request.requests is None else read_requests(request.requests)
    budget_s = seconds_above_zero(settings.budget, "budget")
    reserve_s = min(_LONGEST_RESERVE_S, _SHORTEST_RESERVE_S + 0.25 * budget_s)
    plan = RestartPlan(
        specs=request.specs,
        names=names,
        order=order,
        kill=_killed(request, names, order),
        signal=read_signal(settings.signal),
        at=settings.at,
        requests=requests,
        concurrency=settings.concurrency,
        passes=settings.passes,
        # With `same_outputs` a difference is a broken promise anyway; without requests there is none.
        control_starts=settings.control_starts if requests and not settings.same_outputs else 0,
        load=load,
        acknowledged=settings.acknowledged,
        verify=verify,
        request_timeout_s=seconds_above_zero(settings.request_timeout, "request_timeout"),
        outage_s=seconds_of(settings.outage, "outage"),
        release_timeout_s=seconds_of(settings.release_timeout, "release_timeout"),
        recovery_timeout_s=seconds_above_zero(settings.recovery_timeout, "recovery_timeout"),
        conditions=tuple(conditions),
        throughput=settings.throughput,
        same_outputs=settings.same_outputs,
        shared_memory=settings.shared_memory,
        gpu_memory=settings.gpu_memory,
        deadline=request.started + budget_s - reserve_s,
        # Of the reserve, because SIGKILL, the logs and the report come after the grace.
        grace_s=min(5.0, reserve_s / 3),
        directory=request.directory.absolute(),
        services_directory=request.services_directory.absolute(),
        environment=request.environment,
    )
    # Last, because a probe can only be checked with the placeholders of all services.
    check_conditions(plan, context)
    return plan


def read_signal(text: str) -> signal.Signals:
    """A signal that ends a process, by name (`SIGKILL`, `term`). Raises UsageError."""
    usable = {}
    for number in signal.Signals:
        if number not in _NO_END:
            usable[number.name] = number
    name = text.strip().upper()
    if not name.startswith("SIG"):
        name = f"SIG{name}"
    if name in usable:
        return usable[name]
    if name in signal.Signals.__members__:
        raise UsageError(
            f"signal: {name} does not end a process", hint='use "SIGKILL" or "SIGTERM"'
        )
    raise UsageError(f"signal: there is no {text!r}", hint=did_you_mean(name, usable))


def _commands_of_writes(settings: RestartSettings) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words of `load` and `verify`; none of either. Raises UsageError for one alone."""
    words = []
    for key, command in (("load", settings.load), ("verify", settings.verify)):
        try:
            split = shlex.split(command) if isinstance(command, str) else list(command or ())
        except ValueError as error:
            raise UsageError(f"{key}: {error}", hint="close the quotation") from error
        if command is not None and not split:
            raise UsageError(f"{key}: the command is empty", hint="name a program")
        words.append(tuple(split))
    load, verify = words
    if bool(load) is not bool(verify):
        missing = "verify" if load else "load"
        raise UsageError(
            f"restart-check: `{missing}` is missing",
            hint="`load` prints what was acknowledged, and `verify` what is lost of it: name both",
        )
    return load, verify


def _killed(request: RestartRequest, names: tuple[str, ...], order: tuple[str, ...]) -> str:
    kill = request.settings.kill
    if kill is None:
        return names[-1]
    if kill not in order:
        where = f"{request.origins['kill']}: " if "kill" in request.origins else ""
        raise UsageError(
            f"{where}kill = {kill!r} is none of the services that are started",
            hint=did_you_mean(kill, order),
        )
    return kill
