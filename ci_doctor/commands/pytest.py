# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor pytest`, and what it asks the history."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click
from msgspec.structs import replace

from ci_doctor.commands.documented import INTERPRETERS, TIME, VERDICT, command, option
from ci_doctor.commands.options import (
    PATH,
    check_separator,
    config_option,
    output_options,
    pass_session,
)
from ci_doctor.errors import CiDoctorError, InfraError, UsageError
from ci_doctor.session.session import Session

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from ci_doctor.config.loading import Config
    from ci_doctor.history.address import DatabaseAddress
    from ci_doctor.history.commit_jobs import CommitJobs
    from ci_doctor.model.about import About
    from ci_doctor.pytest_runs.past import PastJob, PastReader
    from ci_doctor.pytest_runs.request import PytestRequest


T = TypeVar("T")
# Of wall clock, for each question.
_LIMIT_S = 5.0


class PastRuns:
    """Answers from the history at `address`, about the pipeline and the step of `about`."""

    def __init__(self, address: "DatabaseAddress", about: "About") -> None:
        self._address = address
        self._about = about

    def jobs(
        self, commits: Sequence[str], tests: Collection[str]
    ) -> "Mapping[str, Sequence[PastJob]]":
        """By node id, the jobs of `commits`. Raises CiDoctorError."""
        from ci_doctor.pytest_runs.past import PastJob

        names = {test: _identity(test) for test in tests}
        pipeline, step = _place(self._about)

        def ask(connection: "Connection") -> "dict[str, list[PastJob]]":
            from ci_doctor.history.reading.moments import utc_text

            kept = _commit_jobs(connection, commits, pipeline, step)
            by_test = kept.of_tests(set(names.values()))
            distance = {commit: number for number, commit in enumerate(commits)}
            jobs: dict[str, list[PastJob]] = {}
            for test, name in names.items():
                jobs[test] = [
                    PastJob(
                        distance=distance[each.commit],
                        commit=each.commit,
                        at=utc_text(each.started_ms),
                        passed=each.passed,
                        build=each.build,
                    )
                    for each in by_test.get(name, ())
                ]
            return jobs

        return self._answer(ask)

    def known(self, commits: Sequence[str], tests: Collection[str]) -> frozenset[str]:
        """Those of `tests` that ran at one of `commits`, in whatever step. Raises CiDoctorError."""
        names = {test: _identity(test) for test in tests}

        def ask(connection: "Connection") -> frozenset[str]:
            known = _commit_jobs(connection, commits, None, None).known(set(names.values()))
            return frozenset(test for test, name in names.items() if name in known)

        return self._answer(ask)

    def long_green(self, tests: Collection[str]) -> str | None:
        """How long `tests` have been green; None if they have not. Raises CiDoctorError."""
        names = [_identity(test) for test in tests]

        def ask(connection: "Connection") -> str | None:
            from ci_doctor.history.long_green import WINDOW_DAYS, day_sums, green_clause
            from ci_doctor.history.window import last_days
            from ci_doctor.system import clock

            window = last_days(WINDOW_DAYS, round(clock.epoch() * 1000))
            return green_clause(day_sums(connection, names, window))

        return self._answer(ask)

    def _answer(self, ask: Callable[["Connection"], T]) -> T:
        """What `ask` says. Raises CiDoctorError whatever goes wrong: the tests have run already."""
        from ci_doctor.system.processes.limited_calls import TimedOut, bounded

        address = self._address
        try:
            import sqlalchemy  # noqa: F401 - its time is not the database's

            return bounded(lambda: _ask(address, ask), _LIMIT_S)
        except CiDoctorError:
            raise
        except TimedOut as error:
            raise InfraError(f"{address.label}: {error}") from error
        except Exception as error:
            raise InfraError(f"{address.label}: {type(error).__name__}: {error}") from error


def _ask(address: "DatabaseAddress", ask: Callable[["Connection"], T]) -> T:
    from ci_doctor.commands.history import require_existing
    from ci_doctor.history.engine import reading
    from ci_doctor.history.extra import require_extra
    from ci_doctor.history.migration import open_database

    require_extra("history" if address.file is not None else "postgres")
    require_existing(address)
    engine = open_database(address, busy_s=2.0)
    try:
        with reading(engine) as connection:
            return ask(connection)
    finally:
        engine.dispose()


