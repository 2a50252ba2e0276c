# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: runs another interpreter, with a time limit, and reads its output."""

import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from msgspec import Struct

from ci_doctor.errors import UsageError
from ci_doctor.system.files.unnamed_file import unnamed_file


class Answer(Struct, frozen=True, kw_only=True):
    """How a run ended: `exit_code` is negative for a signal and None if the time limit ended it."""

    exit_code: int | None
    stdout: str
    stderr: str

    @property
    def last_line(self) -> str:
        """The last line on stdout: a program's result, since a sitecustomize may print first.

        Raises IndexError if there is none.
        """
        return self.stdout.strip().splitlines()[-1]

    @property
    def last_error_line(self) -> str:
        """The last line on stderr that is not blank, or how the run ended."""
        lines = self.stderr.strip().splitlines()
        return lines[-1].strip() if lines else f"exit code {self.exit_code}, nothing on stderr"


def ask(python: Path, *arguments: str, timeout_s: float, environment: Mapping[str, str]) -> Answer:
    """Run `python` with `arguments` in a session of its own, which is stopped after `timeout_s`.

    Raises UsageError if it cannot be started.
    """
    # Output goes to files: a child that keeps a pipe open would delay us.
    with unnamed_file() as stdout, unnamed_file() as stderr:
        try:
            process = subprocess.Popen(
                [str(python), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            raise UsageError(
                f"cannot run {python}: {error.strerror or error}",
                hint="name a Python interpreter, such as .venv/bin/python",
            ) from error
        exit_code: int | None = None
        try:
            exit_code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            pass
        finally:
            if process.returncode is None:  # not reaped yet, so the group is still ours
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        return Answer(exit_code=exit_code, stdout=_text(stdout), stderr=_text(stderr))


def clean_environment(
    environment: Mapping[str, str], *, keep: tuple[str, ...] = ()
) -> dict[str, str]:
    """`environment` without PYTHON* (except `keep`) and without our own switches.

    The former change how Python starts, the latter would make the shim or the recorder act.
    """
    switches = ("PYTHON", "CI_DOCTOR_PRELOAD", "CI_DOCTOR_INJECT", "CI_DOCTOR_IMPORT_RACE")
    return {
        name: value
        for name, value in environment.items()
        if name in keep or not name.startswith(switches)
    }


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")
