# SPDX-License-Identifier: Apache-2.0
r"""Pure. The dialects of CI logs: groups, annotations, and lines that must not act as either.

Buildkite: `--- `, `+++ ` and `~~~ ` at the start of a line begin a group, which lasts until the
next one; `^^^ +++` opens the one before.
https://buildkite.com/docs/pipelines/configure/managing-log-output
GitHub Actions: workflow commands `::name key=value::data`. Its runner looks for `::` behind white
space at the start of a line, and for the older `##[name]` anywhere in it (ActionCommand.cs).
https://docs.github.com/actions/reference/workflow-commands-for-github-actions
GitLab: `section_start:TIME:NAME\r\e[0K` and `section_end`, also in the middle of a line.
https://docs.gitlab.com/ci/jobs/job_logs/
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple, assert_never

from ci_doctor.render.formatting import one_line, printable

_TITLE_CELLS = 120
_ZERO_WIDTH = "\u200b"
_COLOUR = r"\x1b\[[0-9;]*m"  # of our own text
_BUILDKITE_HEADER = re.compile(rf"(^|[\r\n])((?:{_COLOUR})*)(?=(?:---|\+\+\+|~~~|\^\^\^)(?:\s|$))")
# White space is what .NET trims, without the ends of lines.
_GITHUB_COMMAND = re.compile(rf"(^|[\r\n])((?:[^\S\r\n]|{_COLOUR})*)(?=::)")
_GITHUB_OLD_COMMAND = re.compile(r"#(?=#\[)")
_GITLAB_SECTION = re.compile(r"section(?=_(?:start|end):)")
_NO_NAME = re.compile(r"[^A-Za-z0-9]+")


class Dialect(StrEnum):
    """The CI system whose log is written."""

    BUILDKITE = "buildkite"
    GITHUB = "github"
    GITLAB = "gitlab"


class LogSection(NamedTuple):
    """A group of the log. `key` sets it apart from the other groups of this job."""

    title: str
    key: str
    is_open: bool = False


def dialect_of(environ: Mapping[str, str]) -> Dialect | None:
    """The CI system that `environ` names; None outside of these three.

    https://buildkite.com/docs/pipelines/configure/environment-variables
    https://docs.github.com/actions/reference/workflows-and-actions/variables
    https://docs.gitlab.com/ci/variables/predefined_variables/
    """
    # Buildkite first: a job of it may run on a machine that another system has prepared.
    if environ.get("BUILDKITE") == "true":
        return Dialect.BUILDKITE
    if environ.get("GITHUB_ACTIONS") == "true":
        return Dialect.GITHUB
    if environ.get("GITLAB_CI") == "true":
        return Dialect.GITLAB
    return None


def start_of(group: LogSection, dialect: Dialect, epoch_s: float) -> str:
    """The line that begins `group` at `epoch_s` (seconds since 1970).

    Empty for an open group on GitHub: it has closed ones only.
    """
    title = header(group.title)
    match dialect:
        case Dialect.BUILDKITE:
            return f"{'+++' if group.is_open else '---'} {title}\n"
        case Dialect.GITHUB:
            return "" if group.is_open else f"::group::{_github_data(title)}\n"
        case Dialect.GITLAB:
            option = "" if group.is_open else "[collapsed=true]"
            return f"{_section('start', group, epoch_s)}{option}\r\x1b[0K{title}\n"
        case _ as never:
            assert_never(never)


def end_of(group: LogSection, dialect: Dialect, epoch_s: float) -> str:
    """The line that ends `group`; empty on Buildkite, where the next group does."""
    match dialect:
        case Dialect.BUILDKITE:
            return ""
        case Dialect.GITHUB:
            return "" if group.is_open else "::endgroup::\n"
        case Dialect.GITLAB:
            return f"{_section('end', group, epoch_s)}\r\x1b[0K\n"
        case _ as never:
            assert_never(never)


def _section(end: str, group: LogSection, epoch_s: float) -> str:
    """GitLab pairs the two ends of a section by a name of letters, digits and `_`."""
    name = _NO_NAME.sub("_", f"ci_doctor_{group.key}")[:100]
    return f"\x1b[0Ksection_{end}:{int(epoch_s)}:{name}"


def output_of_another(title: str, dialect: Dialect) -> str:
    """The line after which another program prints: only on Buildkite would it be in our group."""
    return f"--- {header(title)}\n" if dialect is Dialect.BUILDKITE else ""


def opened_again(dialect: Dialect) -> str:
    """The line that opens the group before it; empty where none can be opened any more."""
    return "^^^ +++\n" if dialect is Dialect.BUILDKITE else ""


def annotation(kind: str, message: str, **properties: str | int | None) -> str:
    """A line for GitHub that shows `message` beside the changed files; `kind`: error, warning.

    `properties`: `title`, `file`, `line`. They are escaped as
    https://github.com/actions/toolkit/blob/main/packages/core/src/command.ts does.
    """
    pairs = []
    for name, value in properties.items():
        if value is not None:
            escaped = _github_data(printable(str(value))).replace(":", "%3A").replace(",", "%2C")
            pairs.append(f"{name}={escaped}")
    listed = ",".join(pairs)
    head = f"{kind} {listed}" if listed else kind
    return f"::{head}::{_github_data(printable(message))}\n"


def commands_stopped(token: str) -> str:
    """The line after which GitHub takes no line for a command, until `commands_resumed`.

    `token` must be one that nobody can guess.
    """
    return f"::stop-commands::{token}\n"


def commands_resumed(token: str) -> str:
    """The line that ends `commands_stopped`."""
    return f"::{token}::\n"


def defused(text: str, dialect: Dialect) -> str:
    """`text` with no line that `dialect` would take for a command or the header of a group.

    Such a line gets a space before it on Buildkite, and an invisible one elsewhere.
    """
    match dialect:
        case Dialect.BUILDKITE:
            return _BUILDKITE_HEADER.sub(r"\1\2 ", text)
        case Dialect.GITHUB:
            text = _GITHUB_OLD_COMMAND.sub(f"#{_ZERO_WIDTH}", text)
            return _GITHUB_COMMAND.sub(rf"\1\2{_ZERO_WIDTH}", text)
        case Dialect.GITLAB:
            return _GITLAB_SECTION.sub(f"section{_ZERO_WIDTH}", text)
        case _ as never:
            assert_never(never)


def header(title: str) -> str:
    """`title` as one short line that does not act, whatever it holds."""
    from ci_doctor.render.layout import clip

    # Cut first: the rest of a title of a megabyte is never shown.
    short = title[: 4 * _TITLE_CELLS]
    return clip(one_line(printable(short)), _TITLE_CELLS)


def _github_data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
