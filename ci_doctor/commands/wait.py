# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor wait`."""

import os
from pathlib import Path

import click

from ci_doctor.commands.documented import (
    command,
    config_option,
    load_configuration,
    option,
    output_options,
    pass_session,
)
from ci_doctor.commands.progress import show_wait
from ci_doctor.commands.run_record import Watch, perform, record_environment
from ci_doctor.config.decoding import seconds_of
from ci_doctor.environment.preparation import missing_preparation
from ci_doctor.errors import UsageError
from ci_doctor.model.outcome import Outcome
from ci_doctor.services.descendants import DescendantPolicy
from ci_doctor.services.ready import NoProbeError, ReadinessProbe, parse_ready
from ci_doctor.services.wait import WaitProgress, WaitRequest, run
from ci_doctor.session.session import Session

_PROBES = (
    "http://HOST:PORT/PATH, tcp://HOST:PORT, unix:PATH, log:REGEX, exec:CMD, file:PATH, or an inline "
    "TOML table"
)


@command(
    "wait",
    examples={
        "ci-doctor wait --pid $! --ready http://127.0.0.1:8000/health": "Behind `server &` in a script: wait until it is ready, or dead.",
        "ci-doctor wait --pidfile server.pid --ready tcp://127.0.0.1:8000 --log server.log --timeout 400s": "Print the log if the server dies.",
    },
    exits={
        0: "ready",
        1: "died, or not ready in time",
        75: "the cause lies outside the change: another process has the port, or the disk is full",
    },
)
@option(
    "--pid",
    "pids",
    group="The process",
    type=int,
    multiple=True,
    metavar="PID",
    help="The process to watch. Repeatable: the end of any is a death.",
)
@option(
    "--pidfile",
    group="The process",
    type=click.Path(path_type=Path),
    metavar="F",
    help="File with the pid; it may appear later.",
)
@option(
    "--ready",
    group="Readiness",
    metavar="PROBE",
    required=True,
    help=f"Readiness check: {_PROBES}.",
)
@option(
    "--log",
    group="The process",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Log of the process; printed if it dies.",
)
@option(
    "--timeout",
    group="Readiness",
    default="600s",
    show_default=True,
    metavar="S",
    help="How long to wait; 0 checks once.",
)
@option(
    "--descendants",
    group="The process",
    type=click.Choice(["signal", "exit", "ignore"]),
    default="signal",
    show_default=True,
    help="Which end of a child process counts as a death: by a signal, any but 0, or none.",
)
@config_option
@output_options
@pass_session
def wait(
    session: Session,
    /,
    *,
    config_path: Path | None,
    pids: tuple[int, ...],
    pidfile: Path | None,
    ready: str,
    log: Path | None,
    timeout: str,
    descendants: DescendantPolicy,
) -> int:
    """Wait until a running process is ready or dead.

    For scripts that start their servers themselves. It sees at once when the process ends,
    even if another process started it. It starts and kills nothing.
    """
    session.claim()
    loaded = load_configuration(session, config_path)
    session.observe(*missing_preparation(loaded, os.environ))
    record_environment(session, config_path)
    request = WaitRequest(
        probe=_probe(ready),
        limit_s=seconds_of(timeout, "--timeout"),
        pids=pids,
        pidfile=pidfile,
        log=log,
        descendants=descendants,
        environment=dict(os.environ),
        directory=Path.cwd(),
    )

    def work(watch: Watch) -> Outcome:
        def on_progress(progress: WaitProgress) -> None:
            watch.warm_up.begin()
            show_wait(watch.tell, progress)

        return run(request, interruption=watch.interruption, on_progress=on_progress)

    return perform(session, loaded, "ci-doctor wait: progress", work)


def _probe(ready: str) -> ReadinessProbe:
    try:
        probe = parse_ready(ready, 0, directory=Path.cwd())
        # Now, and not at the first try: a variable that is not set will not be set later.
        probe.authorization_value(os.environ)
    except ValueError as error:
        hint = error.hint if isinstance(error, NoProbeError) else None
        if "{port}" in ready:
            hint = "`wait` knows no {port}: write the number"
        raise UsageError(f"--ready: {error}", hint=hint) from error
    return probe
