# SPDX-License-Identifier: Apache-2.0
"""Acts on processes and files: investigates import races, from the command to the outcome."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from ci_doctor.imports.baseline_file import BaselineUpdate, update_baseline
from ci_doctor.imports.confirm.run import HeldRun
from ci_doctor.imports.investigate import RaceRequest, investigate
from ci_doctor.imports.report.outcome import interrupted, race_outcome
from ci_doctor.imports.report.timeline_file import check_timeline, write_timeline
from ci_doctor.model.outcome import Failure, Outcome
from ci_doctor.system.files.opening import open_closed_streams
from ci_doctor.system.files.own_directory import own_directory
from ci_doctor.system.processes.interruption import Interruption
from ci_doctor.system.secrets.log_files import redact_files
from ci_doctor.system.secrets.redaction import Redactor

LOGS = "import-race"  # the folder in the report directory
# The end of a traceback; a program that hangs may have written gigabytes before.
_EXCERPT_LINES = 8
_EXCERPT_BYTES = 8192
# The exit status of a shell for a command that it cannot run.
_NOT_FOUND = 127
_NOT_EXECUTABLE = 126


def run(
    request: RaceRequest,
    *,
    directory: Path | None,
    redactor: Redactor,
    interruption: Interruption | None = None,
    timeline: Path | None = None,
    on_event: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Record `request.command`, find its import races and, on request, confirm them.

    The output of runs with a delay goes into the folder `import-race` of the report directory
    `directory`; without one it is dropped. The imports by thread go to the file `timeline`, else to
    `imports.json` in `directory`, else in the working directory. `on_event` gets a sentence before
    each run with a delay, and each warning. `interruption` must be handling signals: the first one
    ends the command and everything below it. Raises UsageError if `timeline` exists and is not a
    timeline of ci-doctor, InfraError if the command cannot be supervised.
    """
    if timeline is not None:
        check_timeline(timeline)
    open_closed_streams()
    interruption = interruption or Interruption()
    with own_directory("import-race") as folder:
        scratch = Path(folder)
        logs = scratch / "logs"
        if directory is not None:
            logs = directory.absolute() / LOGS
        try:
            investigation = investigate(request, scratch, logs, interruption, on_event)
        except OSError as error:
            # Only an error about the command itself: any other is one of ours.
            if error.errno is None or error.filename != request.command[0]:
                raise
            return not_run(_shell_status(error), f"{request.command[0]}: {error.strerror}")
        _redact(investigation.runs, redactor, on_event)
        excerpts = _excerpts(investigation.runs)
    kept_logs = _kept_logs(investigation.runs, directory)
    update = BaselineUpdate(investigation=investigation)
    if request.updated_baseline is not None:
        update = update_baseline(request.updated_baseline, investigation)
        investigation = update.investigation
    outcome = race_outcome(investigation, excerpts, kept_logs)
    written = write_timeline(investigation.recorded.processes, timeline, directory, redactor)
    outcome = replace(
        outcome,
        findings=(*outcome.findings, *update.findings, *written.findings),
        attachments=written.attachments,
    )
    if interruption.received is not None:
        return interrupted(outcome, interruption.received)
    return outcome


def _shell_status(error: OSError) -> int:
    if isinstance(error, FileNotFoundError):
        return _NOT_FOUND
    return _NOT_EXECUTABLE


def not_run(status: int, message: str) -> Outcome:
    """The outcome of a command that cannot be run; `status` is the exit status of a shell."""
    error = Failure(message=message, hint="check the command after `--`; nothing was started")
    return Outcome(verdict=None, summary=message, error=error, command_status=status)


def _redact(runs: tuple[HeldRun, ...], redactor: Redactor, on_event: Callable[[str], None]) -> None:
    """Take secrets out of what the runs printed, before anything is quoted or uploaded."""
    files: list[Path] = []
    for held in runs:
        files += (held.output, held.error)
    for warning in redact_files(files, redactor):
        on_event(f"warning: {warning}")


def _kept_logs(runs: tuple[HeldRun, ...], directory: Path | None) -> dict[int, str]:
    if directory is None:
        return {}
    paths = {}
    for held in runs:
        paths[held.number] = os.path.relpath(held.error, directory)
    return paths


def _excerpts(runs: tuple[HeldRun, ...]) -> dict[int, str]:
    excerpts = {}
    for held in runs:
        excerpts[held.number] = _last_lines(held.error)
    return excerpts


def _last_lines(path: Path) -> str:
    """The end of what a run wrote; empty if the file is gone."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _EXCERPT_BYTES))
        # The first character may be cut in two there.
        text = file.read().decode("utf-8", "replace")
        lines = text.rstrip().splitlines()
        return "\n".join(lines[-_EXCERPT_LINES:])
    return ""
