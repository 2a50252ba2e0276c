# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor history`, and the commands below it."""

import functools
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec.structs import replace

from ci_doctor.commands.documented import (
    PATH,
    Group,
    config_option,
    option,
    output_options,
    pass_session,
)
from ci_doctor.errors import UsageError
from ci_doctor.model.outcome import About, Outcome
from ci_doctor.pytest_runs.quarantine import MOST_DAYS
from ci_doctor.session.session import Session

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from ci_doctor.history.address import DatabaseAddress, HistorySettings
    from ci_doctor.history.database import Question
    from ci_doctor.history.evidence import JobEvidence
    from ci_doctor.history.ingest import FilesToRead, Tell


@click.group(
    "history",
    examples={
        "ci-doctor history ingest reports/": "Read the reports of some jobs.",
        "ci-doctor history flaky": "List the flaky tests.",
    },
    cls=Group,
)
def history() -> None:
    """Keep every attempt of every test, and ask which are flaky, and since when."""


F = TypeVar("F", bound=Callable[..., Any])


def database_options(function: F) -> F:
    """`--database`, `--config`, and the options of output."""
    function = output_options(function)
    function = config_option(function)
    return option(
        "--database",
        group="Database",
        metavar="FILE|URL",
        help="A SQLite file, or postgresql://user@host/database. [default: that of [history], else "
        "ci-doctor-history.sqlite]",
    )(function)


def window_options(function: F) -> F:
    """`--days` and `--branch`."""
    function = option(
        "--branch",
        group="Attempts",
        metavar="NAME",
        help="Only attempts of this branch. [default: all]",
    )(function)
    return option(
        "--days",
        group="Attempts",
        type=click.IntRange(min=1),
        help="How far back to look. [default: that of [history], else 30]",
    )(function)


def database_of(config_path: Path | None, database: str | None) -> "DatabaseAddress":
    """The database that is meant. Raises UsageError; the extra must be installed."""
    return _settings(config_path, database)[1]


def _settings(
    config_path: Path | None, database: str | None, days: int | None = None
) -> tuple["HistorySettings", "DatabaseAddress"]:
    from ci_doctor.commands.run_record import configured_history
    from ci_doctor.config.loading import load_config
    from ci_doctor.history.address import DEFAULT_FILE, database_address, require_extra

    loaded = load_config(config_path, Path.cwd())
    settings, address = configured_history(loaded, {"database": database, "days": days})
    if address is None:
        address = database_address(DEFAULT_FILE)
    require_extra("history" if address.file is not None else "postgres")
    return settings, address


@contextmanager
def opened(address: "DatabaseAddress") -> Iterator["Engine"]:
    """The database, for a command that writes; a SQLite file is made if there is none."""
    from ci_doctor.history.database import BUSY_S
    from ci_doctor.history.upkeep import open_database

    engine = open_database(address, busy_s=BUSY_S)
    try:
        yield engine
    finally:
        engine.dispose()


def require_existing(address: "DatabaseAddress") -> None:
    """Raises UsageError if there is no such file."""
    if address.file is not None and not address.file.exists():
        raise UsageError(
            f"there is no history at {address.file}",
            hint=f"ci-doctor history ingest --database {address.file} FOLDER",
        )


Answer = Callable[..., "Outcome"]


def question(
    name: str,
    *,
    below: click.Group,
    examples: Mapping[str, str],
    directory: Path | None = None,
    exits: Mapping[int, str] | None = None,
) -> Callable[[Answer], click.Command]:
    """A command `name` of the group `below` that asks the history, with --days, --branch and --database.

    The function that answers gets the `Question` and the values of further options, with `directory` that of the
    reports, which is `directory` if nobody names one.
    """

    def command(answer: Answer) -> click.Command:
        @functools.wraps(answer)
        def ask(
            session: Session,
            /,
            *,
            days: int | None,
            branch: str | None,
            database: str | None,
            config_path: Path | None,
            **own: Any,
        ) -> int:
            claimed = session.claim(directory)
            if directory is not None:
                own["directory"] = claimed or directory
            settings, address = _settings(config_path, database, days)

            from ci_doctor.history.database import Question, last_days, reading
            from ci_doctor.system import clock

            require_existing(address)
            window = last_days(settings.days, round(clock.epoch() * 1000), branch)
            with opened(address) as engine, reading(engine) as connection:
                outcome = answer(Question(connection, window), **own)
            return session.finish(outcome, on_stdout=True)

        decorated = window_options(database_options(pass_session(ask)))
        return below.command(name, section="history", examples=examples, exits=exits)(decorated)

    return command


