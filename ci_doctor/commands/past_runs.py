# SPDX-License-Identifier: Apache-2.0
"""Reads the history of the configuration: what `ci-doctor pytest` asks about earlier runs."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from ci_doctor.buildkite.job import step_label
from ci_doctor.errors import CiDoctorError, InfraError
from ci_doctor.history.address import DatabaseAddress
from ci_doctor.model.about import About
from ci_doctor.pytest_runs.naming import group_and_name
from ci_doctor.pytest_runs.past import PastJob
from ci_doctor.system.processes.limited_calls import TimedOut, bounded

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from ci_doctor.history.commit_jobs import CommitJobs

T = TypeVar("T")
# Of wall clock, for each question.
_LIMIT_S = 5.0


class PastRuns:
    """Answers from the history at `address`, about the pipeline and the step of `about`."""

    def __init__(self, address: DatabaseAddress, about: About) -> None:
        self._address = address
        self._about = about

    def jobs(
        self, commits: Sequence[str], tests: Collection[str]
    ) -> Mapping[str, Sequence[PastJob]]:
        """By node id, the jobs of `commits`. Raises CiDoctorError."""
        names = {test: _identity(test) for test in tests}
        pipeline, step = _place(self._about)

        def ask(connection: "Connection") -> dict[str, list[PastJob]]:
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


def _ask(address: DatabaseAddress, ask: Callable[["Connection"], T]) -> T:
    from ci_doctor.commands.history.options import require_existing
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


def _place(about: About) -> tuple[str | None, str | None]:
    """The pipeline and the step under which the history keeps a run here; None for an unknown one."""
    from ci_doctor.history.reading.own_report import job_of
    from ci_doctor.history.reading.placed_evidence import labelled_step
    from ci_doctor.history.reading.stored_text import stored_name

    label = step_label(os.environ) if about.job is not None else None
    step = labelled_step(replace(job_of(about), label=label))
    return stored_name(about.pipeline), stored_name(step)


def _identity(test: str) -> tuple[str, str]:
    """The names under which the history keeps a test."""
    from ci_doctor.history.reading.stored_text import stored_text

    group, name = group_and_name(test)
    return stored_text(group), stored_text(name)
