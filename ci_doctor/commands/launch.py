# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor launch`."""

import contextlib
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_doctor.commands.delivery import claim, deliver
from ci_doctor.commands.invocation import Invocation
from ci_doctor.commands.launch_output import (
    Job,
    described,
    hand_over,
    refused,
    take_secrets_out,
    would_do,
)
from ci_doctor.commands.legacy import legacy
from ci_doctor.commands.options import config_option, dry_run_option, output_options
from ci_doctor.commands.telling.service_output import ServiceOutput
from ci_doctor.commands.telling.services import ServiceSource
from ci_doctor.commands.telling.teller import Teller
from ci_doctor.config.decoding import seconds_above_zero
from ci_doctor.config.exit_codes import read_exit_codes
from ci_doctor.config.loading import load_config
from ci_doctor.errors import UsageError
from ci_doctor.services.check import check_services
from ci_doctor.services.configured import service_specs
from ci_doctor.services.events import EventLog
from ci_doctor.services.launch.client import check_words, problem
from ci_doctor.services.launch.launch import Plan, run
from ci_doctor.services.launch.options import choose
from ci_doctor.services.spec import LaunchContext
from ci_doctor.session.warm_up import WarmUp
from ci_doctor.system.files.streams import open_closed_streams
from ci_doctor.system.processes.interruption import Interruption
from ci_doctor.system.secrets.redaction import Redactor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ci_doctor.services.outcome import ServiceEvent
    from ci_doctor.services.running import RunningGroup

    Listener = Callable[[ServiceEvent], None]

DEFAULT_DIRECTORY = Path("ci-doctor-report")


@click.command("launch", context_settings={"allow_interspersed_args": False})
@click.option(
    "--service",
    "services",
    multiple=True,
    metavar="NAME[='CMD']",
    help="Start this service. Repeatable. [default: all]",
)
@click.option(
    "--ready",
    multiple=True,
    metavar="NAME=PROBE",
    help="Readiness check of a service. Repeatable.",
)
@click.option(
    "--needs",
    multiple=True,
    metavar="NAME=OTHER",
    help="Start NAME when OTHER is ready. Repeatable.",
)
@click.option(
    "--timeout",
    metavar="S",
    help="Time for all services together to become ready. [default: start_timeout of each]",
)
@click.option(
    "--events",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write events to this file, as JSON lines.",
)
@click.option("--follow", is_flag=True, help="Print the services' output on stderr.")
@config_option
@dry_run_option
@output_options
@click.argument("client", nargs=-1, type=click.UNPROCESSED)
@legacy
def launch(
    invocation: Invocation,
    /,
    *,
    client: tuple[str, ...],
    config_path: Path | None,
    services: tuple[str, ...],
    ready: tuple[str, ...],
    needs: tuple[str, ...],
    timeout: str | None,
    events: Path | None,
    follow: bool,
    dry_run: bool,
    as_json: bool,
    report_dir: Path | None,  # noqa: ARG001 - invocation.report_directory knows it
) -> int:
    """Start services, wait until all are ready, run CLIENT under them, stop everything.

    Exits with CLIENT's status, with 1 if a service dies or is not ready in time, and with 75 if the
    cause lies outside the change. Without CLIENT the services run until a signal arrives or one of
    them dies.
    """
    if client and client != invocation.argv[len(invocation.own_argv) + 1 :]:
        # Without it a reader could not tell whose option `--json` is.
        words = shlex.join(["ci-doctor", *invocation.argv[: -len(client)], "--", *client])
        raise UsageError("`--` is missing before the command", hint=f"write: {words}")
    directory = invocation.report_directory or DEFAULT_DIRECTORY
    if not dry_run:
        # Before anything else, so that no report of an earlier attempt outlives this one, however it ends.
        claim(directory)
    job = _prepare(
        directory,
        config_path,
        services=(services, ready, needs),
        client=client,
        timeout=timeout,
        as_json=as_json,
    )
    if found := problem(client[0], os.environ, Path.cwd()) if client else None:
        return deliver(
            refused(invocation, *found), as_json=as_json, directory=None if dry_run else directory
        )
    if dry_run:
        return deliver(would_do(job, invocation), as_json=as_json, directory=None)
    return _perform(job, invocation, events=events, follow=follow, as_json=as_json)


