# SPDX-License-Identifier: Apache-2.0
"""Acts on stdout and files: where exports go, also those of a command line that failed.

Needs the standard library alone: a broken installation must make the shell fail, too.
"""

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ci_doctor.environment.exports import ExportFormat, failing_statement
from ci_doctor.errors import CiDoctorError, UsageError
from ci_doctor.system.files.access import write_atomically


def write_exports(text: str, *, is_evaluated: bool = True) -> None:
    """Write `text` to stdout, in the bytes that the environment holds.

    If it is evaluated, it begins with newlines: what a module of Python's start has printed before
    it, such as a sitecustomize, must not take the first export along. The second one is for a
    backslash at the end.

    Raises UsageError if stdout is closed.
    """
    if sys.stdout is None:
        raise UsageError(
            "stdout is closed: the exports have nowhere to go", hint="name a file with --output"
        )
    sys.stdout.flush()
    sys.stdout.buffer.write(os.fsencode(f"\n\n{text}" if is_evaluated and text else text))
    sys.stdout.buffer.flush()


def differs(text: str, output: Path) -> bool:
    """Whether `output` holds anything else than `text`."""
    try:
        return output.read_bytes() != os.fsencode(text)
    except OSError:
        return True


_STYLES = {str(style): style for style in ExportFormat}


def print_failing_statement(argv: Sequence[str], code: int) -> None:
    """Write a statement that fails, for a shell that evaluates what `ci-doctor setup-env` prints.

    Works on an unparsable command line too: the shell must not evaluate an empty string as success.
    With `--output` the statement replaces an earlier run's exports in that file. A file in a format
    that nobody evaluates is deleted.
    """
    own = list(argv[: argv.index("--")] if "--" in argv else argv)
    options, words = _options(own)
    is_hook = words[:2] == ["plugin", "pre-command"]
    if not is_hook and not _means_setup_env(words):
        return
    # A format that does not exist may be the error at hand: the reader is most likely a shell.
    style = ExportFormat.SHELL if is_hook else _STYLES.get(options.format, ExportFormat.SHELL)
    statement = failing_statement(code, style)
    # The error at hand is what counts, and may be that very one.
    with contextlib.suppress(CiDoctorError, OSError):
        if options.output is None:
            if not options.json:
                write_exports(statement, is_evaluated=False)
        elif not options.dry_run:
            output = Path(options.output)
            if statement:
                write_atomically(output, statement.encode())
            elif output.is_file():
                output.unlink()


def _options(words: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """The options that decide where exports go, and the words that are no options.

    They are read from any line. Click's parser would not do: it stops at the first word that it
    does not know, and click may be missing.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--format", nargs="?")
    parser.add_argument("--output", nargs="?")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--dry-run", action="store_true")
    # A flag with a value is an error of the line, and argparse would raise it here.
    plain = [word for word in words if not word.startswith(("--json=", "--dry-run="))]
    options, rest = parser.parse_known_args(plain)
    return options, [word for word in rest if not word.startswith("-")]


def _means_setup_env(words: Sequence[str]) -> bool:
    """Whether the command is `setup-env`, or a mistyped word that is nearest to it."""
    from ci_doctor.commands.listing import COMMANDS

    if not words or words[0] in COMMANDS:
        return words[:1] == ["setup-env"]
    try:
        from difflib import get_close_matches
    except Exception:  # noqa: BLE001 - a broken installation: what cannot be excluded must fail
        return True
    return get_close_matches(words[0], COMMANDS, n=1) == ["setup-env"]
