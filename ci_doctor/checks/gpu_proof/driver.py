# SPDX-License-Identifier: Apache-2.0
"""Reads the NVIDIA driver through nvidia-smi: values of each GPU, and who holds memory.

The fields are those of `nvidia-smi --help-query-gpu` and `--help-query-compute-apps`.
"""

import shutil
from collections.abc import Mapping, Sequence
from typing import Final

from ci_doctor.checks.check import UndeterminedError
from ci_doctor.checks.context import CheckContext

# Without persistence mode each call starts the driver, seconds for each GPU.
LIMIT_S: Final = 40.0
_FORMAT: Final = "--format=csv,noheader,nounits"
_MOST_DIGITS: Final = 18
# What it prints in place of a value.
_WITHOUT_VALUE: Final = ("[", "N/A", "Unknown")

Fields = Mapping[str, str | None]


def smi_words(context: CheckContext, option: str, fields: Sequence[str]) -> list[str]:
    """The command that prints `fields`; `option` is `gpu` or `compute-apps`.

    Raises UndeterminedError without nvidia-smi.
    """
    program = shutil.which("nvidia-smi", path=context.environ.get("PATH", ""))
    if program is None:
        raise UndeterminedError("nvidia-smi is not on PATH")
    return [program, f"--query-{option}={','.join(fields)}", _FORMAT]


def query(context: CheckContext, option: str, fields: Sequence[str]) -> list[Fields]:
    """A row for each GPU or process, by field; None for what the driver does not say.

    Raises UndeterminedError if nvidia-smi gives no answer.
    """
    text = smi_output(context, smi_words(context, option, fields))
    return parse_rows(text, fields)


def smi_output(context: CheckContext, words: Sequence[str]) -> str:
    """What the command prints. Raises UndeterminedError if it fails or does not end."""
    try:
        ran = context.programs.run(
            words, cwd=context.cwd, environ=context.environ, timeout_s=LIMIT_S
        )
    except OSError as error:
        raise UndeterminedError(f"nvidia-smi cannot be started: {error.strerror}") from error
    if ran.exit_code is None:
        raise UndeterminedError(f"nvidia-smi did not answer within {LIMIT_S:g} s")
    if ran.exit_code != 0:
        # Its errors stand on stdout.
        words_of_it = (ran.stdout.strip() or ran.last_words).splitlines()[-1]
        raise UndeterminedError(f"nvidia-smi: {words_of_it[:200]}")
    return ran.stdout


def parse_rows(text: str, fields: Sequence[str]) -> list[Fields]:
    """The rows of its CSV. A line of another width is a message, and is left out."""
    rows: list[Fields] = []
    for line in text.splitlines():
        values = [value.strip() for value in line.split(",")]
        if len(values) == len(fields):
            rows.append(dict(zip(fields, map(_value, values), strict=True)))
    return rows


def _value(text: str) -> str | None:
    if not text or text.startswith(_WITHOUT_VALUE):
        return None
    return text


def number(row: Fields, field: str) -> int | None:
    """A whole number of a row; None if there is none."""
    text = row.get(field)
    if text is None or len(text) > _MOST_DIGITS or not (text.isascii() and text.isdigit()):
        return None
    return int(text)
