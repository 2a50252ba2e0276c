# SPDX-License-Identifier: Apache-2.0
"""Acts on the job's report directory: a failed command is diagnosed, and the job's record is written."""

import contextlib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.buildkite.job import JobEnd, JobEnvironment, explains, work_of
from ci_doctor.buildkite.plugin import (
    REPORT_DIR_VARIABLE,
    HookStep,
    PluginOptions,
    began_at,
    command_status,
    done_with,
    keep_command_status,
    keep_done,
    named_logs,
    options_and_problem,
    report_root,
)
from ci_doctor.errors import CiDoctorError, ConfigError
from ci_doctor.finished_job import (
    REPORT_NAME,
    AfterCommandRequest,
    Explained,
    FailedCommand,
    decide,
    explain_command,
    keep_output,
)
from ci_doctor.model.cause import Cause, diagnosed_causes
from ci_doctor.model.facts.build import JOB_FILE, SCHEMA, JobRecord
from ci_doctor.model.outcome import About, Report
from ci_doctor.session.delivery import read_about, read_reports, working_directory
from ci_doctor.session.invocation import Invocation
from ci_doctor.session.printing import say_line
from ci_doctor.session.publishing import FinishedJob, record_of
from ci_doctor.session.session import Session
from ci_doctor.system import clock
from ci_doctor.system.files.access import write_atomically
from ci_doctor.system.secrets.redaction import Redactor

if TYPE_CHECKING:
    from ci_doctor.config.loading import Config


class ConfiguredCodes(Struct, frozen=True, kw_only=True):
    """`codes` by verdict and all that is `loaded`; None if it is broken: then `problem` says so."""

    codes: Mapping[str, int] | None = None
    loaded: "Config | None" = None
    rules: tuple[Path, ...] = ()
    problem: str | None = None


def read_codes(config: str | None, environ: Mapping[str, str]) -> ConfiguredCodes:
    """What the file `config` says, or the one that is found from the working directory."""
    from ci_doctor.commands.diagnose import rule_files
    from ci_doctor.config.decoding import read_exit_codes
    from ci_doctor.config.loading import load_config
    from ci_doctor.diagnosis.diagnosis import load_rules

    try:
        loaded = load_config(Path(config) if config else None, Path.cwd())
        rules = rule_files(loaded, environ)
        # A broken rule is one that may hide the cause.
        load_rules(rules)
        codes, _ = read_exit_codes(loaded, environ)
    except ConfigError as error:
        return ConfiguredCodes(problem=f"{error.message}; no status is changed")
    return ConfiguredCodes(codes=codes, loaded=loaded, rules=rules)


class _PluginJob(Struct, frozen=True, kw_only=True):
    """The plugin in its job, as one entry of the step configures it.

    named: the logs that the step names.
    """

    options: PluginOptions
    named: tuple[str, ...]
    root: Path
    end: JobEnd
    reports: tuple[tuple[Path, Report], ...]

    @property
    def words(self) -> list[str]:
        """What makes one diagnosis different from another."""
        return [*self.named, "--config", self.options.config or ""]

    def wants_diagnosis(self) -> bool:
        """Whether there may be more to say than is said already."""
        if self.words in done_with(self.root, HookStep.DIAGNOSED):
            return False
        if self.named:
            return True
        status = self.end.command_status or 0
        is_explained = any(explains(report, status) for _, report in self.reports)
        return not is_explained and not done_with(self.root, HookStep.DIAGNOSED)


def status_of(session: Session, end: JobEnd) -> int | None:
    """Explain the failed command on stderr, and return the status to end with; None to leave it."""
    options, _ = options_and_problem(os.environ)
    root = report_root(options, os.environ)
    keep_command_status(root, end.command_status or 0)
    # What the option `diagnose` names is relative to it; a hook or the command may have left it.
    checkout = os.environ.get("BUILDKITE_BUILD_CHECKOUT_PATH")
    if checkout:
        with contextlib.suppress(OSError):
            os.chdir(checkout)
    reports = tuple(read_reports((root,), []))
    named = named_logs(options, os.environ)
    job = _PluginJob(options=options, named=named, root=root, end=end, reports=reports)
    configured = read_codes(options.config, os.environ)
    if configured.problem is not None:
        say_line(configured.problem)
    causes = list(diagnosed_causes([report for _, report in reports]))
    # By hooks of this job before this one.
    own = [report for _, report in reports if report.command == REPORT_NAME]
    is_named = any(diagnosed_causes(own))
    if job.wants_diagnosis():
        cause = _explain(session, job, configured)
        is_named = cause is not None
        causes += [cause] if cause is not None else []
    if not options.exit_codes or configured.codes is None:
        return None
    failed = FailedCommand(
        end=end,
        reports=[report for _, report in reports],
        causes=causes,
        is_named=is_named,
        codes=configured.codes,
    )
    return _decided(failed)


