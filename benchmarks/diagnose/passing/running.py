# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: runs a step in a session of its own, and notes the time of each line."""

import os
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from .frames import Line, Step

PRELUDE = Path(__file__).parent / "prelude.sh"
# What a CI system or this project sets would change the tools' own output.
_LEFT_OUT = ("CI_DOCTOR_", "BUILDKITE", "GITHUB_", "PYTEST_", "VIRTUAL_ENV", "PYTHON")


class StepFailedError(Exception):
    """A step ended with another exit code than 0, or was not over in its time."""

    def __init__(self, command: str, reason: str, lines: list[Line]) -> None:
        super().__init__(f"{command.splitlines()[0]}: {reason}")
        self.lines = lines


def environ_of(place: Path, cache: Path, python: str) -> dict[str, str]:
    """The variables of all steps in `place`: its virtual environment comes first in PATH."""
    environ = {name: text for name, text in os.environ.items() if not name.startswith(_LEFT_OUT)}
    environ["PATH"] = f"{place / 'venv' / 'bin'}:{environ['PATH']}"
    environ["PLACE"] = str(place)
    environ["CACHE"] = str(cache)
    environ["PYTHON"] = python
    environ["PROGRAMS"] = str(PRELUDE.parent / "programs")
    environ["PRELUDE"] = str(PRELUDE)
    environ["LC_ALL"] = "C.UTF-8"
    environ["CI"] = "true"
    return environ


def run_step(
    command: str, cwd: Path, environ: Mapping[str, str], *, timeout_s: float, pty: bool = False
) -> Step:
    """Run a command of the shell, with the functions of the prelude.

    StepFailedError is raised if it does not end with 0 in time.
    """
    started = time.time()
    over = threading.Event()
    with _start(command, cwd, environ, pty=pty) as process:
        timer = threading.Timer(timeout_s, _kill_group, [process.pid, over])
        timer.start()
        try:
            lines = _read(process)
            exit_code = process.wait()
        finally:
            timer.cancel()
            _kill_group(process.pid)
    if over.is_set():
        raise StepFailedError(command, f"not over in {timeout_s} s", lines)
    if exit_code != 0:
        raise StepFailedError(command, f"exit code {exit_code}", lines)
    return Step(command, started, time.time(), lines)


def _start(
    command: str, cwd: Path, environ: Mapping[str, str], *, pty: bool
) -> subprocess.Popen[bytes]:
    shell = ["bash", "-c", f'set -eo pipefail; . "$PRELUDE"; {command}']
    # script(1) gives its child a terminal, and returns the child's status with -e.
    argv = ["script", "-qefc", shlex.join(shell), "/dev/null"] if pty else shell
    return subprocess.Popen(
        argv,
        cwd=cwd,
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def _read(process: subprocess.Popen[bytes]) -> list[Line]:
    assert process.stdout is not None
    lines: list[Line] = []
    for line in process.stdout:
        text = line.decode("utf-8", "surrogateescape").removesuffix("\n")
        lines.append(Line(time.time(), text))
    return lines


def _kill_group(pid: int, over: threading.Event | None = None) -> None:
    """Kill what is left of a step; `over` is set if its time was over."""
    if over is not None:
        over.set()
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
