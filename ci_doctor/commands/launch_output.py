# SPDX-License-Identifier: Apache-2.0
"""What `ci-doctor launch` hands over: its report, and logs without secrets."""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_doctor.commands.delivery import deliver
from ci_doctor.commands.invocation import Invocation
from ci_doctor.errors import UsageError
from ci_doctor.model.table import text_table
from ci_doctor.services.launch.launch import Plan
from ci_doctor.services.launch.launched import Launched
from ci_doctor.system.secrets.log_files import redact_file
from ci_doctor.system.secrets.redaction import Redactor

if TYPE_CHECKING:
    from ci_doctor.model.report import Report


class Job(Struct, frozen=True, kw_only=True):
    """Everything that is known before the first start."""

    plan: Plan
    codes: Mapping[str, int]
    directory: Path
    redactor: Redactor


def take_secrets_out(logs: Iterable[Path], redactor: Redactor) -> Iterator[str]:
    """Of each log; one that they cannot be taken out of is removed, and the reason told."""
    for log in logs:
        try:
            if log.exists():
                redact_file(log, redactor)
        except UsageError as error:
            log.unlink(missing_ok=True)
            yield f"removed {log}: {error.message}"


def described(
    job: Job, launched: Launched, events: Path | None, invocation: Invocation
) -> "Report":
    """What the launch means."""
    from ci_doctor.model.outcome import Attachment
    from ci_doctor.services.launch.report import report_fields
    from ci_doctor.services.launch.verdict import conclude

    conclusion = conclude(launched, job.codes)
    fields = report_fields(launched, conclusion, directory=job.directory.absolute(), cwd=Path.cwd())
    if events is not None:
        attached = Attachment(path=str(events), title="events", media_type="application/jsonl")
        fields["attachments"] = (*fields["attachments"], attached)
    return invocation.report(
        verdict=conclusion.verdict,
        exit_code=conclusion.exit_code,
        summary=conclusion.summary,
        error=conclusion.error,
        **fields,
    )


def hand_over(report: "Report", job: Job, *, as_json: bool) -> int:
    """The exit code. What was found stands, whether or not it can be shown: a full disk below stderr is not the change's."""
    try:
        return deliver(report, as_json=as_json, directory=job.directory, redactor=job.redactor)
    except BrokenPipeError:
        return report.exit_code
    except OSError:
        from ci_doctor.model.exit_code import ExitCode

        return report.exit_code or int(ExitCode.INFRA)


def refused(invocation: Invocation, code: int, message: str) -> "Report":
    """The report of a client that cannot be run, with a shell's exit status; nothing was started."""
    from ci_doctor.model.outcome import Failure

    error = Failure(message=message, hint="check the command after `--`; nothing was started")
    return invocation.report(verdict=None, error=error, exit_code=code, summary=message)


def would_do(job: Job, invocation: Invocation) -> "Report":
    """What would be started, and nothing done."""
    from ci_doctor.model.outcome import Failure

    plan = job.plan
    lines = [
        f"{name}: {shlex.join(plan.specs[name].words())}{_after(plan.specs[name].needs)}"
        for name in plan.order
    ]
    lines += [f"then: {shlex.join(plan.client)}"] if plan.client else []
    return invocation.report(
        verdict=None,
        error=Failure(message="a dry run starts nothing", hint="run it without --dry-run"),
        exit_code=0,
        summary=f"would start {', '.join(plan.order)}",
        tables=(text_table(title="Services", lines=tuple(lines)),),
    )


def _after(needs: Sequence[str]) -> str:
    return f"  (when {', '.join(needs)} is ready)" if needs else ""
