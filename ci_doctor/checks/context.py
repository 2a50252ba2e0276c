# SPDX-License-Identifier: Apache-2.0
"""Reads what all checks look at: the job's environment, its configuration, and shared readings."""

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from ci_doctor.checks.settings import DoctorSettings, Workload
from ci_doctor.machine.interpreters import TargetInterpreter, absence
from ci_doctor.services.spec import ServiceSpec
from ci_doctor.system.processes.limited_runs import LimitedRuns, SeparateRun

T = TypeVar("T")


class CheckContext:
    """What a check may look at. All checks of a run share one.

    `root` stands above /proc, /sys and /dev: a test gives a recorded tree. `services` are the
    configured ones by name. `targets` are the interpreters of the job. `programs` runs other
    programs, and ends them all if ci-doctor is interrupted.
    """

    def __init__(
        self,
        *,
        environ: Mapping[str, str],
        cwd: Path,
        settings: DoctorSettings | None = None,
        services: Mapping[str, ServiceSpec] | None = None,
        targets: Sequence[TargetInterpreter] = (),
        root: Path = Path("/"),
    ) -> None:
        self.environ = environ
        self.cwd = cwd
        self.settings = settings or DoctorSettings()
        self.services = services or {}
        self.targets = tuple(targets)
        self.root = root
        self.programs = LimitedRuns()
        self._readings: dict[Callable[[CheckContext], Any], Future[Any]] = {}
        self._readers: dict[Callable[[CheckContext], Any], int] = {}
        self._waiting: dict[int, int] = {}  # thread -> the thread that reads for it
        self._lock = threading.Lock()

    @property
    def workload(self) -> Workload | None:
        """What the job is going to run, if that was named."""
        return None if self.settings.workload is None else Workload(self.settings.workload)

    @property
    def proc(self) -> Path:
        """/proc, or the recorded one."""
        return self.root / "proc"

    @property
    def sys(self) -> Path:
        """/sys, or the recorded one."""
        return self.root / "sys"

    @property
    def dev(self) -> Path:
        """/dev, or the recorded one."""
        return self.root / "dev"

    def is_of_job(self, file: Path) -> bool:
        """Whether `file` lies in the checkout or below the working directory, and in no environment.

        So it comes with the change, or the job has made it: another agent has the same.
        """
        # What Python calls `<frozen runpy>` or `<string>` is no file.
        if file.name.startswith("<"):
            return False
        file = self.cwd / file
        # A virtual environment often lies in the checkout.
        if not {"site-packages", "dist-packages"}.isdisjoint(file.parts):
            return False
        if any((folder / "pyvenv.cfg").is_file() for folder in file.parents):
            return False
        above = (self.cwd, *self.cwd.parents)
        top = next((folder for folder in above if absence(folder / ".git") is None), self.cwd)
        real = Path(os.path.realpath(file))
        return file.is_relative_to(top) or real.is_relative_to(os.path.realpath(top))

    def renewed(self) -> "CheckContext":
        """The same with nothing read yet: for a second look after a change."""
        return CheckContext(
            environ=self.environ,
            cwd=self.cwd,
            settings=self.settings,
            services=self.services,
            targets=self.targets,
            root=self.root,
        )

    def run(self, words: Sequence[str], *, environ: Mapping[str, str] | None = None) -> SeparateRun:
        """Run a program in the job's directory, and in its environment or `environ`.

        The deadline of the check ends it. Raises OSError if it cannot be started.
        """
        return self.programs.run(words, cwd=self.cwd, environ=environ or self.environ)

    def shared(self, read: Callable[["CheckContext"], T]) -> T:
        """What `read` returns, read once for all checks; other checks wait for the first.

        Raises what `read` raises, to each of them.
        """
        with self._lock:
            reading = self._readings.get(read)
            is_first = reading is None
            if reading is None:
                reading = self._readings[read] = Future()
                self._readers[read] = threading.get_ident()
        if is_first:
            _complete(reading, lambda: read(self))
            value: T = reading.result()
            return value
        thread = threading.get_ident()
        self._waiting[thread] = self._readers[read]
        try:
            value = reading.result()
        finally:
            del self._waiting[thread]
        return value

    def program_awaited_by(self, thread: int) -> str | None:
        """The program that a check in this thread waits for, or that its shared reading does."""
        return self.programs.running_in(self._waiting.get(thread, thread))


def _complete(reading: "Future[Any]", read: Callable[[], Any]) -> None:
    try:
        reading.set_result(read())
    # It is raised to each check that waits for the reading.
    except BaseException as error:  # noqa: BLE001
        reading.set_exception(error)
