# SPDX-License-Identifier: Apache-2.0
"""Acts on files: the evidence of an experiment in its report directory, and nobody else's files there."""

import contextlib
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from ci_doctor.errors import UsageError
from ci_doctor.system.secrets.log_files import redact_file
from ci_doctor.system.secrets.redaction import Redactor

SAMPLES = "samples.jsonl"
# What samples.jsonl is rewritten under; it outlives only a process that was killed just then.
PARTIAL = ".samples.jsonl.partial"
RUN = "run.json"
STARTS = "starts.jsonl"
PAGE = "report.html"
# How each of ours begins; other tools write files of these names too.
_MARKS = {
    RUN: re.compile(rb'\{"schema": "ci-doctor/run/'),
    STARTS: re.compile(rb'\{"schema": "ci-doctor/start/'),
    PAGE: re.compile(rb'(?s).*<meta name="?generator"? content="?ci-doctor'),
}
_BEGINNING_BYTES = 4096
# logs/A1/vllm-1.log
_LOG = re.compile(r"([AB][0-9]+|warm-up)/.+-[0-9]+\.log")


def clear(directory: Path) -> None:
    """Remove what an earlier attempt left, so that it is not taken for this one's. Raises UsageError.

    `run.json` goes last: without it nobody goes on with what is left.
    """
    with _removing():
        for name in (SAMPLES, PARTIAL):
            (directory / name).unlink(missing_ok=True)
        for log in _logs(directory):
            log.unlink()
        for name in (PAGE, STARTS, RUN):
            _unlink_ours(directory / name)


def clear_unfinished(directory: Path, finished: Collection[str]) -> None:
    """Before a run goes on: remove its page and the logs of all starts but the `finished` ones ("A1"). Raises UsageError.

    So no log holds lines of two starts, and none is of a start that was never finished.
    """
    with _removing():
        _unlink_ours(directory / PAGE)
        for log in _logs(directory):
            if log.parent.name not in finished:
                log.unlink()


def is_ours(path: Path) -> bool:
    """Whether we wrote this file, by its name and how it begins. An empty one is as good as ours. Raises OSError."""
    with path.open("rb") as file:
        beginning = file.read(_BEGINNING_BYTES)
    return not beginning or _MARKS[path.name].match(beginning) is not None


def redact_logs(directory: Path, redactor: Redactor) -> Iterator[str]:
    """Take secrets out of every log; one that they cannot be taken out of is removed, and the reason told."""
    for log in _logs(directory):
        try:
            redact_file(log, redactor)
        except UsageError as error:
            log.unlink(missing_ok=True)
            yield f"removed {log}: {error.message}"


@contextlib.contextmanager
def _removing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"cannot take away what an earlier run left: {error}",
            hint="choose another directory with --report-dir",
        ) from error


def _unlink_ours(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        if is_ours(path):
            path.unlink()


def _logs(directory: Path) -> list[Path]:
    return [
        log
        for log in sorted(directory.glob("logs/*/*.log"))
        if _LOG.fullmatch(f"{log.parent.name}/{log.name}") and not log.parent.is_symlink()
    ]
