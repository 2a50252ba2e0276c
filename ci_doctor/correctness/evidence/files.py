# SPDX-License-Identifier: Apache-2.0
"""Acts on files: the evidence of an experiment in its report directory, and no file of others."""

import contextlib
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from ci_doctor.errors import UsageError
from ci_doctor.system.secrets.log_files import redact_files
from ci_doctor.system.secrets.redaction import Redactor

SAMPLES = "samples.jsonl"
# The name under which samples.jsonl is rewritten. Only a kill meanwhile leaves it behind.
PARTIAL = ".samples.jsonl.partial"
RUN = "run.json"
STARTS = "starts.jsonl"
PAGE = "report.html"
# Where the answers of starts go that localise a difference, and the request of the smallest condition.
LOCALISE = "localise"
SMALLEST = "smallest-request.jsonl"
# How each of ours begins: other tools write files of these names too.
_BEGINNINGS = {
    RUN: re.compile(rb'\{"schema": "ci-doctor/run/'),
    STARTS: re.compile(rb'\{"schema": "ci-doctor/start/'),
    PAGE: re.compile(rb'(?s).*<meta name="?generator"? content="?ci-doctor'),
}
_BEGINNING_BYTES = 4096
# logs/A1/vllm-1.log
_LOG = re.compile(r"([AB][0-9]+|warm-up)/.+-[0-9]+\.log")


def clear(directory: Path) -> None:
    """Remove what an earlier run left, so that nobody takes it for the evidence of this one.

    Raises UsageError.
    """
    clear_localisation(directory)
    with _removing():
        for name in (SAMPLES, PARTIAL):
            (directory / name).unlink(missing_ok=True)
        for log in _logs(directory):
            log.unlink()
        # run.json last: without it nobody resumes from what is left after a kill.
        for name in (PAGE, STARTS, RUN):
            _unlink_ours(directory / name)


def clear_localisation(directory: Path) -> None:
    """Remove what localising a difference left in a report directory. Raises UsageError."""
    below = directory / LOCALISE
    # A link could lead to a directory of somebody else.
    if below.is_symlink():
        return
    with _removing():
        for name in (SAMPLES, SMALLEST):
            (below / name).unlink(missing_ok=True)
        for log in _logs(below):
            log.unlink()


def clear_unfinished(directory: Path, finished: Collection[str]) -> None:
    """Before a run resumes: remove its page, and the logs of all starts but `finished` ("A1").

    So no log holds lines of two starts, and none belongs to a start that never finished. Raises
    UsageError.
    """
    with _removing():
        _unlink_ours(directory / PAGE)
        for log in _logs(directory):
            if log.parent.name not in finished:
                log.unlink()


def is_ours(path: Path) -> bool:
    """Whether ci-doctor wrote this file, by its name and its beginning. Raises OSError.

    An empty file counts as ours: a kill before the first byte leaves one.
    """
    with path.open("rb") as file:
        beginning = file.read(_BEGINNING_BYTES)
    return not beginning or _BEGINNINGS[path.name].match(beginning) is not None


def redact_logs(directory: Path, redactor: Redactor) -> tuple[str, ...]:
    """Remove secrets from every log. Returns a warning for each log that had to be removed."""
    return redact_files(_logs(directory), redactor)


@contextlib.contextmanager
def _removing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"cannot remove what an earlier run left: {error}",
            hint="choose another directory with --report-dir",
        ) from error


def _unlink_ours(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        if is_ours(path):
            path.unlink()


def _logs(directory: Path) -> Iterator[Path]:
    for log in sorted(directory.glob("logs/*/*.log")):
        name = f"{log.parent.name}/{log.name}"
        # A link could lead to a directory of somebody else.
        if _LOG.fullmatch(name) and not log.parent.is_symlink():
            yield log
