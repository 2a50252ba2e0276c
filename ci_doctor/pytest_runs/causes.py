# SPDX-License-Identifier: Apache-2.0
"""Reads what failed tests printed for the root cause, and whether a disk of theirs is full."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from io import FileIO
from pathlib import Path
from typing import Final

from msgspec import Struct

from ci_doctor.diagnosis.diagnosis import diagnose_logs, load_rules
from ci_doctor.diagnosis.log_rules import RuleSet
from ci_doctor.diagnosis.log_text import LogText
from ci_doctor.errors import CiDoctorError
from ci_doctor.model.cause import Cause, FailureClass
from ci_doctor.pytest_runs.attempt import PytestOutcome, TestAttempt
from ci_doctor.system.secrets.private_keys import shortened_words

# Tests that are looked at: the others rarely say something else.
_MOST: Final = 20
_LONGEST_LINE: Final = 200
_CRASH_LOG_BYTES: Final = 64 * 1024
# The path in the message of an OSError: `[Errno 28] No space left on device: '/data/x'`.
_NAMED_PATH: Final = re.compile(r"'(/[^']+)'")


class TestCauses(Struct, frozen=True, kw_only=True):
    """By node id, the title of the root cause.

    outside: tests whose failures all name a full disk, while a disk of theirs is full.
    """

    __test__ = False  # no class of tests, whatever its name

    titles: dict[str, str] = {}
    outside: frozenset[str] = frozenset()
    problem: str | None = None


class FailedRun(Struct, frozen=True, kw_only=True):
    """An attempt that failed, and the log of its process."""

    attempt: TestAttempt
    log: str | None


def find_causes(
    failures: Mapping[str, Sequence[FailedRun]], places: Sequence[Path], rules: Sequence[Path]
) -> TestCauses:
    """The causes in the failed attempts of each test; `places` are folders that tests write to.

    Raises ConfigError if a rules file has a mistake. Any other problem is a sentence of the result.
    """
    titles: dict[str, str] = {}
    outside = set()
    rule_set = load_rules(tuple(rules))
    for test, failed in list(failures.items())[:_MOST]:
        try:
            causes = [_cause_of(each, rule_set) for each in failed]
        except CiDoctorError as error:
            return TestCauses(titles=titles, problem=f"no diagnosis: {error.message}")
        for cause in causes:
            if cause is not None:
                titles.setdefault(test, f"{cause.title}: {_shortened(cause.place.text)}")
        # The words alone prove nothing: a test may raise them itself. The disk must say so too.
        if causes and all(_is_full_disk(cause, places) for cause in causes):
            outside.add(test)
    return TestCauses(titles=titles, outside=frozenset(outside))


def _cause_of(failed: FailedRun, rules: RuleSet) -> Cause | None:
    content = _text(failed).encode("utf-8", "replace")
    # In memory, since the disk may be what is full.
    with FileIO(os.memfd_create("failure"), "r+b") as file:
        file.write(content)
        return diagnose_logs([LogText("failure", file, len(content))], rules).cause


def _is_full_disk(cause: Cause | None, places: Sequence[Path]) -> bool:
    if cause is None or cause.class_ != FailureClass.DISK:
        return False
    named = _NAMED_PATH.search(cause.place.text)
    if named is not None:
        places = (*places, Path(named[1]))
    return any(_is_full(place) for place in places)


def _is_full(place: Path) -> bool:
    """Whether the disk of `place`, or of the nearest folder above it, has no block or file left."""
    for existing in _with_parents(place):
        try:
            disk = os.statvfs(existing)
        except OSError:
            continue
        # A file system keeps some blocks for root alone.
        free = disk.f_bfree if os.geteuid() == 0 else disk.f_bavail
        return (disk.f_blocks > 0 and free == 0) or (disk.f_files > 0 and disk.f_favail == 0)
    return False


def _with_parents(place: Path) -> Iterator[Path]:
    yield place
    yield from place.parents


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
    return shortened_words(text.strip(), _LONGEST_LINE)


def _end_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _CRASH_LOG_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""
