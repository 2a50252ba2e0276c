# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor wait`."""

import os
from pathlib import Path
from typing import Any

import click

from ci_doctor.commands.delivery import claim, deliver
from ci_doctor.commands.invocation import Invocation
from ci_doctor.commands.legacy import legacy
from ci_doctor.commands.options import config_option, output_options
from ci_doctor.commands.telling.teller import Teller
from ci_doctor.commands.telling.waiting import WaitSource
from ci_doctor.config.decoding import seconds_of
from ci_doctor.config.exit_codes import read_exit_codes
from ci_doctor.config.loading import load_config
from ci_doctor.errors import UsageError
from ci_doctor.services.probes.ready import Probe, Scheme, parse_ready
from ci_doctor.services.wait.waiting import Waited, WaitProgress, WaitRequest, run
from ci_doctor.session.warm_up import WarmUp
from ci_doctor.system.processes.interruption import Interruption

_PROBES = "http://HOST:PORT/PATH, tcp://HOST:PORT, log:REGEX, exec:CMD, file:PATH, or an inline TOML table"


@click.command("wait")
@click.option("--pid", type=int, metavar="PID", help="The process to watch.")
@click.option(
    "--pidfile",
    type=click.Path(path_type=Path),
    metavar="F",
    help="File with the pid; may be written later.",
)
@click.option("--ready", metavar="PROBE", required=True, help=f"Readiness check: {_PROBES}.")
@click.option(
    "--log",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Log of the process; printed if it dies.",
)
@click.option(
    "--timeout",
    default="600s",
    show_default=True,
    metavar="S",
    help="How long to wait; 0 checks once.",
)
@click.option(
    "--descendants",
    type=click.Choice(["signal", "exit", "ignore"]),
    default="signal",
    show_default=True,
    help="Which end of a process below it counts as its death.",
)
@config_option
@output_options
@legacy
def wait(
    invocation: Invocation,
    /,
    *,
    config_path: Path | None,
    as_json: bool,
    report_dir: Path | None,  # noqa: ARG001 - invocation.report_directory knows it
    **options: Any,
) -> int:
    """Wait until a running process is ready or dead.

    For scripts starting their servers themselves. Reports the end of any process at once, also of a
    zombie and of another parent's child. Starts and kills nothing. Exit codes: 0 ready, 1 died or
    not ready in time, 75 if the cause lies outside the change (another process has the port, the
    disk is full).
    """
    directory = invocation.report_directory
    # Before anything else, so that no report of an earlier attempt outlives this one, however it ends.
    claim(directory)
    codes, _ = read_exit_codes(load_config(config_path, Path.cwd()), os.environ)
    request = _request(**options)
    interruption, warm_up = Interruption(), WarmUp(_load_report)
    with interruption.handling():
        waited = _run(request, interruption, warm_up)
        warm_up.wait()
        return _hand_over(waited, request, codes, invocation, directory=directory, as_json=as_json)


def _run(request: WaitRequest, interruption: Interruption, warm_up: WarmUp) -> Waited:
    with Teller(WaitSource()) as tell:

        def on_progress(progress: WaitProgress) -> None:
            warm_up.begin()
            tell(progress)

        return run(request, interruption, on_progress)


def _load_report() -> None:
    """Import what the report of a wait needs."""
    import ci_doctor.services.wait.report  # noqa: F401


def _hand_over(
    waited: Waited,
    request: WaitRequest,
    codes: dict[str, int],
    invocation: Invocation,
    *,
    directory: Path | None,
    as_json: bool,
) -> int:
    """The exit code. What was found stands, whether or not it can be shown: a full disk below stderr is not the change's."""
    from ci_doctor.services.wait.report import report_fields

    report = invocation.report(**report_fields(waited, request.probe, codes))
    try:
        return deliver(report, as_json=as_json, directory=directory)
    except BrokenPipeError:
        raise  # the boundary knows what a reader that has left means
    except OSError:
        from ci_doctor.model.exit_code import ExitCode

        return report.exit_code or int(ExitCode.INFRA)


def _request(
    *,
    pid: int | None,
    pidfile: Path | None,
    ready: str,
    log: Path | None,
    timeout: str,
    descendants: Any,
) -> WaitRequest:
    """Find everything that is wrong before the wait. Raises UsageError."""
    if (pid is None) is (pidfile is None):
        raise UsageError(
            "exactly one of --pid and --pidfile is needed",
            hint="name the process, or the file that will",
        )
    if pid is not None:
        _check_pid(pid)
    return WaitRequest(
        probe=_probe(ready, log),
        limit_s=seconds_of(timeout, "--timeout"),
        pid=pid,
        pidfile=pidfile,
        log=log,
        descendants=descendants,
        environment=dict(os.environ),
        directory=Path.cwd(),
    )


def _check_pid(pid: int) -> None:
    if pid <= 0:
        raise UsageError(
            f"--pid {pid} names no process",
            hint="is the variable that held it empty, or a process group?",
        )
    if pid == 1:
        raise UsageError("--pid 1 is the system's first process", hint="name the server itself")
    if pid == os.getpid():
        raise UsageError(
            f"--pid {pid} is ci-doctor itself",
            hint="name the server, as in `--pid $!` right after its start",
        )


def _probe(ready: str, log: Path | None) -> Probe:
    try:
        probe = parse_ready(ready, 0, directory=Path.cwd())
        probe.authorization_value(os.environ)
    except ValueError as error:
        hint = (
            "`wait` knows no {port}: write the number" if "{port}" in ready else f"write {_PROBES}"
        )
        raise UsageError(f"--ready: {error}", hint=hint) from error
    if probe.is_network and not probe.port:
        raise UsageError(
            f"--ready {probe.path} names no host and port",
            hint=f"write the whole URL: http://127.0.0.1:8000{probe.path}",
        )
    if probe.scheme is Scheme.LOG and log is None:
        raise UsageError("--ready log:… needs a log to look in", hint="name it with --log FILE")
    return probe