def _explain(session: Session, job: _PluginJob, configured: ConfiguredCodes) -> Cause | None:
    """Diagnose, and report it; what cannot be written is printed all the same."""
    status = job.end.command_status
    request = AfterCommandRequest(
        named=job.named,
        root=job.root,
        environ=os.environ,
        reports=job.reports,
        began_at=began_at(job.root),
        ended_at=clock.epoch(),
        # None if a hook failed, and for the agent's -1.
        status=status if status is not None and status > 0 else None,
        rules=configured.rules,
        # What an earlier hook of ours has printed stands in the job's log by now.
        wants_output=not done_with(job.root, HookStep.DIAGNOSED),
    )
    explained = explain_command(request)
    for note in explained.notes:
        say_line(note)
    _report(session, job, explained, configured)
    keep_done(job.root, HookStep.DIAGNOSED, job.words)
    return None if explained.facts is None else explained.facts.root_cause


def _report(
    session: Session, job: _PluginJob, explained: Explained, configured: ConfiguredCodes
) -> None:
    if explained.outcome is None:
        return
    os.environ[REPORT_DIR_VARIABLE] = str(job.root)
    session.invocation = Invocation.begin(
        [REPORT_NAME, *(explained.facts.logs if explained.facts else ())]
    )
    try:
        directory = session.claim()
    except CiDoctorError as error:
        say_line(f"{error.message}; the diagnosis is printed alone")
        directory = None
    outcome = explained.outcome
    is_kept = False
    if directory is not None and explained.output is not None:
        is_kept = keep_output(directory, explained.output, session.redactor)
    if not is_kept:
        outcome = replace(outcome, attachments=())
    # A job that timed out has a few seconds left, and they belong to its report.
    if configured.loaded is not None and not job.end.is_timed_out:
        from ci_doctor.commands.run_record import with_history

        outcome = with_history(session, configured.loaded, outcome)
    session.finish(outcome)


def _decided(failed: FailedCommand) -> int | None:
    """The decision's status, said in one line."""
    status = failed.end.command_status
    decision = decide(failed)
    what = "stays" if decision.status is None else f"becomes {decision.status}"
    say_line(f"the command's status {status} {what}: {decision.reason}")
    return decision.status


# Of hooks/post-command, if it changes the status.
_STATUS_VARIABLE = "CI_DOCTOR_COMMAND_STATUS"


def kept_record(
    root: Path, reports: Sequence[tuple[Path, Report]], problems: list[str]
) -> JobRecord | None:
    """The job's record without secrets, written to `root`; a line in `problems` if that failed.

    None outside a job.
    """
    job = JobEnvironment.from_environ(os.environ)
    if job is None:
        return None
    job = msgspec.structs.replace(job, work=work_of(os.environ))
    finished = FinishedJob(
        job=job,
        about=_about(job, reports),
        end=JobEnd.from_environ(os.environ),
        root=root,
        reports=reports,
        command_status=_command_status(root),
        began_at=began_at(root),
        ended_at=clock.timestamp(),
    )
    hidden: JobRecord = Redactor.from_environment(os.environ).value(record_of(finished))
    # It is no text: a secret that is a part of it would leave a record that nobody reads.
    record = msgspec.structs.replace(hidden, schema=SCHEMA)
    try:
        content = msgspec.json.format(msgspec.json.encode(record), indent=1)
        write_atomically(root / JOB_FILE, content + b"\n")
    except CiDoctorError as error:
        problems.append(f"{error.message}; the report of the build lacks this job")
    return record


def _command_status(root: Path) -> int | None:
    """How the command ended; None if no hook has kept it."""
    kept = command_status(root)
    exported = os.environ.get(_STATUS_VARIABLE, "")
    if kept is None and re.fullmatch(r"-?[0-9]{1,3}", exported):
        return int(exported)
    return kept


def _about(job: JobEnvironment, reports: Sequence[tuple[Path, Report]]) -> About:
    """The build and the job, from a report if there is one: it has asked git already."""
    for _, report in reports:
        if report.about.job == job.job_id:
            return report.about
    return read_about(os.environ, working_directory())
