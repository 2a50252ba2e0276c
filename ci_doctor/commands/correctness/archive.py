# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor correctness archive`: `list` and `revoke`."""

import os
from pathlib import Path

import click

from ci_doctor.commands import completion_values as values
from ci_doctor.commands.documented import option
from ci_doctor.commands.group import Group
from ci_doctor.commands.options import config_option, output_options, pass_session
from ci_doctor.errors import UsageError
from ci_doctor.session.session import Session

_archive_option = option(
    "--archive",
    "directory",
    metavar="DIR|URL",
    shell_complete=values.directories,
    help="The archive. [default: that of [correctness]]",
)


@click.group(
    "archive",
    examples={
        "ci-doctor correctness archive list": "Print the builds in the configured archive.",
    },
    cls=Group,
)
def archive() -> None:
    """List the builds in an archive of baseline starts, or revoke one."""


@archive.command(
    "list",
    examples={
        "ci-doctor correctness archive list --archive s3://ci-baselines/serving": "Print the builds in an archive.",
    },
)
@_archive_option
@config_option
@output_options
@pass_session
def list_builds(session: Session, directory: str | None, config_path: Path | None) -> int:
    """Print every build with archived starts, the newest first, and what was revoked."""
    from ci_doctor.correctness.archive.outcomes import list_outcome
    from ci_doctor.correctness.archive.survey import survey

    session.claim()
    survey_of_archive = survey(_place(directory, config_path))
    return session.finish(list_outcome(survey_of_archive), on_stdout=True)


@archive.command(
    "revoke",
    examples={
        "ci-doctor correctness archive revoke 4f2a91c --reason 'wrong driver'": "Take the starts of a commit out of use.",
    },
)
@click.argument("commit", metavar="COMMIT")
@option("--reason", metavar="TEXT", help="The reason, which every later report states.")
@_archive_option
@config_option
@output_options
@pass_session
def revoke(
    session: Session,
    /,
    *,
    commit: str,
    reason: str | None,
    directory: str | None,
    config_path: Path | None,
) -> int:
    """Take the archived starts of COMMIT out of use, for every build, from now on.

    COMMIT is a commit, the id of a build, seven or more characters of either, or the number of a
    build. If it names nothing in the archive, or several, the exit code is 2.
    """
    from ci_doctor.correctness.archive.revoke import revoke as revoked

    session.claim()
    reason = session.redactor.text(reason) if reason else None
    place = _place(directory, config_path)
    return session.finish(revoked(place, commit, reason), on_stdout=True)


def _place(named: str | None, config_path: Path | None) -> Path | str:
    """The archive that is named, else the configured one."""
    from ci_doctor.correctness.archive.archive_store import archive_place

    if named:
        return archive_place(named)
    from ci_doctor.config.loading import load_config
    from ci_doctor.correctness.planning import read_settings
    from ci_doctor.correctness.settings import Arm

    loaded = load_config(config_path, Path.cwd())
    settings = read_settings(loaded, os.environ, {}, {arm: {} for arm in Arm})
    if settings.archive is None:
        raise UsageError(
            "no archive is named", hint='give --archive DIR, or archive = "…" in [correctness]'
        )
    return archive_place(settings.archive)
