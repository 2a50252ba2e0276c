# SPDX-License-Identifier: Apache-2.0
"""Reads the configuration: `[history]`, the database that it names, and what a run adds to it."""

import os
from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from ci_doctor.config.decoding import decode_section, path_in
from ci_doctor.config.loading import Config
from ci_doctor.errors import CiDoctorError
from ci_doctor.history.address import DatabaseAddress, database_address
from ci_doctor.history.settings import HistorySettings
from ci_doctor.model.facts.history import HISTORY_TITLE
from ci_doctor.model.outcome import ErrorKind, Outcome
from ci_doctor.model.table import text_table
from ci_doctor.session.session import Session

_SIGNALS: Final = frozenset(
    {ErrorKind.SIGINT, ErrorKind.SIGTERM, ErrorKind.SIGHUP, ErrorKind.SIGQUIT}
)


def configured_history(
    loaded: Config, flags: Mapping[str, Any]
) -> tuple[HistorySettings, DatabaseAddress | None]:
    """The settings, and the database; None if nobody names one. Raises ConfigError, UsageError."""
    settings, origins = decode_section(
        loaded, "history", HistorySettings, environ=os.environ, flags=flags
    )
    if not settings.database:
        return settings, None
    address = database_address(settings.database)
    if address.file is None:
        return settings, address
    return settings, DatabaseAddress(file=path_in(loaded, origins["database"], str(address.file)))


def with_history(session: Session, loaded: Config, outcome: Outcome) -> Outcome:
    """`outcome`, with how often its cause was seen before; the run goes into the history.

    Without `[history] database` nothing happens, nor after a signal: nobody waits for a database
    then. What goes wrong is a line of the report: it changes neither verdict nor exit code.
    """
    if outcome.error is not None and outcome.error.kind in _SIGNALS:
        return outcome
    try:
        _, address = configured_history(loaded, {})
    except CiDoctorError as error:
        line = text_table(HISTORY_TITLE, (f"not written: {error.message}",))
        return replace(outcome, tables=(*outcome.tables, line))
    if address is None:
        return outcome
    from ci_doctor.history.recording import record
    from ci_doctor.session.making import make_report

    report = make_report(outcome, (), session.invocation, about=session.about, policy=None)
    table = record(address, session.redactor.report(report), session.redactor.text)
    return replace(outcome, tables=(*outcome.tables, table))


def history_lines(outcome: Outcome) -> tuple[str, ...]:
    """What `with_history` has added, for a command that prints no tables. Pure."""
    tables = [table for table in outcome.tables if table.title == HISTORY_TITLE]
    return tuple(row.label for table in tables for row in table.rows)
