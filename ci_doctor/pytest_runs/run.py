# SPDX-License-Identifier: Apache-2.0
"""Acts on processes and files: a suite from its first run to the outcome."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ci_doctor.model.outcome import Outcome
from ci_doctor.pytest_runs.attempt import RunKind
from ci_doctor.pytest_runs.baseline import base_commit
from ci_doctor.pytest_runs.outcome import (
    answered_outcome,
    interrupted_outcome,
    outcome_of,
    refused_outcome,
)
from ci_doctor.pytest_runs.plan import PytestPlan, find_interpreter, with_options
from ci_doctor.pytest_runs.process import PytestRunner
from ci_doctor.pytest_runs.quarantine import read_quarantine
from ci_doctor.pytest_runs.result import is_usage_error, question_of
from ci_doctor.pytest_runs.stages import QUARANTINE_FILE, PytestRequest, TestStages
from ci_doctor.system.files.opening import open_closed_streams
from ci_doctor.system.files.own_directory import own_directory
from ci_doctor.system.files.writing import make_directory
from ci_doctor.system.processes.interruption import Interruption
from ci_doctor.system.secrets.log_files import redact_files

if TYPE_CHECKING:
    from ci_doctor.system.secrets.redaction import Redactor

LOGS: Final = "pytest"  # the folder in the report directory


def run(
    request: PytestRequest,
    *,
    directory: Path | None,
    redactor: "Redactor",
    interruption: Interruption,
    tell: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Run the suite, run again what failed, and judge.

    What pytest writes goes to the folder `pytest` of the report directory `directory`; without one,
    only the suite's output is shown, and reruns leave what the report quotes. `tell` gets a sentence
    before each further run. `interruption` must be handling signals. Raises UsageError if the
    interpreter, the quarantine or the base is wrong, InfraError if pytest cannot be supervised.
    """
    entries = read_quarantine(request.directory / QUARANTINE_FILE)
    in_process = request.is_rerun_in_process and request.reruns > 0
    args = request.args
    plan = PytestPlan(
        kind=RunKind.SUITE,
        python=find_interpreter(
            request.python, request.environ, request.directory, needs_rerunfailures=in_process
        ),
        args=with_options(args, f"--reruns={request.reruns}") if in_process else args,
        environ=request.environ,
        directory=request.directory,
        timeout_s=request.timeout_s,
        names_deselected=bool(entries),
    )
    base = None
    if request.baseline is not None:
        base = base_commit(request.directory, request.baseline)
    open_closed_streams()
    with own_directory("pytest") as folder:
        scratch = Path(folder)
        logs = scratch if directory is None else directory.absolute() / LOGS
        make_directory(logs)
        runner = PytestRunner(scratch, logs, interruption, on_stderr=request.on_stderr)
        # The machine's own day: a date in a file of the repository has no time zone.
        today = dt.date.today()  # noqa: DTZ011
        stages = TestStages(request, plan, runner, scratch, tell, entries=entries, today=today)
        try:
            stages.run(base)
            first = stages.sessions[0]
            if is_usage_error(first):
                return refused_outcome()
            question = question_of(request.args, first)
            if question is not None and not runner.is_interrupted:
                return answered_outcome(question, first)
            result = stages.result()
        finally:
            runner.close()
            if directory is not None:
                for warning in redact_files(sorted(logs.glob("*.log")), redactor):
                    tell(f"warning: {warning}")
    outcome = outcome_of(result, request.directory, directory)
    if result.interrupted is not None:
        return interrupted_outcome(outcome, result.interrupted)
    return outcome