def _prepare(
    directory: Path,
    config_path: Path | None,
    *,
    services: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]],
    client: tuple[str, ...],
    timeout: str | None,
    as_json: bool,
) -> Job:
    """Find everything that is wrong before anything is started. Raises UsageError."""
    loaded = load_config(config_path, Path.cwd())
    specs, names = choose(service_specs(loaded), *services)
    environment = dict(os.environ)
    context = LaunchContext(
        environment=environment,
        directory=loaded.directory.absolute(),
        log_directory=directory.absolute() / "logs",
        limit_s=None if timeout is None else seconds_above_zero(timeout, "--timeout"),
    )
    order = check_services(specs, names, context)
    check_words(client, order)
    codes, _ = read_exit_codes(loaded, os.environ)
    return Job(
        plan=Plan(
            specs=specs,
            names=names,
            order=order,
            context=context,
            client=client,
            environment=environment,
            directory=Path.cwd(),
            client_output=2 if as_json else 1,
        ),
        codes=codes,
        directory=directory,
        redactor=Redactor.from_environment(os.environ, *(specs[name].env for name in order)),
    )


def _perform(
    job: Job, invocation: Invocation, *, events: Path | None, follow: bool, as_json: bool
) -> int:
    """Launch, and deliver the report. Once everything has stopped, no signal takes the report away."""
    open_closed_streams()
    interruption, warm_up, logs = Interruption(), WarmUp(_load_report), set[Path]()

    def on_event(event: "ServiceEvent") -> None:
        warm_up.begin()
        if event.log is not None:
            logs.add(Path(event.log))

    with interruption.handling():
        with Teller(ServiceSource(job.plan.order), job.redactor) as tell:
            try:
                with _listeners(job, tell, events=events, follow=follow) as listeners:
                    launched = run(
                        job.plan,
                        interruption,
                        _to_each(on_event, *listeners, tell),
                        lambda group: _tell_ready(job, group, tell),
                    )
            finally:  # whatever has ended it
                for warning in take_secrets_out(logs, job.redactor):
                    tell.warn(warning)
        warm_up.wait()
        return hand_over(described(job, launched, events, invocation), job, as_json=as_json)


def _load_report() -> None:
    """Import what the report of a launch needs."""
    import ci_doctor.services.launch.report
    import ci_doctor.services.launch.verdict  # noqa: F401


@contextlib.contextmanager
def _listeners(
    job: Job, tell: "Teller[ServiceEvent]", *, events: Path | None, follow: bool
) -> "Iterator[list[Listener]]":
    """Those who get each event besides the terminal, open: the file of events, and what follows the logs."""
    listeners: list[Listener] = []
    with contextlib.ExitStack() as stack:
        if events is not None:
            listeners.append(stack.enter_context(EventLog(events, job.redactor, tell.warn)))
        if follow:
            listeners.append(stack.enter_context(ServiceOutput(job.plan.order, tell)))
        yield listeners


def _to_each(*listeners: "Listener") -> "Listener":
    def hand_out(event: "ServiceEvent") -> None:
        for listener in listeners:
            listener(event)

    return hand_out


def _tell_ready(job: Job, group: "RunningGroup", tell: "Teller[ServiceEvent]") -> None:
    if job.plan.client:
        tell.freeze()
        tell.say(f"running {shlex.join(job.plan.client)}")
        return
    widest = max(map(len, group.services))
    networked = [service for service in group.services.values() if service.probe.is_network]
    places = [f"  {service.name.ljust(widest)}  {service.base_url}" for service in networked]
    tell.say("ready: running until Ctrl-C", *places)
