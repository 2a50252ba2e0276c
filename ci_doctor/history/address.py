# SPDX-License-Identifier: Apache-2.0
"""Reads the installation and the `[history]` section: which database is meant, and whether its libraries are there."""

from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from ci_doctor.errors import UsageError
from ci_doctor.version import install_extra


class HistorySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person writes (docs/history.md).

    database: a file, relative to the file naming it or to the working directory, or
    postgresql://…; None for `ci-doctor-history.sqlite`, and then reports of other commands are not
    written there. days: how far back a question looks.
    """

    database: str | None = None
    days: int = 30


# --- `--database FILE|URL` -> which database is meant ---

DEFAULT_FILE: Final = "ci-doctor-history.sqlite"
# The last migration; a constant, so that a current database is known without loading Alembic.
NEWEST: Final = "0001"
_POSTGRES: Final = frozenset({"postgresql", "postgres"})
# To SQLite they are databases in memory, which end with the command.
_NO_FILES: Final = frozenset({"", ":memory:"})
_HINT: Final = "give a file, or postgresql://user@host/database"


class DatabaseAddress(Struct, frozen=True, kw_only=True):
    """A SQLite file or a PostgreSQL database; one of the two is None."""

    file: Path | None = None
    url: str | None = None

    @property
    def label(self) -> str:
        """The address for a reader, without a password."""
        if self.file is not None:
            return str(self.file)
        parts = urlsplit(self.url or "")
        host = parts.hostname or "local socket"
        return f"postgresql {host}{parts.path}"


def database_address(text: str) -> DatabaseAddress:
    """The database that `text` names. Raises UsageError for a URL of another kind, or no name."""
    if text in _NO_FILES:
        raise UsageError(f"--database: `{text}` names no file", hint=_HINT)
    scheme, separator, rest = text.partition("://")
    if not separator:
        return DatabaseAddress(file=Path(text))
    if scheme == "sqlite":
        return DatabaseAddress(file=Path(rest.removeprefix("/")))
    # SQLAlchemy's spelling with a driver, and libpq's own.
    if scheme.partition("+")[0] not in _POSTGRES:
        raise UsageError(f"--database: no database is reached by {scheme}://", hint=_HINT)
    return DatabaseAddress(url=f"postgresql+psycopg://{rest}")


# --- whether the libraries of an extra are there ---

_MODULES = {
    "history": ("sqlalchemy", "alembic"),
    "postgres": ("sqlalchemy", "alembic", "psycopg"),
}


def require_extra(name: str) -> None:
    """Raises UsageError if a library of the extra `name` is not installed; imports none."""
    missing = [module for module in _MODULES[name] if find_spec(module) is None]
    if missing:
        raise UsageError(
            f"`ci-doctor history` needs {' and '.join(missing)}, which {_verb(missing)} not installed",
            hint=install_extra(name),
        )


def _verb(missing: list[str]) -> str:
    return "is" if len(missing) == 1 else "are"
