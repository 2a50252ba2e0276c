# SPDX-License-Identifier: Apache-2.0
"""Pure. Variables as text: for a shell, a dotenv file, GitHub's environment file, a program."""

import hashlib
import json
import re
import shlex
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from ci_doctor.errors import UsageError

# Names and digests of what ci-doctor exported earlier in this job, so that a later run may
# recompute its own values but never a person's. Digests, because a value changed by hand is no
# longer ours.
MARKER = "CI_DOCTOR_EXPORTS"


class ExportFormat(StrEnum):
    """How exports are written."""

    SHELL = "shell"
    DOTENV = "dotenv"
    GITHUB = "github"
    JSON = "json"


def render(variables: Mapping[str, str], style: ExportFormat) -> str:
    """`variables` in their order as text that ends in a newline; no variables give an empty text.

    Raises UsageError as `require_names`.
    """
    require_names(variables)
    if style is ExportFormat.JSON:
        return json.dumps(dict(variables), indent=2) + "\n"
    line = _LINES[style]
    return "".join(line(name, value) for name, value in variables.items())


def require_names(names: Iterable[str]) -> None:
    """Raises UsageError for a name that no variable can have: in a shell it could be a command."""
    for name in names:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise UsageError(
                f"{name!r} cannot be the name of a variable", hint="correct the project's name"
            )


def failing_statement(code: int) -> str:
    """A shell statement that fails with `code`: `eval "$(false)"` succeeds even under `set -e`."""
    return f"(exit {code})\n"


def _shell_line(name: str, value: str) -> str:
    """As `shlex.quote`, which leaves `=` bare: zsh replaces a word beginning with it by a path."""
    if "=" not in value:
        return f"export {name}={shlex.quote(value)}\n"
    escaped = value.replace("'", "'\"'\"'")
    return f"export {name}='{escaped}'\n"


def _dotenv_line(name: str, value: str) -> str:
    r"""Bare if nothing can be misread, else in single quotes as python-dotenv reads them.

    `\` and `'` are escaped. The format cannot express `${`: python-dotenv replaces it by a variable
    unless the reader passes `interpolate=False`.
    """
    if re.fullmatch(r"[\w./:@%+,=-]*", value, re.ASCII):
        return f"{name}={value}\n"
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"{name}='{escaped}'\n"


def _github_line(name: str, value: str) -> str:
    """GITHUB_ENV's line form, or its here-document form with a delimiter absent from the value.

    https://docs.github.com/en/actions/reference/workflow-commands-for-github-actions#multiline-strings
    """
    if "\n" not in value and "\r" not in value:
        return f"{name}={value}\n"
    delimiter = f"ci-doctor-{hashlib.sha256(value.encode()).hexdigest()[:16]}"
    return f"{name}<<{delimiter}\n{value}\n{delimiter}\n"


_LINES: Final = {
    ExportFormat.SHELL: _shell_line,
    ExportFormat.DOTENV: _dotenv_line,
    ExportFormat.GITHUB: _github_line,
}


def marker(variables: Mapping[str, str], earlier: Mapping[str, str]) -> str:
    """The value of MARKER after exporting `variables`; `earlier` are those of earlier runs."""
    exported = {**earlier, **variables}
    entries = [f"{name}:{_digest(exported[name])}" for name in sorted(exported)]
    return ",".join(entries)


def ours(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables in `environ` that an earlier run exported and nobody has changed since."""
    unchanged = {}
    for entry in environ.get(MARKER, "").split(","):
        name, _, digest = entry.partition(":")
        if name in environ and _digest(environ[name]) == digest:
            unchanged[name] = environ[name]
    return unchanged


def _digest(value: str) -> str:
    # A value of the environment may hold bytes that are not UTF-8.
    encoded = value.encode("utf-8", "surrogateescape")
    return hashlib.sha256(encoded).hexdigest()[:12]
