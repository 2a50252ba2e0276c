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
from ci_doctor.model.words import PREPARED

# Names and digests of what ci-doctor exported earlier in this job, so that a later run may
# recompute its own values but never a person's. Digests, because a value changed by hand is no
# longer ours.
MARKER = "CI_DOCTOR_EXPORTS"


class ExportFormat(StrEnum):
    """How exports are written."""

    SHELL = "shell"
    FISH = "fish"
    DOTENV = "dotenv"
    GITHUB = "github"
    JSON = "json"


def render(variables: Mapping[str, str], style: ExportFormat, comments: Iterable[str] = ()) -> str:
    """`variables` in their order as text that ends in a newline; no variables give an empty text.

    `comments` follow where the format has them, one a line. They stand last: a shell that evaluates
    the text without quotes reads all of it as one line. Raises UsageError as `require_names`.
    """
    require_names(variables)
    if style is ExportFormat.JSON:
        return json.dumps(dict(variables), indent=2) + "\n"
    line = _LINES[style]
    text = "".join(line(name, value) for name, value in variables.items())
    # GitHub's file has no comments, and not every reader of dotenv files knows them.
    if not text or style not in (ExportFormat.SHELL, ExportFormat.FISH):
        return text
    return text + "".join(f"# {' '.join(comment.split())}\n" for comment in comments)


def require_names(names: Iterable[str]) -> None:
    """Raises UsageError for a name that no variable can have: in a shell it could be a command."""
    for name in names:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise UsageError(
                f"{name!r} cannot be the name of a variable", hint="correct the project's name"
            )


def failing_statement(code: int, style: ExportFormat = ExportFormat.SHELL) -> str:
    """A statement that fails with `code`: `eval "$(false)"` succeeds even under `set -e`.

    Empty for a format that nobody evaluates.
    """
    if style is ExportFormat.SHELL:
        return f"(exit {code})\n"
    # In fish, parentheses around a command are a substitution.
    if style is ExportFormat.FISH:
        return f"sh -c 'exit {code}';\n"
    return ""


def _shell_line(name: str, value: str) -> str:
    """As `shlex.quote`, which leaves `=` bare: zsh replaces a word beginning with it by a path."""
    if "=" not in value:
        return f"export {name}={shlex.quote(value)}\n"
    escaped = value.replace("'", "'\"'\"'")
    return f"export {name}='{escaped}'\n"


def _fish_line(name: str, value: str) -> str:
    r"""One line that ends in `;`: `eval` of a list joins the lines by spaces.

    Within single quotes fish knows two escapes, `\\` and `\'`; a newline is `\n` outside of them.
    """
    escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "'\\n'")
    return f"set -gx {name} '{escaped}';\n"


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
    ExportFormat.FISH: _fish_line,
    ExportFormat.DOTENV: _dotenv_line,
    ExportFormat.GITHUB: _github_line,
}


def marker(variables: Mapping[str, str], earlier: Mapping[str, str]) -> str:
    """The value of MARKER after exporting `variables`; `earlier` are those of earlier runs."""
    exported = {**earlier, **variables}
    return ",".join(f"{name}:{digest(exported[name])}" for name in sorted(exported))


def ours(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables in `environ` that an earlier run exported and nobody has changed since."""
    entries = _entries(environ)
    return {name: environ[name] for name in entries if _is_unchanged(name, entries, environ)}


def lost(environ: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """The variables that an earlier run exported and `environ` lacks, and those changed since."""
    entries = _entries(environ)
    gone = [name for name in entries if name not in environ]
    there = [name for name in entries if name in environ]
    return gone, [name for name in there if not _is_unchanged(name, entries, environ)]


def holds_all(environ: Mapping[str, str]) -> bool:
    """Whether `environ` has every export of an earlier run, as it was."""
    return PREPARED in environ and lost(environ) == ([], [])


def _entries(environ: Mapping[str, str]) -> dict[str, str]:
    """The digest of each exported value by the name of its variable; nothing that is no entry."""
    parts = (entry.partition(":") for entry in environ.get(MARKER, "").split(","))
    return {name: value for name, separator, value in parts if name and separator}


def _is_unchanged(name: str, entries: Mapping[str, str], environ: Mapping[str, str]) -> bool:
    return name in environ and digest(environ[name]) == entries[name]


def digest(value: str) -> str:
    """Twelve hexadecimal digits that stand for `value`."""
    # A value of the environment may hold bytes that are not UTF-8.
    return hashlib.sha256(value.encode("utf-8", "surrogateescape")).hexdigest()[:12]