@history.command(
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
@click.argument("paths", nargs=-1, metavar="[PATH]…", type=PATH)
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
    address = database_of(config_path, database)

    from ci_doctor.buildkite.job import step_label
    from ci_doctor.commands.teller import late_teller
    from ci_doctor.history.ingest import ingest as ingested
    from ci_doctor.history.ingest import named_files
    from ci_doctor.history.outcomes import ingest_outcome
    from ci_doctor.history.own_report import known_job

    known = known_job(about, session.about, step_label(os.environ))
    with late_teller() as tell, ExitStack() as stack:
        downloaded = _downloaded(builds, known_job(about, About()), stack, tell)
        files = replace(downloaded, files=(*named_files(paths), *downloaded.files))
        engine = stack.enter_context(opened(address))
        facts, unreadable = ingested(
            engine,
            files,
            known,
            session.redactor.text,
            tell,
            database=address.label,
        )
    return session.finish(ingest_outcome(facts, unreadable), on_stdout=True)


def _downloaded(
    words: tuple[str, ...], asked: "JobEvidence", stack: ExitStack, tell: "Tell"
) -> "FilesToRead":
    """The files of the builds, in a folder that `stack` removes. Raises UsageError, InfraError."""
    from ci_doctor.history.ingest import FilesToRead, agent_of_job, build_files, named_build

    if not words:
        return FilesToRead()
    agent = agent_of_job(os.environ)
    from ci_doctor.system.files.access import own_directory

    builds = [named_build(word, os.environ) for word in words]
    folder = Path(stack.enter_context(own_directory("history")))
    return build_files(builds, agent, folder, asked, tell)


@question(
    "flaky",
    below=history,
    examples={
        "ci-doctor history flaky --days 14 --branch main": "List the flaky tests of a branch.",
    },
)
def flaky(asked: "Question") -> "Outcome":
    """List the flaky tests, the surest first.

    A test is proven flaky if it passed and failed in one step of one commit. One that changed its
    result three times or more is listed, too. Failures in an hour of an agent in which far more
    failed than usual count as infrastructure.
    """
    from ci_doctor.history.flaky import flaky_facts
    from ci_doctor.history.outcomes import flaky_outcome

    return flaky_outcome(flaky_facts(asked))


@question(
    "test",
    below=history,
    examples={
        "ci-doctor history test test_stream": "Show the attempts of one test.",
    },
    exits={0: "shown", 86: "it has no attempt in this time, or on this branch"},
)
@click.argument("name")
def test(asked: "Question", name: str) -> "Outcome":
    """Show the attempts of one test: its rate, its causes, its agents, the newest attempts.

    NAME is `suite::name`, a pytest node id, or a part of either that only one test has.
    """
    from ci_doctor.history.one_test import attempts_of, named_test, one_test_facts
    from ci_doctor.history.outcomes import one_test_outcome, unanswered_outcome

    named = named_test(asked.connection, name)
    facts = one_test_facts(named, attempts_of(asked, named.number))
    if facts is None:
        why = "has no attempt in this time, or on this branch"
        return unanswered_outcome(named.suite, named.name, why)
    return one_test_outcome(facts)


@question(
    "began",
    below=history,
    examples={
        "ci-doctor history began tests/test_serving.py::test_stream": "Name the commit with which a test began to fail.",
    },
    exits={0: "answered, also that no change is shown", 86: "it ran on fewer than two commits"},
)
@click.argument("name")
def began(asked: "Question", name: str) -> "Outcome":
    """Name the commit with which a test began to fail more often, as an interval of commits.

    The runs may be noisy: a change-point is looked for, and reported with its probability. Commits
    stand in the order of their first run. NAME is as in `history test`.
    """
    from ci_doctor.history.one_test import attempts_of, began_facts, named_test
    from ci_doctor.history.outcomes import began_outcome, unanswered_outcome

    named = named_test(asked.connection, name)
    facts = began_facts(named, attempts_of(asked, named.number))
    if facts is None:
        why = "ran on fewer than two commits in this time: nothing can have begun"
        return unanswered_outcome(named.suite, named.name, why)
    return began_outcome(facts)


@history.group(
    "quarantine",
    examples={
        "ci-doctor history quarantine suggest": "Print entries for ci-doctor-quarantine.toml.",
    },
    cls=Group,
)
def quarantine() -> None:
    """Suggest which tests are to run without deciding."""


@question(
    "suggest",
    below=quarantine,
    examples={
        "ci-doctor history quarantine suggest --for-days 7": "Print entries that end in a week.",
    },
)
@option(
    "--for-days",
    type=click.IntRange(min=1, max=MOST_DAYS),
    default=14,
    help=f"After how many days the entries end, {MOST_DAYS} at most. [default: 14]",
)
def suggest(asked: "Question", for_days: int) -> "Outcome":
    """Print entries for ci-doctor-quarantine.toml; no file is changed.

    An entry is suggested for each test that passed and failed on two commits or more, and is
    neither deleted, nor mended, nor broken by a commit that `history began` names.
    """
    from ci_doctor.history.flaky import flaky_facts
    from ci_doctor.history.one_test import suggested
    from ci_doctor.history.outcomes import quarantine_outcome

    return quarantine_outcome(suggested(asked, flaky_facts(asked).flaky, days=for_days))


@question(
    "report",
    below=history,
    directory=Path("ci-doctor-history"),
    examples={
        "ci-doctor history report --report-dir page": "Write page/report.html.",
    },
)
def report(asked: "Question", directory: Path) -> "Outcome":
    """Write a page of tests against time: report.html in the report directory.

    Scattered dots are flaky tests, full columns are infrastructure. The page is one file that loads
    nothing. Without --report-dir the directory is ci-doctor-history.
    """
    from ci_doctor.history.flaky import strip_facts
    from ci_doctor.history.outcomes import report_outcome

    return report_outcome(strip_facts(asked), directory)


@history.command(
    "prune",
    section="history",
    examples={
        "ci-doctor history prune --keep-days 180": "Keep half a year.",
    },
)
@option(
    "--keep-days",
    type=click.IntRange(min=1),
    required=True,
    help="How many days up to today, in UTC, stay.",
)
@database_options
@pass_session
def prune(
    session: Session, /, *, keep_days: int, database: str | None, config_path: Path | None
) -> int:
    """Remove the attempts of earlier days, and make the file smaller.

    The evidence files are not touched. Their hashes stay known, so ingesting them again does not
    bring the attempts back.
    """
    session.claim()
    address = database_of(config_path, database)

    from ci_doctor.history.database import last_days
    from ci_doctor.history.evidence import utc_text
    from ci_doctor.history.outcomes import prune_outcome
    from ci_doctor.history.upkeep import prune as pruned
    from ci_doctor.system import clock

    require_existing(address)
    window = last_days(keep_days, round(clock.epoch() * 1000))
    with opened(address) as engine:
        removed = pruned(engine, window.first_day)
    day = utc_text(window.since_ms)[:10]
    return session.finish(prune_outcome(removed, day, address.label), on_stdout=True)


@history.command(
    "upgrade",
    section="history",
    examples={
        "ci-doctor history upgrade --database postgresql://ci@db.example/history": "Make or upgrade the schema of a PostgreSQL database.",
    },
)
@database_options
@pass_session
def upgrade(session: Session, /, *, database: str | None, config_path: Path | None) -> int:
    """Bring the schema of the database to this version of ci-doctor.

    Every command upgrades a SQLite file, in place: make a copy first. A PostgreSQL database is
    upgraded, and made, by this command alone.
    """
    session.claim()
    address = database_of(config_path, database)

    from ci_doctor.history.database import BUSY_S
    from ci_doctor.history.outcomes import upgrade_outcome
    from ci_doctor.history.upkeep import upgrade as upgraded

    before = upgraded(address, busy_s=BUSY_S)
    return session.finish(upgrade_outcome(before, address.label), on_stdout=True)
