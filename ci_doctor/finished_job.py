# SPDX-License-Identifier: Apache-2.0
"""Acts on files: a Buildkite job whose command has ended. Says why it failed, keeps what it wrote, decides the exit status."""

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from io import FileIO
from pathlib import Path
from typing import Final

from msgspec import Struct, structs

from ci_doctor.buildkite.job import ENDED_FROM_OUTSIDE, JobEnd, explains
from ci_doctor.buildkite.rest import CommandOutput, read_log_file, request_log, without_echo
from ci_doctor.diagnosis.diagnosis import Diagnosis, diagnosis_of, load_rules, outcome_of
from ci_doctor.diagnosis.log_rules import LAST_OUTPUT, RuleSet
from ci_doctor.diagnosis.log_story import LogStory, read_story
from ci_doctor.diagnosis.log_text import LogText, clean_line
from ci_doctor.diagnosis.open_log import STANDARD_INPUT, expand, open_logs
from ci_doctor.diagnosis.outside import as_seen_here, judged
from ci_doctor.errors import CiDoctorError
from ci_doctor.model.cause import LIKELY, Cause, RetryPolicy
from ci_doctor.model.facts.diagnose import DiagnoseFacts
from ci_doctor.model.outcome import (
    Attachment,
    Evidence,
    Finding,
    Outcome,
    Report,
    Rule,
    Severity,
    Verdict,
)
from ci_doctor.model.words import parse_moment
from ci_doctor.render import REPORT_FILE
from ci_doctor.render.formatting import listed
from ci_doctor.system.files.access import write_atomically
from ci_doctor.system.secrets.redaction import Redactor, redact_files

_WORST_STATUS: Final = 255
_OF_THE_AGENT: Final = 125
# What a command judged stands, also if a script or make(1) ended with a status of its own for it.
_NO_RETRY: Final = frozenset(
    {
        Verdict.REGRESSION,
        Verdict.FAILED,
        Verdict.NONDETERMINISTIC,
        Verdict.INCONCLUSIVE,
        Verdict.VOID,
    }
)


class FailedCommand(Struct, frozen=True, kw_only=True):
    """What the decision rests on.

    end: how the job stands, with the status of its command. reports: those of ci-doctor's commands
    in this job. causes: what all diagnoses of the job name. is_named: the diagnosis of the logs at
    hand names a cause. codes: the repository's exit codes by verdict.
    """

    end: JobEnd
    reports: Sequence[Report]
    causes: Sequence[Cause]
    is_named: bool
    codes: Mapping[str, int]


class ExitDecision(Struct, frozen=True, kw_only=True):
    """`status` is the new one, None to leave it; `reason` is a sentence without a full stop."""

    status: int | None
    reason: str


def decide(failed: FailedCommand) -> ExitDecision:
    """The status to end with."""
    status = failed.end.command_status
    reason = _untouchable(failed)
    if status is None or reason is not None:
        return ExitDecision(status=None, reason=reason or "the command did not run")
    infra = failed.codes[Verdict.INFRA]
    causes = failed.causes
    if failed.is_named and causes and all(cause.may_be_retried for cause in causes):
        # What a report says no retry may hide.
        for report in failed.reports:
            if report.verdict in _NO_RETRY:
                judged = f"the verdict of `ci-doctor {report.command}` is {report.verdict}"
                return ExitDecision(status=None, reason=judged)
        cause = _named(causes[-1])
        return _changed(status, infra, f"{cause} lies outside the change, and another run helps")
    retried = {infra: "is retried", failed.codes[Verdict.NONDETERMINISTIC]: "passes as a soft fail"}
    useless = [cause for cause in causes if _lies_inside(cause)]
    if status in retried and useless:
        reason = f"{status} {retried[status]}, and that could hide {_named(useless[-1])}"
        return _changed(status, failed.codes[Verdict.FAILED], reason)
    doubt = "the logs do not prove that the cause lies outside the change"
    if not failed.is_named:
        doubt = "no cause is named"
    elif any(cause.retry == RetryPolicy.NO for cause in causes):
        doubt = "no log shows that another run helps"
    return ExitDecision(status=None, reason=doubt)


