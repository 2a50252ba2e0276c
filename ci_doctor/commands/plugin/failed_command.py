# SPDX-License-Identifier: Apache-2.0
"""Acts on the job's report directory: a failed command is diagnosed, once for the same options."""

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.buildkite.hook_record import (
    HookStep,
    began_at,
    done_with,
    keep_command_status,
    keep_done,
)
from ci_doctor.buildkite.job import JobEnd, explains
from ci_doctor.buildkite.plugin import (
    REPORT_DIR_VARIABLE,
    PluginOptions,
    named_logs,
    options_and_problem,
    report_root,
)
from ci_doctor.commands.plugin.configured_codes import ConfiguredCodes, read_codes
from ci_doctor.commands.plugin.harmless import say
from ci_doctor.errors import CiDoctorError
from ci_doctor.finished_job.after_command import (
    REPORT_NAME,
    AfterCommandRequest,
    Explained,
    explain_command,
    keep_output,
)
from ci_doctor.finished_job.exit_decision import FailedCommand, decide
from ci_doctor.model.cause import Cause
from ci_doctor.model.report import Report
from ci_doctor.model.report_cause import diagnosed_causes
from ci_doctor.session.invocation import Invocation
from ci_doctor.session.session import Session
from ci_doctor.session.written import read_reports
from ci_doctor.system import clock


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
    _go_to_checkout()
    reports = tuple(read_reports((root,), []))
    named = named_logs(options, os.environ)
    job = _PluginJob(options=options, named=named, root=root, end=end, reports=reports)
    configured = read_codes(options.config, os.environ)
    if configured.problem is not None:
        say(configured.problem)
    causes = list(diagnosed_causes([report for _, report in reports]))
    is_named = bool(_of_hooks(reports))
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


def _go_to_checkout() -> None:
    """What the option `diagnose` names is relative to it; a hook or the command may have left it."""
    checkout = os.environ.get("BUILDKITE_BUILD_CHECKOUT_PATH")
    if checkout:
        with contextlib.suppress(OSError):
            os.chdir(checkout)


def _of_hooks(reports: Sequence[tuple[Path, Report]]) -> list[Cause]:
    """The causes that hooks of this job have named before."""
    own = [report for _, report in reports if report.command == REPORT_NAME]
    return list(diagnosed_causes(own))


def _explain(session: Session, job: _PluginJob, configured: ConfiguredCodes) -> Cause | None:
    """Diagnose, and report it; what cannot be written is printed all the same."""
    request = AfterCommandRequest(
        named=job.named,
        root=job.root,
        environ=os.environ,
        reports=job.reports,
        began_at=began_at(job.root),
        ended_at=clock.epoch(),
        status=_status_of_command(job.end),
        rules=configured.rules,
        # What an earlier hook of ours has printed stands in the job's log by now.
        wants_output=not done_with(job.root, HookStep.DIAGNOSED),
    )
    explained = explain_command(request)
    for note in explained.notes:
        say(note)
    _report(session, job, explained, configured)
    keep_done(job.root, HookStep.DIAGNOSED, job.words)
    return None if explained.facts is None else explained.facts.root_cause


def _status_of_command(end: JobEnd) -> int | None:
    """The status of the command that failed; None if a hook did, and for the agent's -1."""
    status = end.command_status
    return status if status is not None and status > 0 else None


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
        say(f"{error.message}; the diagnosis is printed alone")
        directory = None
    outcome = explained.outcome
    is_kept = False
    if directory is not None and explained.output is not None:
        is_kept = keep_output(directory, explained.output, session.redactor)
    if not is_kept:
        outcome = replace(outcome, attachments=())
    # A job that timed out has a few seconds left, and they belong to its report.
    if configured.loaded is not None and not job.end.is_timed_out:
        from ci_doctor.commands.history_database import with_history

        outcome = with_history(session, configured.loaded, outcome)
    session.finish(outcome)


def _decided(failed: FailedCommand) -> int | None:
    """The decision's status, said in one line."""
    status = failed.end.command_status
    decision = decide(failed)
    if decision.status is None:
        say(f"the command's status {status} stays: {decision.reason}")
    else:
        say(f"the command's status {status} becomes {decision.status}: {decision.reason}")
    return decision.status
