# SPDX-License-Identifier: Apache-2.0
"""Reads the installation: whether the libraries of an extra are there."""

from importlib.util import find_spec

from ci_doctor.errors import UsageError
from ci_doctor.model.distribution import install_extra

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