def _untouchable(failed: FailedCommand) -> str | None:
    """Why the status is not ours to change; None if it may be."""
    end = failed.end
    if end.is_cancelled or end.is_timed_out:
        return "the job was cancelled, or timed out"
    status = end.command_status
    if not status:
        return "the command did not fail"
    for report in failed.reports:
        if explains(report, status):
            return f"`ci-doctor {report.command}` ended with it"
    if status in ENDED_FROM_OUTSIDE:
        return "a signal or a time limit ended the command, and no log says why"
    return None


def _lies_inside(cause: Cause) -> bool:
    """Whether a cause asks for no other run; last words that no rule knows are no proof."""
    if cause.rule == LAST_OUTPUT.id:
        return False
    is_inside = cause.retry == RetryPolicy.NO or cause.is_of_test
    return is_inside and not cause.is_outside and (cause.confidence or 0.0) >= LIKELY


def _named(cause: Cause) -> str:
    return f"the cause ({cause.title}, {cause.where})"


def _changed(status: int, new: int, reason: str) -> ExitDecision:
    if new == status:
        return ExitDecision(status=None, reason=f"it is the code already: {reason}")
    if not 1 <= new <= _WORST_STATUS or new == _OF_THE_AGENT:
        return ExitDecision(status=None, reason=f"{new} is no exit code for it")
    return ExitDecision(status=new, reason=reason)


# --- what a failed command has left: why it failed, and what is kept ---


OLDER_LOG: Final = Rule(
    id="finished-job/older-log",
    severity=Severity.NOTE,
    meaning="A log that the plugin's option `diagnose` names was written before the job began: an "
    "earlier job left it in the same checkout. It says nothing about this job and is not read.",
    remedy="Write the logs to a folder of their own for each job, or let the agent clean the "
    "checkout (`BUILDKITE_GIT_CLEAN_FLAGS`).",
)
UNDATED_LOG: Final = Rule(
    id="finished-job/undated-log",
    severity=Severity.NOTE,
    meaning="Nobody kept when the job began, so a log that the option `diagnose` names may be an "
    "earlier job's. It is read, and changes no exit code.",
    remedy="Let `pre-command` and `post-command` see the same report directory, on a disk that they "
    "can write.",
)
NO_OUTPUT: Final = Rule(
    id="finished-job/no-output",
    severity=Severity.NOTE,
    meaning="What the command itself wrote could not be read: a hook does not see the job's log. "
    "The diagnosis rests on the logs that are named. They ask for no other run, since the job's log may "
    "hold a failure of the change.",
    remedy="Start the agent with `enable-job-log-tmpfile`, give the job a BUILDKITE_API_TOKEN with the "
    "scope `read_build_logs`, or run the command by `ci-doctor run --diagnose -- CMD`.",
)

RULES: Final = (OLDER_LOG, UNDATED_LOG, NO_OUTPUT)


REPORT_NAME = "diagnose"
# A file system keeps times more coarsely than the clock tells them.
_TOLERANCE_S = 2.0


class LogsOfJob(Struct, kw_only=True):
    """The logs to read.

    names: paths to open. missing: from names and patterns behind which there is nothing to a
    reason: nobody wrote there. unusable: from logs that may hold the cause and are not read to a
    reason. in_part: from patterns of which not all is read to a reason. older: logs that an earlier
    job has left. undated: those of `names` of which nobody knows whether they are older.
    """

    names: list[str] = []
    missing: dict[str, str] = {}
    unusable: dict[str, str] = {}
    in_part: dict[str, str] = {}
    older: list[str] = []
    undated: list[str] = []

    @property
    def is_whole(self) -> bool:
        """Whether all that may hold the cause is to be read, and is this job's."""
        return not self.unusable and not self.in_part and not self.undated