def _commit_jobs(
    connection: "Connection", commits: Sequence[str], pipeline: str | None, step: str | None
) -> "CommitJobs":
    from ci_doctor.history.commit_jobs import CommitJobs

    return CommitJobs(connection, commits, pipeline=pipeline, step=step)


def _place(about: "About") -> tuple[str | None, str | None]:
    """The pipeline and the step under which the history keeps a run here; None for an unknown one."""
    from ci_doctor.buildkite.job import step_label
    from ci_doctor.history.reading.own_report import job_of
    from ci_doctor.history.reading.placed_evidence import labelled_step
    from ci_doctor.history.reading.stored_text import stored_name

    label = step_label(os.environ) if about.job is not None else None
    step = labelled_step(replace(job_of(about), label=label))
    return stored_name(about.pipeline), stored_name(step)


def _identity(test: str) -> tuple[str, str]:
    """The names under which the history keeps a test."""
    from ci_doctor.history.reading.stored_text import stored_text
    from ci_doctor.pytest_runs.naming import group_and_name

    group, name = group_and_name(test)
    return stored_text(group), stored_text(name)


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
    help="How often to run a test that neither --baseline nor the history knows. [default: 1]",
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
    from ci_doctor.config.decoding import read_exit_codes, seconds_above_zero
    from ci_doctor.config.loading import load_config
    from ci_doctor.environment.expected_preparation import missing_preparation
    from ci_doctor.pytest_runs.interpreter import chosen_interpreter
    from ci_doctor.pytest_runs.request import PytestRequest, RerunPlace
    from ci_doctor.session.exit_policy import ExitPolicy

    loaded = load_config(config_path, Path.cwd())
    past = _past(session, loaded)
    if new_tests > 1 and baseline is None and past is None:
        raise UsageError(
            "--new-tests needs to know which tests are new",
            hint="name the commit to compare with, --baseline origin/main, or a history, "
            "CI_DOCTOR_HISTORY_DATABASE",
        )
    codes, _ = read_exit_codes(loaded, os.environ)
    session.policy = ExitPolicy(codes=codes, fail_on_flaky=fail_on_flaky)
    session.observe(*missing_preparation(loaded, os.environ))
    record_environment(session, config_path, lambda: chosen_interpreter(python, os.environ))
    request = PytestRequest(
        args=args,
        environ=dict(os.environ),
        directory=Path.cwd(),
        python=python,
        reruns=reruns,
        rerun_s=_rerun_s(loaded, rerun_budget),
        rerun_in=RerunPlace(rerun_in),
        baseline=baseline,
        new_tests=new_tests,
        timeout_s=None if timeout is None else seconds_above_zero(timeout, "--timeout"),
        explain_s=seconds_above_zero(explain_budget, "--explain-budget") if explain_flaky else None,
        # With --json our own stdout holds nothing but the report.
        on_stderr=session.as_json,
        past=past,
    )
    return _run(session, request, loaded)


def _rerun_s(loaded: "Config", option: str | None) -> float | None:
    """The time for reruns, by the option or `[pytest]`; None without both. Raises UsageError."""
    from ci_doctor.config.decoding import decode_section, seconds_above_zero
    from ci_doctor.pytest_runs.settings import PytestSettings

    settings, origins = decode_section(
        loaded, "pytest", PytestSettings, environ=os.environ, flags={"rerun_budget": option}
    )
    if settings.rerun_budget is None:
        return None
    return seconds_above_zero(settings.rerun_budget, origins["rerun_budget"])


def _past(session: Session, loaded: "Config") -> "PastReader | None":
    """The history that the configuration names; a broken `[history]` section is named at the end."""
    from ci_doctor.commands.run_record import configured_history
    from ci_doctor.errors import CiDoctorError

    try:
        _, address = configured_history(loaded, {})
    except CiDoctorError:
        return None
    return None if address is None else PastRuns(address, session.about)


def _run(session: Session, request: "PytestRequest", loaded: "Config") -> int:
    from ci_doctor.commands.run_record import with_history
    from ci_doctor.commands.teller import LineKind, StepSource, Teller
    from ci_doctor.pytest_runs.run import run
    from ci_doctor.system.processes.interruption import Interruption

    interruption = Interruption()
    # The signals stay handled until the report is out: none may take it away.
    with interruption.handling():
        with Teller(StepSource(LineKind.KEPT), session.redactor) as tell:
            outcome = run(
                request,
                directory=session.directory,
                redactor=session.redactor,
                interruption=interruption,
                tell=tell,
            )
        return session.finish(with_history(session, loaded, outcome))
