# SPDX-License-Identifier: Apache-2.0
"""Reads the command line and the configuration: what the commands below `history` share."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ci_doctor.commands.documented import option
from ci_doctor.commands.options import config_option, output_options
from ci_doctor.errors import UsageError

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

    from ci_doctor.history.address import DatabaseAddress
    from ci_doctor.history.database import HistoryWindow
    from ci_doctor.history.settings import HistorySettings

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


def history_settings(
    config_path: Path | None, database: str | None, days: int | None = None
) -> tuple["HistorySettings", "DatabaseAddress"]:
    """The settings, and the database they name. Raises UsageError; the extra must be installed."""
    from ci_doctor.commands.history_database import configured_history
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


@contextmanager
def read_history(address: "DatabaseAddress") -> Iterator["Connection"]:
    """A transaction that reads. Raises UsageError if nothing was ever written there."""
    from ci_doctor.history.database import reading

    require_existing(address)
    with opened(address) as engine, reading(engine) as connection:
        yield connection


def require_existing(address: "DatabaseAddress") -> None:
    """Raises UsageError if there is no such file."""
    if address.file is not None and not address.file.exists():
        raise UsageError(
            f"there is no history at {address.file}",
            hint=f"ci-doctor history ingest --database {address.file} FOLDER",
        )


def window_of(settings: "HistorySettings", branch: str | None) -> "HistoryWindow":
    """The last days, up to now."""
    from ci_doctor.history.database import last_days
    from ci_doctor.system import clock

    return last_days(settings.days, round(clock.epoch() * 1000), branch)
