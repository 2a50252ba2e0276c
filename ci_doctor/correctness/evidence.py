# SPDX-License-Identifier: Apache-2.0
"""Acts on files: the evidence of an experiment in its report directory, and nobody else's files there."""

import re
from collections.abc import Iterator
from pathlib import Path

from ci_doctor.errors import UsageError
from ci_doctor.system.redaction import Redactor

SAMPLES = "samples.jsonl"
# logs/A1/vllm-1.log
_LOG = re.compile(r"[AB][0-9]+/.+-[0-9]+\.log")


def clear(directory: Path) -> None:
    """Remove what an earlier attempt left, so that it is not taken for this one's. Raises UsageError."""
    try:
        (directory / SAMPLES).unlink(missing_ok=True)
        for log in _logs(directory):
            log.unlink()
    except OSError as error:
        raise UsageError(
            f"cannot take away what an earlier run left: {error}", hint="choose another directory with --report-dir"
        ) from error


def redact_logs(directory: Path, redactor: Redactor) -> Iterator[str]:
    """Take secrets out of every log; one that they cannot be taken out of is removed, and the reason told."""
    for log in _logs(directory):
        try:
            redactor.file(log)
        except UsageError as error:
            log.unlink(missing_ok=True)
            yield f"removed {log}: {error.message}"


def _logs(directory: Path) -> list[Path]:
    return [
        log
        for log in sorted(directory.glob("logs/*/*.log"))
        if _LOG.fullmatch(f"{log.parent.name}/{log.name}") and not log.parent.is_symlink()
    ]