def logs_of_job(
    named: Sequence[str], root: Path, reports: Sequence[tuple[Path, Report]], began_at: str | None
) -> LogsOfJob:
    """The logs that `named` means, and those that commands of ci-doctor left below `root`.

    named: paths and patterns, relative to the working directory. began_at: RFC 3339; None, or text
    that is no time, if nobody knows when the job began; then no log can be told from an earlier job's.
    """
    own = list(_own_logs(root, reports))
    # A log called `-` is a file, and not standard input, at which a hook would wait.
    asked = [f"./{name}" if name == STANDARD_INPUT else name for name in named]
    expanded = expand([*asked, *own])
    logs = LogsOfJob(
        missing=dict(expanded.unreadable),
        unusable=dict(expanded.skipped),
        in_part=dict(expanded.limited),
    )
    began = parse_moment(began_at)
    for name in expanded.names:
        _add(logs, name, began, root.absolute())
    return logs


def _add(logs: LogsOfJob, name: str, began: float | None, root: Path) -> None:
    """Take in the file `name` by what can be said of it before it is read."""
    path = Path(name).absolute()
    below = path.relative_to(root).parts if path.is_relative_to(root) else ()
    # What an earlier hook of this job quotes is no new evidence.
    if any(part.startswith(REPORT_NAME) for part in below):
        return
    try:
        status = os.stat(name)  # noqa: PTH116 an odd name stays as it is
    except OSError as error:
        logs.unusable[name] = error.strerror or str(error)
        return
    if not stat.S_ISREG(status.st_mode):
        logs.unusable[name] = "not a regular file"
    elif status.st_size == 0:
        logs.missing[name] = "empty"
    elif began is not None and status.st_mtime < began - _TOLERANCE_S:
        logs.older.append(name)
    else:
        logs.names.append(name)
        # Below the root lies nothing but this job's.
        if began is None and not below:
            logs.undated.append(name)


def _own_logs(root: Path, reports: Sequence[tuple[Path, Report]]) -> Iterator[str]:
    """The logs of the commands of ci-doctor that did not end with 0, or not with a report."""
    ended_well = {folder for folder, report in reports if report.exit_code == 0}
    try:
        folders = sorted(root.iterdir())
    except OSError:
        return
    for folder in folders:
        if folder.name.startswith((".", REPORT_NAME)) or folder in ended_well:
            continue
        if folder.is_dir() and not folder.is_symlink():
            yield from expand([str(folder)]).names


# What the command wrote is called so, in the report and beside it.
OUTPUT_NAME = "output.log"
# Where a command that fails says why; of these lines, those that the agent prints around it.
_LAST_LINES = 60
# From the last line of a log to the end of the command. Later, something else ran and failed.
_MOST_SECONDS_AFTER = 10.0
_OF_AGENT = re.compile(r"\$ |.{0,80}The command (?:exited|was interrupted)|\^\^\^ \+\+\+")


def diagnose_job(
    logs: LogsOfJob,
    output: CommandOutput | None,
    rules: RuleSet,
    ended_at: float,
    status: int | None = None,
) -> Diagnosis:
    """The diagnosis of `logs`, and of what the command wrote if that is known.

    Its cause is final only if nothing else can have ended the command: all evidence was read whole,
    also the command's own output, and a log beside it ends with the cause. A server may survive a full
    disk, a script a failed download, and the job then fails by the change. ended_at: when the command
    ended, seconds since 1970. status: the command's, None if nobody knows.
    """
    with ExitStack() as stack:
        unusable = dict(logs.unusable)
        opened = _opened(logs.names, output, stack, unusable)
        stories = [read_story(log, index, rules) for index, log in enumerate(opened)]
        diagnosis = diagnosis_of(stories, opened, status=status)
        damaged = {log.name: log.problem for log in opened if log.problem}
        if output is not None and output.problem is not None:
            damaged[OUTPUT_NAME] = output.problem
        in_part = {**logs.in_part, **damaged}
        cause = diagnosis.cause
        if cause is not None and cause.is_final:
            is_whole = logs.is_whole and not unusable and not in_part
            is_final = (
                is_whole and output is not None and _ended_command(cause, stories, opened, ended_at)
            )
            cause = as_seen_here(judged(cause, is_outside=cause.is_outside, is_final=is_final))
    return structs.replace(
        diagnosis, cause=cause, unreadable={**logs.missing, **unusable}, in_part=in_part
    )


