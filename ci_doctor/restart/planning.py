# SPDX-License-Identifier: Apache-2.0
"""Reads files and PATH: from what a person wrote to a plan that can be run."""

import shlex
import signal

from ci_doctor.config.decoding import seconds_above_zero, seconds_of
from ci_doctor.errors import UsageError
from ci_doctor.load.requests import read_requests
from ci_doctor.machine.gpus import check_gpu_library
from ci_doctor.model.suggestion import did_you_mean
from ci_doctor.restart.condition_plan import check_conditions, plan_condition
from ci_doctor.restart.settings import RestartPlan, RestartRequest, RestartSettings
from ci_doctor.services.check import check_services
from ci_doctor.services.script_check import check_scripts
from ci_doctor.services.spec import LaunchContext

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
