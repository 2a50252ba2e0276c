# SPDX-License-Identifier: Apache-2.0
"""Reads what a failed command has left, and says why it failed.

Looks at the logs that are named, at those of ci-doctor's own commands, and at the command's output
if the agent gives it.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, structs

from ci_doctor.buildkite.job_log import CommandOutput
from ci_doctor.buildkite.job_log_file import read_log_file
from ci_doctor.buildkite.job_log_request import request_log
from ci_doctor.diagnosis.diagnosis import load_rules
from ci_doctor.diagnosis.outcome import outcome_of
from ci_doctor.finished_job.diagnose_job import OUTPUT_NAME, diagnose_job
from ci_doctor.finished_job.logs_of_job import LogsOfJob, logs_of_job
from ci_doctor.finished_job.rules import NO_OUTPUT, OLDER_LOG, UNDATED_LOG
from ci_doctor.model.cause import Cause
from ci_doctor.model.facts.diagnose import DiagnoseFacts
from ci_doctor.model.finding import Evidence, Finding
from ci_doctor.model.outcome import Attachment, Outcome
from ci_doctor.model.report import Report
from ci_doctor.render.formatting import listed

_MOST_NAMED = 10
HOW_TO_GIVE_LOGS = (
    'no log of the failed command is at hand: name its logs by the option `diagnose: ["*.log"]`, '
    "or run it by `ci-doctor run --diagnose -- CMD`"
)


class AfterCommandRequest(Struct, frozen=True, kw_only=True):
    """What is known of the job.

    named: the option `diagnose`. root: the job's report directory, with `reports` below it.
    began_at: RFC 3339, None if nobody knows. ended_at: when the command ended, seconds since 1970.
    status: the command's, None if nobody knows.
    rules: a repository's own files. wants_output: the command's own output is to be read, too.
    """

    named: tuple[str, ...]
    root: Path
    environ: Mapping[str, str]
    reports: Sequence[tuple[Path, Report]]
    began_at: str | None
    ended_at: float
    status: int | None = None
    rules: tuple[Path, ...] = ()
    wants_output: bool = True


class Explained(Struct, frozen=True, kw_only=True):
    """`outcome` is None if there was nothing to read, and `notes` are sentences about it.

    output: what the command wrote, if that is known.
    """

    outcome: Outcome | None
    notes: tuple[str, ...] = ()
    output: bytes | None = None

    @property
    def logs(self) -> tuple[str, ...]:
        """The logs that were read."""
        if self.outcome is None or not isinstance(self.outcome.facts, DiagnoseFacts):
            return ()
        return self.outcome.facts.logs

    @property
    def root_cause(self) -> Cause | None:
        """What the logs name."""
        if self.outcome is None or not isinstance(self.outcome.facts, DiagnoseFacts):
            return None
        return self.outcome.facts.root_cause


def explain_command(request: AfterCommandRequest) -> Explained:
    """Diagnose the failed command. Raises ConfigError if a rules file has a mistake."""
    logs = logs_of_job(request.named, request.root, request.reports, request.began_at)
    output, notes = _output(request)
    has_output = output is not None and bool(output.content.strip())
    if not logs.names and not logs.unusable and not has_output:
        return Explained(outcome=None, notes=(*notes, *_nothing(request, logs)))
    diagnosis = diagnose_job(
        logs, output, load_rules(request.rules), request.ended_at, request.status
    )
    outcome = outcome_of(diagnosis)
    findings = (*outcome.findings, *_findings(request, logs, has_output=has_output))
    attachments: tuple[Attachment, ...] = ()
    if has_output:
        attachments = (Attachment(path=OUTPUT_NAME, title="what the command wrote"),)
    return Explained(
        outcome=structs.replace(outcome, findings=findings, attachments=attachments),
        notes=notes,
        output=output.content if output is not None and has_output else None,
    )


def _output(request: AfterCommandRequest) -> tuple[CommandOutput | None, tuple[str, ...]]:
    """What the command wrote, and sentences on the ways in which it could not be read."""
    if not request.wants_output:
        return None, ()
    notes: list[str] = []
    for read in (read_log_file, request_log):
        output = read(request.environ)
        if isinstance(output, CommandOutput):
            return output, tuple(notes)
        if output is not None:
            notes.append(output)
    return None, tuple(notes)


def _nothing(request: AfterCommandRequest, logs: LogsOfJob) -> Iterator[str]:
    """Why there is nothing to read."""
    if logs.older:
        yield f"{listed(logs.older, _MOST_NAMED)}: left by an earlier job, and not read"
    missing = [f"{name} ({reason})" for name, reason in logs.missing.items()]
    if missing:
        yield f"there is nothing to read: {listed(missing, _MOST_NAMED)}"
    if not request.named:
        yield HOW_TO_GIVE_LOGS


def _findings(
    request: AfterCommandRequest, logs: LogsOfJob, *, has_output: bool
) -> Iterator[Finding]:
    if logs.older:
        summary = f"older than this job, and not read: {listed(logs.older, _MOST_NAMED)}"
        yield OLDER_LOG.finding(summary, evidence=_files(logs.older), remedy=OLDER_LOG.remedy)
    if logs.undated:
        summary = f"perhaps older than this job: {listed(logs.undated, _MOST_NAMED)}"
        yield UNDATED_LOG.finding(summary, evidence=_files(logs.undated), remedy=UNDATED_LOG.remedy)
    if request.wants_output and not has_output and not _kept_by_us(logs, request.root):
        summary = "what the command itself wrote is not known here"
        yield NO_OUTPUT.finding(summary, remedy=NO_OUTPUT.remedy)


def _files(names: Sequence[str]) -> tuple[Evidence, ...]:
    return tuple(Evidence(file=name) for name in names[:_MOST_NAMED])


def _kept_by_us(logs: LogsOfJob, root: Path) -> bool:
    """Whether `ci-doctor run` has kept what a command wrote."""
    inside = (Path(name) for name in logs.names if Path(name).is_relative_to(root))
    return any(path.name == "command.log" for path in inside)