def _opened(
    names: Sequence[str],
    output: CommandOutput | None,
    stack: ExitStack,
    unusable: dict[str, str],
) -> list[LogText]:
    opened = []
    if output is not None and output.content.strip():
        # In memory, since the disk may be what is full.
        file = stack.enter_context(FileIO(os.memfd_create("output"), "r+b"))
        file.write(output.content)
        opened.append(LogText(OUTPUT_NAME, file, len(output.content)))
    for name in names:
        try:
            logs, missing = stack.enter_context(open_logs(name))
            opened.extend(logs)
            unusable.update(missing)
        except OSError as error:
            unusable[name] = error.strerror or str(error)
    return opened


def _ended_command(
    cause: Cause, stories: Sequence[LogStory], opened: Sequence[LogText], ended_at: float
) -> bool:
    """Whether the command ended by `cause`, as far as the log tells in which it stands."""
    # Of the command's own output its rank has told that already.
    if cause.place.file == OUTPUT_NAME:
        return True
    # What a silent script has survived did not end it.
    if not _ended_with_log(Path(cause.place.file), ended_at):
        return False
    # It wrote nothing beside that log.
    if all(log.name != OUTPUT_NAME for log in opened):
        return True
    # What stands in words that no rule knows may be the change's fault.
    if any(each.rule.id != LAST_OUTPUT.id for each in stories[0].candidates):
        return True
    # Without the agent's times.
    lines = [clean_line(line.content).message for line in opened[0].tail(_LAST_LINES)]
    return not any(line.strip() and not _OF_AGENT.match(line) for line in lines)


# Nobody else reads it before its secrets are out.
_PRIVATE = 0o600
_PUBLIC = 0o644


def keep_output(directory: Path, output: bytes, redactor: "Redactor") -> bool:
    """Write `output` without secrets to output.log in `directory`; False if that failed."""
    path = directory / OUTPUT_NAME
    try:
        write_atomically(path, output, mode=_PRIVATE)
        if redact_files([path], redactor):
            return False
        path.chmod(_PUBLIC)
    except (CiDoctorError, OSError):
        path.unlink(missing_ok=True)
        return False
    return True


def _ended_with_log(log: Path, ended_at: float) -> bool:
    """Whether the command ended as soon as its log did."""
    try:
        return ended_at - log.stat().st_mtime <= _MOST_SECONDS_AFTER
    except OSError:
        return False


# From the end of a run to our hook. What failed later, failed by itself.
_JUST_NOW_S = 5.0
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
    def facts(self) -> DiagnoseFacts | None:
        """What the logs say."""
        facts = None if self.outcome is None else self.outcome.facts
        return facts if isinstance(facts, DiagnoseFacts) else None


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
            command = request.environ.get("BUILDKITE_COMMAND", "")
            return without_echo(output, command), tuple(notes)
        if output is not None:
            notes.append(output)
    return _kept_output(request), tuple(notes)


def _kept_output(request: AfterCommandRequest) -> CommandOutput | None:
    """What `ci-doctor run` has kept of the command that ended the job: with its status, and just now."""
    for folder, report in request.reports:
        log = folder / "command.log"
        if report.command != "run" or report.exit_code != request.status:
            continue
        try:
            written = (folder / REPORT_FILE).stat().st_mtime
            if request.ended_at - written <= _JUST_NOW_S:
                return CommandOutput(content=log.read_bytes())
        except OSError:
            continue
    return None


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
