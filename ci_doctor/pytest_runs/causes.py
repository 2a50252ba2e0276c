# SPDX-License-Identifier: Apache-2.0
"""Reads what failed tests printed for the root cause, by the rules about log lines."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from ci_doctor.diagnosis.diagnosis import diagnose, load_rules
from ci_doctor.diagnosis.exit_status import may_be_retried
from ci_doctor.diagnosis.wording import title
from ci_doctor.errors import CiDoctorError
from ci_doctor.pytest_runs.attempt import PytestOutcome, TestAttempt
from ci_doctor.system.secrets.cutting import first_words

# Tests that are looked at: the others rarely say something else.
_MOST: Final = 20
_LONGEST_LINE: Final = 200
_CRASH_LOG_BYTES: Final = 64 * 1024


class TestCauses(Struct, frozen=True, kw_only=True):
    """By node id, the title of the root cause. outside: tests each of whose failures lies outside."""

    __test__ = False  # no class of tests, whatever its name

    titles: dict[str, str] = {}
    outside: frozenset[str] = frozenset()
    problem: str | None = None


class FailedRun(Struct, frozen=True, kw_only=True):
    """An attempt that failed, and the log of its process."""

    attempt: TestAttempt
    log: str | None


def find_causes(
    failures: Mapping[str, Sequence[FailedRun]], scratch: Path, rules: Sequence[Path]
) -> TestCauses:
    """The causes in the failed attempts of each test; `scratch` is a folder for their texts.

    Raises ConfigError if a rules file has a mistake. Any other problem is a sentence of the result.
    """
    titles: dict[str, str] = {}
    outside = set()
    rule_set = load_rules(tuple(rules))
    for number, (test, failed) in enumerate(list(failures.items())[:_MOST]):
        causes = []
        for index, each in enumerate(failed):
            path = scratch / f"failure-{number}-{index}.log"
            path.write_text(_text(each), encoding="utf-8")
            try:
                causes.append(diagnose([str(path)], rule_set).cause)
            except CiDoctorError as error:
                return TestCauses(titles=titles, problem=f"no diagnosis: {error.message}")
        for cause in causes:
            if cause is not None:
                titles.setdefault(test, f"{title(cause.class_)}: {_shortened(cause.place.text)}")
        # A cause outside explains the test only if it explains each of its failures.
        if causes and all(may_be_retried(cause) for cause in causes):
            outside.add(test)
    return TestCauses(titles=titles, outside=frozenset(outside))


def _text(failed: FailedRun) -> str:
    attempt = failed.attempt
    parts = [attempt.output or "", _errors_in(attempt.traceback or ""), attempt.message or ""]
    # What a process printed before it died is in its log alone.
    if attempt.outcome in {PytestOutcome.CRASHED, PytestOutcome.LOST} and failed.log:
        parts.insert(0, _end_of(Path(failed.log)))
    return "\n".join(part for part in parts if part) + "\n"


def _errors_in(traceback: str) -> str:
    """The lines of a traceback that pytest marks as the error: the others are source code.

    A source line may hold the words of an error that never came.
    """
    marked = [line[1:].strip() for line in traceback.splitlines() if line.startswith("E ")]
    return "\n".join(marked) if marked else traceback


def _shortened(text: str) -> str:
    line = text.strip()
    return line if len(line) <= _LONGEST_LINE else f"{first_words(line, _LONGEST_LINE)}…"


def _end_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _CRASH_LOG_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""
