# SPDX-License-Identifier: Apache-2.0
"""Where exports go: stdout, or a file that is replaced whole. Fails closed. Needs the standard library alone."""

import contextlib
import os
import sys
from pathlib import Path

from ci_doctor.commands.invocation import Invocation
from ci_doctor.environment.exports import ExportFormat, failing_statement
from ci_doctor.errors import CiDoctorError, UsageError
from ci_doctor.system.files.atomic import write_atomically

_OTHER_FORMATS = frozenset(ExportFormat) - {ExportFormat.SHELL}


def put(text: str) -> None:
    """Write `text` to stdout, in the bytes that the environment holds; raises UsageError where it was closed."""
    if sys.stdout is None:
        raise UsageError(
            "stdout is closed: the exports have nowhere to go", hint="name a file with --output"
        )
    sys.stdout.flush()
    sys.stdout.buffer.write(os.fsencode(text))
    sys.stdout.buffer.flush()


def differs(text: str, output: Path) -> bool:
    """Whether `output` holds anything else than `text`."""
    try:
        return output.read_bytes() != os.fsencode(text)
    except OSError:
        return True


def print_failing_statement(invocation: Invocation, code: int) -> None:
    """For `eval "$(ci-doctor setup-env)"`: a statement that fails.

    With `--output` that statement takes the place of an earlier run's exports; in another format than shell, nothing does.
    """
    hook = invocation.command == "plugin" and "pre-command" in invocation.own_argv
    # Also where the command or the format is mistyped: what is evaluated then must fail as well.
    if (
        not hook
        and not invocation.command.startswith("set")
        and not invocation.command.endswith("env")
    ):
        return
    shell = hook or invocation.option("--format") not in _OTHER_FORMATS
    output = None if hook else invocation.option("--output")
    with contextlib.suppress(
        CiDoctorError, OSError
    ):  # the error at hand is what counts, and may be this very one
        if output is None:
            if shell and not invocation.wants_json:
                put(failing_statement(code))
        elif not invocation.is_dry_run:
            _take_back(Path(output), failing_statement(code) if shell else None)


def _take_back(output: Path, statement: str | None) -> None:
    if statement is not None:
        write_atomically(output, statement.encode())
    elif output.is_file():
        output.unlink()
