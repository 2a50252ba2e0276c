# SPDX-License-Identifier: Apache-2.0
"""The `[restart-check]` section, its conditions, and what a plan holds. Pure."""

import functools
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from ci_doctor.errors import UsageError
from ci_doctor.load.requests import Request
from ci_doctor.model.facts.restart_check import Moment, Terms
from ci_doctor.model.words import did_you_mean
from ci_doctor.services.ready import NoProbeError, ReadySpec, Scheme, parse_ready
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
    before, 0 for none; 0.8 of requests, and none of commands, unless it is set. `control_starts` is how often everything is started, asked and stopped before
    the start that is killed. `moment` and `signal` are one or several: each pair is a restart of its own,
    after the command `setup`. `saving` is a probe that tells that the service saves, `stop_signal` what
    stops it in order. `client` is a command in place of requests, run `runs` times in a load. `load` is a command that prints each acknowledged write as a line, and
    `acknowledged` how many come before the kill; `verify` prints what is lost of them.
    """

    services: tuple[str, ...] = ()
    kill: str | None = None
    moment: str | list[str] = "under-load"
    signal: str | list[str] = "SIGKILL"
    saving: str | ReadySpec | None = None
    stop_signal: str = "SIGTERM"
    setup: str | list[str] | None = None
    at: Annotated[float, Meta(ge=0, le=1)] = 0.5
    requests: str | None = None
    client: str | list[str] | None = None
    runs: Count = 20
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
    throughput: Annotated[float, Meta(ge=0)] | None = None
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

    `context` is where the services are started, `terms` what is promised. `order` are all services
    in start order, `names` those that were named. `load`, `verify`, `client` and `setup` are words of
    commands, empty for none. `title` names the restart in a sweep, and is empty outside one. `deadline` is the monotonic time at which the check is stopped, `grace_s` what its
    processes then have to end by themselves.
    """

    request: RestartRequest
    context: LaunchContext
    terms: Terms
    names: tuple[str, ...]
    order: tuple[str, ...]
    moment: Moment
    stop_signal: signal.Signals
    signal: signal.Signals
    requests: tuple[Request, ...]
    load: tuple[str, ...]
    verify: tuple[str, ...]
    client: tuple[str, ...]
    setup: tuple[str, ...]
    outage_s: float
    conditions: tuple[Condition, ...]
    deadline: float
    grace_s: float
    title: str = ""

    @property
    def settings(self) -> RestartSettings:
        """What a person wrote."""
        return self.request.settings

    @property
    def directory(self) -> Path:
        """What receives the logs and the files of writes."""
        return self.context.log_directory.parent

    @property
    def kill_when_done(self) -> int:
        """How many requests are done when the service is killed."""
        return round(self.settings.at * len(self.requests))


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
    if written.metric is None and written.at_least is not None:
        raise UsageError(
            "recovered: `at_least` without a `metric`",
            hint='write { metric = "workers_alive", at_least = 4 }',
        )
    if written.metric is None:
        return Condition(label=_target(written), service=service, ready=written)
    # RecoveredSpec has the keys of a probe too: each that was set beside `metric` is a mistake.
    plain = ReadySpec()
    for key in ReadySpec.__struct_fields__:
        if getattr(written, key) != getattr(plain, key):
            raise UsageError(
                f"recovered: metric = {written.metric!r} stands beside keys of a probe",
                hint="write two entries",
            )
    least = written.at_least
    wanted = "as before" if least is None else f"at least {least:g}"
    return Condition(
        label=f"{written.metric} {wanted}",
        service=service,
        metric=written.metric,
        at_least=written.at_least,
    )


def _target(written: str | ReadySpec) -> str:
    """What the probe is aimed at, as written."""
    if isinstance(written, str):
        return written
    for scheme in Scheme:
        value = getattr(written, scheme)
        if isinstance(value, str):
            return value
        if scheme is Scheme.EXEC and value is not None:
            return " ".join(value)
        if value is not None:
            return f"{scheme} of {', '.join(map(_target, value))}"
    return ""


def check_conditions(plan: RestartPlan) -> None:
    """Raises UsageError if a probe of the plan's conditions, or `saving`, cannot work."""
    for condition in plan.conditions:
        if condition.ready is not None:
            _check_probe(plan, "recovered", condition.ready, condition.service)
    if plan.settings.saving is not None:
        _check_probe(plan, "saving", plan.settings.saving, plan.terms.kill)


def _check_probe(plan: RestartPlan, key: str, written: str | ReadySpec, service: str) -> None:
    context = plan.context
    ports = dict.fromkeys(port_names(plan.request.specs, plan.order), _ANY_PORT)
    filled = functools.partial(fill, placeholders=placeholders_for(service, context, ports))
    try:
        probe = parse_ready(written, _ANY_PORT, directory=context.directory, fill=filled)
        probe.authorization_value(context.environment)
    except ValueError as error:
        hint = error.hint if isinstance(error, NoProbeError) else None
        raise UsageError(f"{key}: {error}", hint=hint) from error
