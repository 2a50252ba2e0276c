# SPDX-License-Identifier: Apache-2.0
"""Acts on stdout and files: where exports go. Fails closed. Needs the standard library alone."""

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ci_doctor.environment.exports import ExportFormat, failing_statement
from ci_doctor.errors import CiDoctorError, UsageError
from ci_doctor.system.files.atomic import write_atomically

_OTHER_FORMATS = frozenset(ExportFormat) - {ExportFormat.SHELL}


def put(text: str) -> None:
    """Write `text` to stdout, in the bytes that the environment holds; raises UsageError if it was closed."""
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


def print_failing_statement(argv: Sequence[str], code: int) -> None:
    """Write a statement that fails, for a shell that evaluates what `ci-doctor setup-env` prints.

    `argv` may be a line that could not be parsed: what a shell evaluates must fail then, too. With `--output` the
    statement takes the place of an earlier run's exports; in another format than shell, nothing does.
    """
    own = list(argv[: argv.index("--")] if "--" in argv else argv)
    typed, words = _options(own)
    hook = words[:2] == ["plugin", "pre-command"]
    if not hook and not _means_setup_env(words):
        return
    shell = hook or typed.format not in _OTHER_FORMATS
    # The error at hand is what counts, and may be that very one.
    with contextlib.suppress(CiDoctorError, OSError):
        if typed.output is None:
            if shell and not typed.json:
                put(failing_statement(code))
        elif not typed.dry_run:
            _take_back(Path(typed.output), failing_statement(code) if shell else None)


def _options(words: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """What decides where exports go, read from any line; and the words that are no options.

    Not by click, whose parser stops at the first word that it does not know, and may be missing.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--format", nargs="?")
    parser.add_argument("--output", nargs="?")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--dry-run", action="store_true")
    # A flag with a value is an error of the line; argparse would raise it here.
    plain = [word for word in words if not word.startswith(("--json=", "--dry-run="))]
    typed, rest = parser.parse_known_args(plain)
    return typed, [word for word in rest if not word.startswith("-")]


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


def _take_back(output: Path, statement: str | None) -> None:
    if statement is not None:
        write_atomically(output, statement.encode())
    elif output.is_file():
        output.unlink()
