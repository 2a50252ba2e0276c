# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor history ingest`."""

import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_doctor.commands import completion_values as values
from ci_doctor.commands.documented import command, option
from ci_doctor.commands.history.options import database_options, history_settings, opened
from ci_doctor.commands.options import pass_session
from ci_doctor.errors import UsageError
from ci_doctor.model.about import About
from ci_doctor.session.session import Session

if TYPE_CHECKING:
    from ci_doctor.history.evidence import JobEvidence
    from ci_doctor.history.ingest import BuildFiles, Tell


@command(
    "ingest",
    section="history",
    examples={
        "ci-doctor history ingest reports/ 'junit/*.xml'": "Write the attempts of all files to the history.",
        "ci-doctor history ingest --build current": "In a Buildkite job: read the artifacts of this build.",
    },
    exits={
        0: "ingested, or known already",
        86: "no file holds evidence",
    },
)
@click.argument("paths", nargs=-1, metavar="[PATH]…", shell_complete=values.files)
@option(
    "--about",
    group="Evidence",
    multiple=True,
    metavar="KEY=VALUE",
    help="Facts of the job that the files do not hold: pipeline, build, step, label, job, commit, branch, agent, "
    "queue. Repeatable. [default in a Buildkite job: that job]",
)
@option(
    "--build",
    "builds",
    group="Evidence",
    multiple=True,
    metavar="BUILD",
    help="The artifacts of a build, in a job by buildkite-agent: `current`, or the id of a build. Repeatable.",
)
@database_options
@pass_session
def ingest(
    session: Session,
    /,
    *,
    paths: tuple[str, ...],
    about: tuple[str, ...],
    builds: tuple[str, ...],
    database: str | None,
    config_path: Path | None,
) -> int:
    """Write the attempts in evidence files to the history, each file once.

    A PATH is a file, a folder or a pattern: reports of ci-doctor, and JUnit XML of any tool.
    """
    if not paths and not builds:
        raise UsageError(
            "nothing is to be ingested", hint="name files, folders, or --build current"
        )
    session.claim()
    _, address = history_settings(config_path, database)

    from ci_doctor.buildkite.job import step_label
    from ci_doctor.commands.telling.late import LateTeller
    from ci_doctor.history.ingest import ingest as ingested
    from ci_doctor.history.outcomes import ingest_outcome
    from ci_doctor.history.own_report import known_job

    known = known_job(about, session.about, step_label(os.environ))
    with LateTeller() as tell, ExitStack() as stack:
        downloaded = _downloaded(builds, known_job(about, About()), stack, tell)
        engine = stack.enter_context(opened(address))
        result = ingested(engine, paths, known, session.redactor.text, tell, downloaded=downloaded)
    return session.finish(ingest_outcome(result, address.label), on_stdout=True)


def _downloaded(
    words: tuple[str, ...], asked: "JobEvidence", stack: ExitStack, tell: "Tell"
) -> "BuildFiles":
    """The files of the builds, in a folder that `stack` removes. Raises UsageError, InfraError."""
    from ci_doctor.history.ingest import BuildFiles, agent_of_job, build_files, named_build

    if not words:
        return BuildFiles()
    agent = agent_of_job(os.environ)
    from ci_doctor.system.files.own_directory import own_directory

    builds = [named_build(word, os.environ) for word in words]
    folder = Path(stack.enter_context(own_directory("history")))
    return build_files(builds, agent, folder, asked, tell)
