# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor pytest`."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_doctor.commands.documented import (
    INTERPRETERS,
    PATH,
    TIME,
    VERDICT,
    check_separator,
    command,
    config_option,
    load_configuration,
    option,
    output_options,
    pass_session,
)
from ci_doctor.errors import UsageError
from ci_doctor.session.session import Session

if TYPE_CHECKING:
    from ci_doctor.config.loading import Config
    from ci_doctor.pytest_runs.stages import PytestRequest


_RUNS = "Runs"


@command(
    "pytest",
    examples={
        "ci-doctor pytest -- tests -x": "Run tests, and run a test that fails again in a new process.",
        "ci-doctor pytest --baseline origin/main --explain-flaky -- tests/serving": "Tell regressions from old failures, and find out why a test is flaky.",
    },
    exits={
        0: "pass or flaky",
        1: "a test failed",
        7: "flaky, with --fail-on-flaky",
        75: "each failure names a full disk, and the disk is full at the end",
        86: "results are missing",
    },
    context_settings={"allow_interspersed_args": False},
)
@option(
    "--reruns",
    group=_RUNS,
    type=click.IntRange(min=0),
    default=2,
    show_default=True,
    help="How often a test that fails is run again, until it passes.",
)
@option(
    "--rerun-budget",
    group=_RUNS,
    metavar="S",
    help="The time for all reruns of failed tests. [default: twice the time of the suite, at least 60s]",
)
@option(
    "--rerun-in",
    group=_RUNS,
    type=click.Choice(["fresh", "process"]),
    default="fresh",
    show_default=True,
    help="Rerun it alone in a new process, or in the same one by pytest-rerunfailures.",
)
@option("--fail-on-flaky", group=VERDICT, is_flag=True, help="End with 7 if a test is flaky.")
@option(
    "--explain-flaky",
    group="Why a test is flaky",
    is_flag=True,
    help="Find out why a failed test is flaky, by further runs.",
)
@option(
    "--explain-budget",
    group="Why a test is flaky",
    metavar="S",
    default="120s",
    show_default=True,
    help="The time for these runs, for all tests together.",
)
@option(
    "--timeout",
    group=TIME,
    metavar="S",
    help="End a test that runs longer, and a file that loads longer (60 s at least), also in C code. "
    "[default: none]",
)
@option(
    "--baseline",
    group=_RUNS,
    metavar="REF",
    help="Run failed tests at the merge base with REF, too: what passes there is a regression.",
)
@option(
    "--new-tests",
    group=_RUNS,
    type=click.IntRange(min=1),
    default=1,
    metavar="N",
    help="How often to run a test that --baseline does not have. [default: 1]",
)
@option(
    "--python",
    group=INTERPRETERS,
    metavar="PY",
    type=PATH,
    help="The interpreter of the tests. [default: $VIRTUAL_ENV, python on PATH]",
)
@config_option
@output_options
@click.argument(
    "args",
    nargs=-1,
    type=click.UNPROCESSED,
    metavar="[-- PYTEST-ARGUMENTS…]",
)
@pass_session
def pytest(
    session: Session,
    /,
    *,
    args: tuple[str, ...],
    reruns: int,
    rerun_budget: str | None,
    rerun_in: str,
    fail_on_flaky: bool,
    explain_flaky: bool,
    explain_budget: str,
    timeout: str | None,
    baseline: str | None,
    new_tests: int,
    python: str | None,
    config_path: Path | None,
) -> int:
    """Run the repository's own pytest, keep every attempt of each test, and judge.

    A test that fails is run again in a new process, alone. If it passes there, the tests before it
    run once more in their order.
    """
    check_separator(session.invocation, args)
    # Readers of JUnit expect a suite's tests.
    session.junit = session.junit or "requests"
    session.claim()

    from ci_doctor.commands.run_record import record_environment
    from ci_doctor.config.decoding import seconds_above_zero
    from ci_doctor.environment.preparation import missing_preparation
    from ci_doctor.pytest_runs.plan import chosen_interpreter
    from ci_doctor.pytest_runs.stages import PytestRequest

    loaded = load_configuration(session, config_path, fail_on_flaky=fail_on_flaky)
    if new_tests > 1 and baseline is None:
        raise UsageError(
            "--new-tests needs to know which tests are new",
            hint="name the commit to compare with, such as --baseline origin/main",
        )
    session.observe(*missing_preparation(loaded, os.environ))
    record_environment(session, config_path, lambda: chosen_interpreter(python, os.environ))
    request = PytestRequest(
        args=args,
        environ=dict(os.environ),
        directory=Path.cwd(),
        python=python,
        reruns=reruns,
        rerun_s=_rerun_s(loaded, rerun_budget),
        is_rerun_in_process=rerun_in == "process",
        baseline=baseline,
        new_tests=new_tests,
        timeout_s=None if timeout is None else seconds_above_zero(timeout, "--timeout"),
        explain_s=seconds_above_zero(explain_budget, "--explain-budget") if explain_flaky else None,
        # With --json our own stdout holds nothing but the report.
        on_stderr=session.as_json,
    )
    return _run(session, request, loaded)


def _rerun_s(loaded: "Config", option: str | None) -> float | None:
    """The time for reruns, by the option or `[pytest]`; None without both. Raises UsageError."""
    from ci_doctor.config.decoding import decode_section, seconds_above_zero
    from ci_doctor.pytest_runs.quarantine import PytestSettings

    settings, origins = decode_section(
        loaded, "pytest", PytestSettings, environ=os.environ, flags={"rerun_budget": option}
    )
    if settings.rerun_budget is None:
        return None
    return seconds_above_zero(settings.rerun_budget, origins["rerun_budget"])


def _run(session: Session, request: "PytestRequest", loaded: "Config") -> int:
    from ci_doctor.commands.run_record import with_history
    from ci_doctor.commands.teller import Teller
    from ci_doctor.pytest_runs.stages import run
    from ci_doctor.system.processes.interruption import Interruption

    interruption = Interruption()
    # The signals stay handled until the report is out: none may take it away.
    with interruption.handling():
        with Teller(session.redactor) as tell:
            outcome = run(
                request,
                directory=session.directory,
                redactor=session.redactor,
                interruption=interruption,
                tell=tell.say,
            )
        return session.finish(with_history(session, loaded, outcome))
