# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor launch`."""

import contextlib
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from ci_doctor.commands.documented import (
    DEFAULT_DIRECTORY,
    REPORT,
    TIME,
    check_separator,
    command,
    config_option,
    dry_run_option,
    load_configuration,
    option,
    pass_session,
    run_output_options,
)
from ci_doctor.commands.progress import ServiceOutput, service_lines
from ci_doctor.commands.run_record import Watch, perform, record_environment
from ci_doctor.commands.teller import Teller
from ci_doctor.config.decoding import seconds_above_zero
from ci_doctor.environment.preparation import missing_preparation
from ci_doctor.errors import UsageError
from ci_doctor.services.launch import client_problem, make_plan, run
from ci_doctor.services.launch_plan import choose, filled_words, with_leaks
from ci_doctor.services.launch_report import LaunchPlan, LaunchRequest, would_do
from ci_doctor.services.spec import service_specs
from ci_doctor.session.printing import open_last_group
from ci_doctor.session.session import Session
from ci_doctor.system.files.access import open_closed_streams

if TYPE_CHECKING:
    from ci_doctor.model.outcome import Outcome
    from ci_doctor.services.instance import ServiceEvent
    from ci_doctor.services.running import RunningGroup
_SERVICES = "Services"


@command(
    "launch",
    examples={
        "ci-doctor launch --service 'vllm=vllm serve MODEL --port {port}' --ready vllm=/health -- pytest tests/serving": "Start a server, test it, stop it.",
        "ci-doctor launch --dry-run": "Show how the services of ci-doctor.toml would start.",
    },
    exits={
        0: "CLIENT succeeded; every other status of CLIENT is handed on, too",
        1: "a service died, or was not ready in time",
        75: "the same, and the cause lies outside the change",
    },
    context_settings={"allow_interspersed_args": False},
)
@option(
    "--service",
    "services",
    group=_SERVICES,
    multiple=True,
    metavar="NAME[='CMD']",
    help="Start this service: a configured one, or CMD. Repeatable. [default: all that are configured]",
)
@option(
    "--ready",
    group=_SERVICES,
    multiple=True,
    metavar="NAME=PROBE",
    help="Readiness check of a service. Repeatable.",
)
@option(
    "--liveness",
    group=_SERVICES,
    multiple=True,
    metavar="NAME=PROBE",
    help="Liveness check of a service that is ready: one that hangs has died. Repeatable.",
)
@option(
    "--needs",
    group=_SERVICES,
    multiple=True,
    metavar="NAME=OTHER",
    help="Start NAME when OTHER is ready. Repeatable.",
)
@option(
    "--timeout",
    group=TIME,
    metavar="S",
    help="Time for all services together to become ready. [default: `start_timeout` of each service]",
)
@option(
    "--events",
    group=REPORT,
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write events to this file, as JSON lines.",
)
@option(
    "--leaks",
    group=_SERVICES,
    type=click.Choice(["report", "strict", "off"]),
    help="How leftovers of the services count: as findings, as errors, or not at all. [default: `leaks` of each service]",
)
@option("--follow", group=REPORT, is_flag=True, help="Print the services' output on stderr.")
@config_option
@dry_run_option
@run_output_options
@click.argument(
    "client",
    nargs=-1,
    type=click.UNPROCESSED,
    metavar="[-- CLIENT…]",
)
@pass_session
def launch(
    session: Session,
    /,
    *,
    client: tuple[str, ...],
    config_path: Path | None,
    services: tuple[str, ...],
    ready: tuple[str, ...],
    liveness: tuple[str, ...],
    needs: tuple[str, ...],
    timeout: str | None,
    events: Path | None,
    leaks: Literal["report", "strict", "off"] | None,
    follow: bool,
    dry_run: bool,
) -> int:
    """Start services, wait until all are ready, run CLIENT under them, stop everything.

    Without CLIENT the services run until a signal arrives or one of them dies.
    """
    # First of all: a file opened later takes the number of a closed stream, and the client gets it.
    open_closed_streams()
    check_separator(session.invocation, client)
    if not client and "--" in session.invocation.argv:
        raise UsageError(
            "there is no command behind `--`",
            hint="leave `--` out to run the services until Ctrl-C; a variable may be unset",
        )
    if not dry_run:
        session.claim(DEFAULT_DIRECTORY)
    loaded = load_configuration(session, config_path)
    specs, names = choose(service_specs(loaded), services, ready, needs, liveness)
    if leaks is not None:
        specs = with_leaks(specs, leaks)
    request = LaunchRequest(
        specs=specs,
        names=names,
        directory=session.directory or DEFAULT_DIRECTORY,
        services_directory=loaded.directory,
        limit_s=None if timeout is None else seconds_above_zero(timeout, "--timeout"),
        client=client,
        environment=dict(os.environ),
        client_directory=Path.cwd(),
        client_output=2 if session.as_json else 1,
        events=events,
    )
    plan = make_plan(request)
    # A service's variables may hold secrets that our own environment does not.
    for name in plan.order:
        session.hide(specs[name].env)
    unable = client_problem(request)
    if unable is not None:
        return session.finish(unable)
    if dry_run:
        return session.finish(would_do(plan))
    session.observe(*missing_preparation(loaded, os.environ))
    record_environment(session, config_path)

    def work(watch: Watch) -> "Outcome":
        return _launched(plan, session, watch, follow=follow)

    return perform(session, loaded, "ci-doctor launch: services", work)


def _launched(plan: LaunchPlan, session: Session, watch: Watch, *, follow: bool) -> "Outcome":
    show = service_lines(watch.tell)
    output = ServiceOutput(plan.order, watch.tell) if follow else None

    def on_event(event: "ServiceEvent") -> None:
        # Not before the first start, which must not wait for imports.
        watch.warm_up.begin()
        if output is not None:
            output(event)
        show(event)

    with output or contextlib.nullcontext():
        outcome = run(
            plan,
            redactor=session.redactor,
            interruption=watch.interruption,
            on_event=on_event,
            on_ready=lambda group: _tell_ready(plan.request, group, watch.tell),
            on_warning=watch.tell.warn,
        )
    if outcome.command_status:
        open_last_group()  # the client's output, which tells why it failed
    return outcome


def _tell_ready(request: LaunchRequest, group: "RunningGroup", tell: Teller) -> None:
    if request.client:
        words = filled_words(request.client, group.services.values(), group.ports)
        tell.hand_over(f"running {shlex.join(words)}")
        return
    widest = max(map(len, group.services))
    # Of a log or a file nobody knows an address to connect to.
    places = [
        f"  {service.name:<{widest}}  {service.base_url}"
        for service in group.services.values()
        if service.probe.is_network
    ]
    tell.say("ready: running until Ctrl-C", *places)
