# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: a folder, a port that nobody listens on, and command lines whose end is taken to the microsecond."""

import contextlib
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil
from results import environment

from supervision.figures import NotMeasuredError

PROGRAMS = Path(__file__).with_name("programs")
PYTHON = (sys.executable, "-S", "-E")  # without site: the servers are to start fast
DOCTOR = str(Path(sys.executable).with_name("ci-doctor"))


class Ended(NamedTuple):
    """`at` is when the process was gone, in monotonic ns; `output` is what it said."""

    at: int
    status: int
    output: str

    @property
    def gist(self) -> str:
        """The exit code and the last words, on one line."""
        return f"exit code {self.status}: {' '.join(self.output.split())[-160:]}"


class Scene:
    """One run's folder; every process started in it has the folder in a word of its command line."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.note = folder / "note"

    def server(self, program: str, *arguments: object) -> list[str]:
        return [*PYTHON, str(PROGRAMS / f"{program}.py"), *map(str, arguments), str(self.folder)]

    def noted(self) -> int:
        """The monotonic ns that a server has written."""
        text = self.note.read_text(encoding="ascii") if self.note.exists() else ""
        if not text:
            raise NotMeasuredError("the server came to no end")
        return int(text)

    def start(self, words: Sequence[str]) -> subprocess.Popen[bytes]:
        """In a session of its own, its output in a file."""
        with (self.folder / "output").open("wb") as output:
            return subprocess.Popen(
                words,
                cwd=self.folder,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def finish(self, process: subprocess.Popen[bytes], limit_s: float = 30.0) -> Ended:
        descriptor = os.pidfd_open(process.pid)
        try:
            ready, _, _ = select.select([descriptor], [], [], limit_s)
            at = time.monotonic_ns()
        finally:
            os.close(descriptor)
        if not ready:
            process.kill()
        status = process.wait()
        output = self._output()
        if not ready:
            raise NotMeasuredError(
                f"still runs after {limit_s:.0f} s: {' '.join(output.split())[-160:]}"
            )
        return Ended(at, status, output)

    def until(self, fact: Callable[[], bool], what: str, process: subprocess.Popen[bytes]) -> float:
        """Seconds until `fact` was true, which is given up where `process` has ended."""
        seconds = eventually(lambda: fact() or process.poll() is not None, what)
        if process.returncode is not None:
            raise NotMeasuredError(Ended(0, process.returncode, self._output()).gist)
        return seconds

    def _output(self) -> str:
        return (self.folder / "output").read_text(errors="replace")

    def run(self, words: Sequence[str], limit_s: float = 30.0) -> Ended:
        return self.finish(self.start(words), limit_s)

    def clear(self) -> None:
        """End what a tool has left, and empty the folder's notes."""
        for pid in self.left():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.note.unlink(missing_ok=True)

    def left(self) -> list[int]:
        """Processes, not zombies, that have this folder as a word of their command line."""
        each = psutil.process_iter(["cmdline"])
        return [
            process.pid for process in each if str(self.folder) in (process.info["cmdline"] or ())
        ]


def launch(*options: str, **services: Sequence[str]) -> list[str]:
    """The command line of ci-doctor that launches `services`."""
    each = [
        word
        for name, words in services.items()
        for word in ("--service", f"{name}={shlex.join(words)}")
    ]
    return [DOCTOR, "launch", *each, *options]


def eventually(fact: Callable[[], object], what: str, limit_s: float = 30.0) -> float:
    """Seconds until `fact` was true."""
    began = time.monotonic()
    while not fact():
        if time.monotonic() - began > limit_s:
            raise NotMeasuredError(f"after {limit_s:.0f} s still not: {what}")
        time.sleep(0.01)
    return time.monotonic() - began


@contextlib.contextmanager
def closed_port() -> Iterator[int]:
    """A port that stays ours and refuses every connection."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def free_port() -> int:
    """A port that was free a moment ago."""
    with closed_port() as port:
        return port
