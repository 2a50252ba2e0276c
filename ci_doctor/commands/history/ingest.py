# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor history ingest`."""

from pathlib import Path

import click

from ci_doctor.commands import completion_values as values
from ci_doctor.commands.history.options import database_options, history_settings, opened
from ci_doctor.commands.options import pass_session
from ci_doctor.session.session import Session


@click.command("ingest")
@click.argument("paths", nargs=-1, required=True, metavar="PATH…", shell_complete=values.files)
@click.option(
    "--about",
    multiple=True,
    metavar="KEY=VALUE",
    help="What files do not say of their job: pipeline, build, step, job, commit, branch, agent, "
    "queue. Repeatable. [default in a Buildkite job: that job]",
)
@database_options
@pass_session
def ingest(
    session: Session,
    /,
    *,
    paths: tuple[str, ...],
    about: tuple[str, ...],
    database: str | None,
    config_path: Path | None,
) -> int:
    """Write the attempts in evidence files to the history, each file once.

    A PATH is a file, a folder or a pattern: reports of ci-doctor, JUnit XML of any tool, JSON of
    pytest-json-report, pytest-reportlog and Buildkite Test Engine. Exit code 86 if no file holds
    evidence.
    """
    session.claim()
    _, address = history_settings(config_path, database)

    from ci_doctor.commands.telling.late import LateTeller
    from ci_doctor.history.ingest import ingest as ingested
    from ci_doctor.history.known_job import known_job
    from ci_doctor.history.outcomes.stored import ingest_outcome

    known = known_job(about, session.about)
    with opened(address) as engine, LateTeller() as tell:
        result = ingested(engine, paths, known, session.redactor.text, tell)
    return session.finish(ingest_outcome(result, address.label), on_stdout=True)
