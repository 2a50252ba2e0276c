# SPDX-License-Identifier: Apache-2.0
"""The process: `python -m ci_doctor` and the console script.

The only place that exits, and the last resort.
"""

import contextlib
import io
import os
import sys
from collections.abc import Sequence
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line and exit with its code."""
    argv = sys.argv[1:]
    # An encoding that lacks a character shows its number, as stderr does.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        from ci_doctor import cli

        code = cli.main(argv)
    # What comes up to here has passed the error boundary, or came before it.
    except BaseException as error:  # noqa: BLE001
        code = _last_resort(error, argv)
    _flush()
    # Not sys.exit: taking the interpreter down costs 20 ms, and a death must be reported within 50.
    os._exit(code)


def _last_resort(error: BaseException, argv: Sequence[str]) -> int:
    """Print what happened, with the standard library alone.

    A broken installation must not end with 1, or without a word.
    """
    import traceback

    from ci_doctor.commands.failing_statement import print_failing_statement
    from ci_doctor.model.exit_code import ExitCode

    code = (
        ExitCode.SIGINT
        if isinstance(error, KeyboardInterrupt)
        else getattr(error, "code", ExitCode.BUG)
    )
    code = code if isinstance(code, ExitCode) else ExitCode.BUG
    # Nothing is left to catch what this raises, and 1 would say that the change is at fault.
    with contextlib.suppress(Exception):
        print_failing_statement(argv, code)
    if sys.stderr is not None:
        traceback.print_exception(error)
        sys.stderr.write(
            "error: ci-doctor is broken, or its installation is\n  hint: install it again\n"
        )
    return int(code)


def _flush() -> None:
    """What cannot be written, as the reader is gone or the disk is full, is known by now."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # ValueError: closed
            if stream is not None:
                stream.flush()


if __name__ == "__main__":
    main()
