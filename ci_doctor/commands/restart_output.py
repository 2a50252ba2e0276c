# SPDX-License-Identifier: Apache-2.0
"""What `ci-doctor restart-check` tells: lines on stderr as it goes, and its report."""

import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from ci_doctor.commands.delivery import deliver
from ci_doctor.commands.invocation import Invocation
from ci_doctor.errors import UsageError
from ci_doctor.model.exit_code import ExitCode
from ci_doctor.model.table import text_table
from ci_doctor.model.verdict import exit_code
from ci_doctor.restart.observed import Ending, Observation
from ci_doctor.restart.settings import Plan
from ci_doctor.restart.starts import StartRun
from ci_doctor.system.secrets.log_files import redact_file
from ci_doctor.system.secrets.redaction import Redactor

if TYPE_CHECKING:
    from ci_doctor.model.report import Report

_INTERRUPTIONS = {Ending.SIGINT, Ending.SIGTERM, Ending.SIGHUP, Ending.SIGQUIT}


def take_secrets_out(starts: Sequence[StartRun], redactor: Redactor) -> Iterator[str]:
    """Of every log; one that they cannot be taken out of is removed, and the reason told."""
    for log in (Path(run.log) for run in starts if run.log is not None):
        try:
            if log.exists():
                redact_file(log, redactor)
        except UsageError as error:
            log.unlink(missing_ok=True)
            yield f"removed {log}: {error.message}"


def described(
    plan: Plan,
    seen: Observation,
    starts: Sequence[StartRun],
    codes: Mapping[str, int],
    invocation: Invocation,
) -> "Report":
    """What the check means."""
    from ci_doctor.restart import describe
    from ci_doctor.restart.conclude import conclude, findings
    from ci_doctor.restart.judge import judge, was_killed

    terms, seen = _terms(plan), _shown(seen)
    promises = judge(seen, terms)
    conclusion = conclude(seen, promises, terms)
    fields: dict[str, Any] = {
        "sections": describe.sections(seen, terms),
        "facts": describe.facts(seen, promises, terms),
        "attempts": describe.attempts(starts, plan.directory),
        "attachments": describe.attachments(starts, plan.directory),
    }
    if seen.ending in _INTERRUPTIONS:
        return _interrupted(seen, invocation, fields)
    own = exit_code(conclusion.verdict)
    return invocation.report(
        verdict=conclusion.verdict,
        exit_code=own if own == ExitCode.PASS else codes.get(conclusion.verdict.value, own),
        summary=conclusion.reason,
        findings=tuple(findings(seen, promises, conclusion)),
        cases=describe.cases(promises, reached=was_killed(seen), reason=conclusion.reason),
        **fields,
    )


def _terms(plan: Plan) -> Any:
    from ci_doctor.restart.promise import Terms

    return Terms(
        kill=plan.kill,
        signal=plan.signal.name,
        request_timeout_s=plan.request_timeout_s,
        release_timeout_s=plan.release_timeout_s,
        recovery_timeout_s=plan.recovery_timeout_s,
        throughput=plan.throughput,
        same_outputs=plan.same_outputs,
    )


def _shown(seen: Observation) -> Observation:
    """With paths as a person types them."""
    failures = tuple(
        structs.replace(failure, log=os.path.relpath(failure.log)) if failure.log else failure
        for failure in seen.failures
    )
    return structs.replace(seen, failures=failures)


def _interrupted(seen: Observation, invocation: Invocation, fields: dict[str, Any]) -> "Report":
    """The report of a check that a signal ended: what was seen, and no verdict."""
    from ci_doctor.model.outcome import Failure

    left = seen.stopped.survivors if seen.stopped is not None else ()
    stopped = (
        f"could not stop {', '.join(each.name for each in left)}"
        if left
        else "every process was stopped"
    )
    message = f"interrupted by {seen.ending}; {stopped}"
    code = ExitCode.SIGINT if seen.ending is Ending.SIGINT else ExitCode.SIGTERM
    return invocation.report(
        verdict=None, error=Failure(message=message), exit_code=code, summary=message, **fields
    )


def hand_over(report: "Report", redactor: Redactor, directory: Path, *, as_json: bool) -> int:
    """The exit code. What was found stands, whether or not it can be shown: a full disk below stdout is not the change's."""
    try:
        return deliver(
            report, as_json=as_json, directory=directory, text_to=sys.stdout, redactor=redactor
        )
    except BrokenPipeError:
        raise  # the boundary knows what a reader that has left means
    except OSError:
        return report.exit_code or int(ExitCode.INFRA)


def would_do(plan: Plan, invocation: Invocation) -> "Report":
    """What would be started and killed, and nothing done."""
    from ci_doctor.model.outcome import Failure

    lines = [f"{name}: {shlex.join(plan.specs[name].words())}" for name in plan.order]
    return invocation.report(
        verdict=None,
        error=Failure(
            message="a dry run starts nothing", hint="run it without --dry-run for a verdict"
        ),
        exit_code=ExitCode.PASS,
        summary=f"would send {plan.signal.name} to {plan.kill} when {plan.kill_when_done} of {len(plan.requests)} "
        f"requests to {plan.names[-1]} are done, and start it again {plan.outage_s:g} s after its end",
        tables=(text_table(title="Services", lines=tuple(lines)),),
    )
