# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor restart-check`."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from ci_doctor.commands.documented import (
    DEFAULT_DIRECTORY,
    PATH,
    TIME,
    command,
    config_option,
    dry_run_option,
    load_configuration,
    option,
    pass_session,
    run_output_options,
)
from ci_doctor.commands.progress import restart_line
from ci_doctor.commands.run_record import Watch, perform, record_environment
from ci_doctor.config.decoding import decode_section, path_in, seconds_above_zero
from ci_doctor.config.loading import Config
from ci_doctor.environment.preparation import missing_preparation
from ci_doctor.errors import UsageError
from ci_doctor.load.requests import require_file
from ci_doctor.model.outcome import Outcome
from ci_doctor.restart.answers import RestartProgress
from ci_doctor.restart.experiment import make_plans, run_all, would_do
from ci_doctor.restart.settings import RestartPlan, RestartRequest, RestartSettings
from ci_doctor.services.spec import service_specs
from ci_doctor.session.session import Session

_OUTAGE = "The outage"
_PROMISES = "Promises"


@command(
    "restart-check",
    section="restart-check",
    examples={
        "ci-doctor restart-check --requests prompts.jsonl": "Kill the answering service of ci-doctor.toml under load.",
        "ci-doctor restart-check --kill cache --signal SIGTERM --same-outputs --requests prompts.jsonl": "Kill another service, and require the same answers afterwards.",
    },
    exits={
        0: "every promise is kept",
        1: "a promise is broken",
        75: "infra: the cause lies outside the change",
        86: "nothing is proven",
    },
)
@option(
    "--kill",
    group=_OUTAGE,
    metavar="NAME",
    help="The service to kill. [default: the answering one]",
)
@option(
    "--moment",
    group=_OUTAGE,
    multiple=True,
    metavar="WHEN",
    help="When it is killed: before-ready, under-load, saving or stopping. Repeatable. [default: under-load]",
)
@option(
    "--signal",
    group=_OUTAGE,
    multiple=True,
    metavar="NAME",
    help="The signal for the kill. Repeatable. [default: SIGKILL]",
)
@option(
    "--at",
    group=_OUTAGE,
    type=float,
    metavar="F",
    help="Kill after this fraction of the load, the start or the stop. [default: 0.5]",
)
@option(
    "--outage",
    group=_OUTAGE,
    metavar="S",
    help="Time from the service's end to its relaunch. [default: 5s]",
)
@option(
    "--requests",
    group="Client load",
    metavar="FILE",
    type=PATH,
    help="File of requests, as JSON lines.",
)
@option(
    "--client",
    group="Client load",
    metavar="CMD",
    help="A command that asks, in place of requests: exit code 0 and its output are the answer.",
)
@option(
    "--concurrency",
    group="Client load",
    type=click.IntRange(min=1),
    help="Requests in flight at once. [default: 40]",
)
@option(
    "--request-timeout",
    group=TIME,
    metavar="S",
    help="A longer request counts as hung. [default: 30s]",
)
@option(
    "--recovery-timeout",
    group=TIME,
    metavar="S",
    help="Time to recover after the relaunch. [default: 120s]",
)
@option(
    "--throughput",
    group=_PROMISES,
    type=float,
    metavar="R",
    help="Lowest accepted throughput after the restart, as a fraction of before. 0 accepts any. [default: 0.8]",
)
@option(
    "--same-outputs/--no-same-outputs",
    group=_PROMISES,
    default=None,
    help="Require the same answers since the kill as before it, byte for byte.",
)
@option(
    "--budget",
    group=TIME,
    metavar="S",
    help="Wall clock for the whole run, report included. [default: 25m]",
)
@option(
    "--resume",
    group=TIME,
    is_flag=True,
    help="Keep the restarts in the report directory that passed or failed, and make the others.",
)
@config_option
@dry_run_option
@run_output_options
@pass_session
def restart_check(
    session: Session,
    /,
    *,
    dry_run: bool,
    resume: bool,
    config_path: Path | None,
    **flags: Any,
) -> int:
    """Kill a service under load, start it again, and check its promises to clients.

    No request may hang. The port, the processes and the memory must be released. The service must
    be ready again in time, and answer as fast as before.
    """
    if dry_run:
        plans = _prepare(session, load_configuration(session, config_path), flags)
        return session.finish(would_do(plans), on_stdout=True)
    # Before the plan, which names the directory.
    directory = session.claim(DEFAULT_DIRECTORY, clear=not resume)
    # A run that is refused keeps its report.
    if resume and directory is not None and (directory / "report.json").exists():
        session.protect()
    loaded = load_configuration(session, config_path)
    plans = _prepare(session, loaded, flags)
    if resume:
        session.accept()
    session.observe(*missing_preparation(loaded, os.environ))
    record_environment(session, config_path)

    def work(watch: Watch) -> Outcome:
        def on_progress(progress: RestartProgress) -> None:
            if progress.event is not None:
                watch.warm_up.begin()
            watch.tell.say(restart_line(progress))

        return run_all(
            plans,
            redactor=session.redactor,
            interruption=watch.interruption,
            resume=resume,
            on_progress=on_progress,
            on_warning=watch.tell.warn,
        )

    return perform(session, loaded, "ci-doctor restart-check: phases", work, on_stdout=True)


def _prepare(session: Session, loaded: Config, flags: Mapping[str, Any]) -> tuple[RestartPlan, ...]:
    """Find everything that is wrong before anything is started. Raises UsageError."""
    settings, origins = decode_section(
        loaded, "restart-check", RestartSettings, environ=os.environ, flags=flags
    )
    # What was typed comes first: whatever a file lacks, it is wrong.
    for name in ("budget", "request_timeout", "recovery_timeout"):
        seconds_above_zero(getattr(settings, name), name)
    requests = None
    if settings.requests is not None:
        # Relative, as a person would write it in a message.
        requests = Path(os.path.relpath(path_in(loaded, origins["requests"], settings.requests)))
        require_file(requests, origins["requests"])
    elif settings.load is None and settings.client is None:
        raise UsageError(
            "neither requests, nor a client, nor a load that writes are named",
            hint='give --requests FILE or --client CMD, or load = "…" in [restart-check]',
        )
    request = RestartRequest(
        settings=settings,
        specs=service_specs(loaded),
        services_directory=loaded.directory,
        requests=requests,
        started=session.invocation.started,
        directory=session.directory or DEFAULT_DIRECTORY,
        environment=dict(os.environ),
        origins=origins,
    )
    plans = make_plans(request)
    # A service's variables may hold secrets that our own environment does not.
    for name in plans[0].order:
        session.hide(request.specs[name].env)
    return plans
