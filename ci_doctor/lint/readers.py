# SPDX-License-Identifier: Apache-2.0
"""Reads nothing by itself: the readers of lint, each loaded when the first file of its kind comes."""

from collections.abc import Mapping

from ci_doctor.lint.reading import FileReading, Readers, ReadText
from ci_doctor.lint.shell.shell_source import ShellSource
from ci_doctor.lint.violation import Violation


def _shell(_source: ShellSource, _read: ReadText) -> FileReading:
    return FileReading()


def _pipeline(_file: str, _text: str) -> FileReading | None:
    return None


def _python(file: str, text: str) -> FileReading | None:
    from ci_doctor.lint.python.check import check_python, is_gate

    if not is_gate(file):
        return None
    reading = check_python(file, text)
    return FileReading(violations=reading.violations, unreadable=reading.unreadable)


def _consistency(files: Mapping[str, str], whole: bool) -> tuple[Violation, ...]:
    from ci_doctor.lint.consistency.check import check_consistency

    return check_consistency(files, whole=whole)


READERS = Readers(shell=_shell, pipeline=_pipeline, python=_python, consistency=_consistency)
