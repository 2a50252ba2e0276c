# SPDX-License-Identifier: Apache-2.0
"""What `ci-doctor import-race` does and hands over: its report, the timeline, and logs without secrets."""

import contextlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from ci_doctor.commands.delivery import deliver
from ci_doctor.commands.import_race_timeline import check_timeline, write_timeline
from ci_doctor.commands.invocation import Invocation
from ci_doctor.commands.launch_output import take_secrets_out
from ci_doctor.commands.telling.line import LineKind
from ci_doctor.commands.telling.steps import StepSource
from ci_doctor.commands.telling.teller import Teller
from ci_doctor.imports.investigate import Investigation, Plan, investigate
from ci_doctor.imports.report import conclude, findings, report
from ci_doctor.model.exit_code import ExitCode
from ci_doctor.model.verdict import exit_code
from ci_doctor.system.files.streams import open_closed_streams
from ci_doctor.system.processes.interruption import Interruption
from ci_doctor.system.secrets.redaction import Redactor

if TYPE_CHECKING:
    import signal

    from ci_doctor.model.report import Report

LOGS: Final = "import-race"  # below the report directory
_EXCERPT_LINES = 8
_EXCERPT_BYTES = 8192
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126  # as a shell has it


class Job(Struct, frozen=True, kw_only=True):
    """Everything that is known before the first start."""

    plan: Plan
    codes: Mapping[str, int]
    directory: Path | None
    timeline: Path | None
    as_json: bool


def perform(job: Job, invocation: Invocation) -> int:
    """Investigate, and deliver the report. Raises UsageError where the timeline would replace a file that is not ours."""
    if job.timeline is not None:
        check_timeline(job.timeline)
    open_closed_streams()
    redactor, interruption = Redactor.from_environment(os.environ), Interruption()
    with (
        tempfile.TemporaryDirectory(prefix="ci-doctor-import-race-") as folder,
        interruption.handling(),
    ):
        scratch = Path(folder)
        logs = scratch / "logs" if job.directory is None else job.directory.absolute() / LOGS
        try:
            with Teller(StepSource(LineKind.KEPT), redactor) as tell:
                found = investigate(job.plan, scratch, logs, interruption, tell)
                outputs = [path for run in found.runs for path in (run.output, run.error)]
                for warning in take_secrets_out(outputs, redactor):
                    tell.warn(warning)
        except OSError as error:
            if error.errno is None or error.filename != job.plan.command[0]:
                raise
            code = _NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE
            message = f"{job.plan.command[0]}: {error.strerror}"
            return deliver(
                refused(invocation, code, message), as_json=job.as_json, directory=job.directory
            )
        described = describe(job, found, interruption.received, invocation, redactor)
        return _hand_over(described, job, redactor)


def refused(invocation: Invocation, code: int, message: str) -> "Report":
    """The report of a command that cannot be run, with a shell's exit status; nothing was recorded."""
    from ci_doctor.model.outcome import Failure

    error = Failure(message=message, hint="check the command after `--`; nothing was started")
    return invocation.report(verdict=None, error=error, exit_code=code, summary=message)


def describe(
    job: Job,
    found: Investigation,
    received: "signal.Signals | None",
    invocation: Invocation,
    redactor: Redactor,
) -> "Report":
    """What the investigation means; the timeline is written on the way."""
    seen = found.seen
    excerpts = {run.number: _last_lines(run.error) for run in found.runs}
    attachments, warnings = write_timeline(
        seen.recorded.processes, job.timeline, job.directory, redactor
    )
    fields: dict[str, Any] = {
        "findings": (*findings.findings(seen, excerpts), *warnings),
        "sections": report.sections(seen),
        "facts": report.facts(seen),
        "cases": report.cases(seen),
        "attempts": report.attempts(seen, found.runs, _kept_logs(job, found)),
        "attachments": attachments,
    }
    if received is not None:
        return _interrupted(received, invocation, fields)
    conclusion = conclude.conclude(seen)
    own = exit_code(conclusion.verdict)
    return invocation.report(
        verdict=conclusion.verdict,
        exit_code=own if own == ExitCode.PASS else job.codes.get(conclusion.verdict.value, own),
        summary=conclusion.summary,
        **fields,
    )


def _kept_logs(job: Job, found: Investigation) -> dict[int, str]:
    if job.directory is None:
        return {}
    return {run.number: os.path.relpath(run.error, job.directory) for run in found.runs}


def _last_lines(path: Path) -> str:
    """The end of what a run wrote; nothing where the file is gone."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _EXCERPT_BYTES))
        lines = file.read().decode("utf-8", "replace").rstrip().splitlines()
        return "\n".join(lines[-_EXCERPT_LINES:])
    return ""


def _interrupted(
    received: "signal.Signals", invocation: Invocation, fields: dict[str, Any]
) -> "Report":
    """The report of what a signal has ended: what was seen, and no verdict."""
    import signal

    from ci_doctor.model.outcome import Failure

    message = f"interrupted by {received.name}; every process was stopped"
    code = ExitCode.SIGINT if received is signal.SIGINT else ExitCode.SIGTERM
    return invocation.report(
        verdict=None, error=Failure(message=message), exit_code=code, summary=message, **fields
    )


def _hand_over(described: "Report", job: Job, redactor: Redactor) -> int:
    """The exit code. What was found stands, whether or not it can be shown."""
    try:
        return deliver(described, as_json=job.as_json, directory=job.directory, redactor=redactor)
    except BrokenPipeError:
        raise  # the boundary knows what a reader that has left means
    except OSError:
        return described.exit_code or int(ExitCode.INFRA)
