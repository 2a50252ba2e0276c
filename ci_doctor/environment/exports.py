# SPDX-License-Identifier: Apache-2.0
"""Variables as text: for a shell, a dotenv file, GitHub's environment file, a program. Pure."""

import hashlib
import json
import re
import shlex
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import assert_never

from ci_doctor.errors import UsageError

# Names and digests of what ci-doctor exported earlier in this job, so that a later run may recompute its own values
# but never a person's. Digests, because a value changed by hand afterwards is no longer ours.
MARKER = "CI_DOCTOR_EXPORTS"


class ExportFormat(StrEnum):
    """How exports are written."""

    SHELL = "shell"
    DOTENV = "dotenv"
    GITHUB = "github"
    JSON = "json"


def render(variables: Mapping[str, str], style: ExportFormat) -> str:
    """`variables` in their order as text that ends in a newline (empty for none). Raises UsageError as `require_names`."""
    require_names(variables)
    match style:
        case ExportFormat.SHELL:
            return "".join(f"export {name}={_shell(value)}\n" for name, value in variables.items())
        case ExportFormat.DOTENV:
            return "".join(f"{name}={_dotenv(value)}\n" for name, value in variables.items())
        case ExportFormat.GITHUB:
            return "".join(_github(name, value) for name, value in variables.items())
        case ExportFormat.JSON:
            return json.dumps(dict(variables), indent=2) + "\n"
        case _ as never:
            assert_never(never)


def require_names(names: Iterable[str]) -> None:
    """Raises UsageError for what cannot be the name of a variable: in a shell it could be a command."""
    for name in names:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise UsageError(
                f"{name!r} cannot be the name of a variable", hint="correct the project's name"
            )


def failing_statement(code: int) -> str:
    """A shell statement that fails with `code`: `eval "$(false)"` would go on even under `set -e`."""
    return f"(exit {code})\n"


def _shell(value: str) -> str:
    """As `shlex.quote`, which leaves `=` bare: zsh replaces a word that begins with it by the path of a command."""
    if "=" not in value:
        return shlex.quote(value)
    escaped = value.replace("'", "'\"'\"'")
    return f"'{escaped}'"


def _dotenv(value: str) -> str:
    r"""Bare where nothing can be misread, else in single quotes as python-dotenv reads them (`\` and `'` escaped).

    It has no way to write `${`, which it replaces by a variable unless it is told not to (`interpolate=False`).
    """
    if re.fullmatch(r"[\w./:@%+,=-]*", value, re.ASCII):
        return value
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _github(name: str, value: str) -> str:
    """GITHUB_ENV's line form, or its here-document form with a delimiter that the value does not hold.

    https://docs.github.com/en/actions/reference/workflow-commands-for-github-actions#multiline-strings
    """
    if "\n" not in value and "\r" not in value:
        return f"{name}={value}\n"
    delimiter = f"ci-doctor-{hashlib.sha256(value.encode()).hexdigest()[:16]}"
    return f"{name}<<{delimiter}\n{value}\n{delimiter}\n"


def marker(variables: Mapping[str, str], earlier: Mapping[str, str]) -> str:
    """The value of MARKER after exporting `variables` over what was `earlier` ours."""
    ours = {**earlier, **variables}
    return ",".join(f"{name}:{_digest(value)}" for name, value in sorted(ours.items()))


def ours(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables in `environ` that an earlier run exported and nobody has changed since."""
    found = {}
    for entry in environ.get(MARKER, "").split(","):
        name, _, digest = entry.partition(":")
        if name in environ and _digest(environ[name]) == digest:
            found[name] = environ[name]
    return found


def _digest(value: str) -> str:
    return hashlib.sha256(value.encode("utf-8", "surrogateescape")).hexdigest()[:12]
