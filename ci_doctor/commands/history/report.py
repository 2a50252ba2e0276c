# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor history report`."""

from pathlib import Path

from ci_doctor.commands.documented import command
from ci_doctor.commands.history.options import (
    database_options,
    history_settings,
    read_history,
    window_of,
    window_options,
)
from ci_doctor.commands.options import pass_session
from ci_doctor.session.session import Session

_DIRECTORY = Path("ci-doctor-history")


@command(
    "report",
    section="history",
    examples={
        "ci-doctor history report --report-dir page": "Write page/report.html.",
    },
)
@window_options
@database_options
@pass_session
def report(
    session: Session,
    /,
    *,
    days: int | None,
    branch: str | None,
    database: str | None,
    config_path: Path | None,
) -> int:
    """Write a page of tests against time: report.html in the report directory.

    Scattered dots are flaky tests, full columns are infrastructure. The page is one file that loads
    nothing. Without --report-dir the directory is ci-doctor-history.
    """
    directory = session.claim(_DIRECTORY) or _DIRECTORY
    settings, address = history_settings(config_path, database, days)

    from ci_doctor.history.flaky import strip_facts
    from ci_doctor.history.outcomes import report_outcome

    with read_history(address) as connection:
        facts = strip_facts(connection, window_of(settings, branch))
    return session.finish(report_outcome(facts, directory), on_stdout=True)
