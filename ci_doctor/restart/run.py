# SPDX-License-Identifier: Apache-2.0
"""Acts on processes and files: a restart check from its plan to its outcome."""

import contextlib
import shlex
from collections.abc import Callable
from pathlib import Path

from ci_doctor.model.outcome import Outcome
from ci_doctor.model.table import Table, row
from ci_doctor.render.formatting import amount
from ci_doctor.restart.describe import outcome_of
from ci_doctor.restart.experiment import control_logs, observe
from ci_doctor.restart.notes import RestartProgress
from ci_doctor.restart.observed import Phase
from ci_doctor.restart.promise import Terms
from ci_doctor.restart.settings import RestartPlan
from ci_doctor.restart.starts import Starts
from ci_doctor.restart.writes import logs_of
from ci_doctor.system.processes.interruption import Interruption
from ci_doctor.system.secrets.log_files import redact_files
from ci_doctor.system.secrets.redaction import Redactor


def run(
    plan: RestartPlan,
    *,
    redactor: Redactor,
    interruption: Interruption | None = None,
    on_progress: Callable[[RestartProgress], None] = lambda _: None,
    on_warning: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Kill the service under load, start it again, check what was promised, and judge.

    No process is left, however it ends. Logs lie in `plan.directory`/logs, without the secrets that
    `redactor` knows. `interruption` is handling signals already; without one, signals are handled
    here. Raises UsageError and InfraError as `start_group` and `ask` do.
    """
    starts = Starts()

    def note(progress: RestartProgress) -> None:
        if progress.event is not None and progress.phase is not Phase.CONTROL:
            starts.add(progress.event)
        on_progress(progress)

    with contextlib.ExitStack() as stack:
        if interruption is None:
            interruption = Interruption()
            stack.enter_context(interruption.handling())
        try:
            observation = observe(plan, interruption, note)
        finally:  # whatever has ended it
            logs = [Path(start.log) for start in starts.runs if start.log is not None]
            logs += [*control_logs(plan), *logs_of(plan)]
            for warning in redact_files(logs, redactor):
                on_warning(warning)
    return outcome_of(
        observation, terms_of(plan), starts.runs, directory=plan.directory, cwd=Path.cwd()
    )


def terms_of(plan: RestartPlan) -> Terms:
    """What the plan promises."""
    return Terms(
        kill=plan.kill,
        signal=plan.signal.name,
        request_timeout_s=plan.request_timeout_s,
        release_timeout_s=plan.release_timeout_s,
        recovery_timeout_s=plan.recovery_timeout_s,
        throughput=plan.throughput,
        same_outputs=plan.same_outputs,
        control_starts=plan.control_starts,
        acknowledged=plan.acknowledged if plan.load else 0,
    )


def would_do(plan: RestartPlan) -> Outcome:
    """What would be started and killed, and nothing done."""
    rows = [row(name, shlex.join(plan.specs[name].words())) for name in plan.order]
    rows += [row(name, shlex.join(words)) for name, words in _commands(plan)]
    when = (
        f"when {plan.kill_when_done} of {len(plan.requests)} requests to {plan.names[-1]} are done"
    )
    if not plan.requests:
        when = f"after {plan.acknowledged} acknowledged writes"
    first = ""
    if plan.control_starts:
        first = f"start everything {amount(plan.control_starts, 'time')} as a control, then "
    return Outcome(
        verdict=None,
        summary=(
            f"would {first}send {plan.signal.name} to {plan.kill} {when}, and start it again "
            f"{plan.outage_s:g} s after its end"
        ),
        tables=(Table(title="Services", rows=tuple(rows)),),
    )


def _commands(plan: RestartPlan) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return (("load", plan.load), ("verify", plan.verify)) if plan.load else ()
