# SPDX-License-Identifier: Apache-2.0
r"""The logs of CI systems as those systems read them, for tests: each says which behaviour it copies.

Buildkite: "at the beginning of a line": `---`, `+++`, `~~~`, `^^^ +++`
(https://buildkite.com/docs/pipelines/configure/managing-log-output). A group has no end of its own.
GitHub: src/Runner.Common/ActionCommand.cs of actions/runner: `::` after the white space that .NET trims,
`##[` anywhere, and only names that are registered (ActionCommandManager.cs); `::stop-commands::TOKEN`
until `::TOKEN::`.
GitLab: `section_start:TIME:NAME[OPTIONS]\r\e[0K`
(https://docs.gitlab.com/ci/jobs/job_logs/), anywhere in a line.
"""

import re
from typing import NamedTuple

_BUILDKITE = re.compile(r"(?:\x1b\[[0-9;]*m)*(---|\+\+\+|~~~|\^\^\^ \+\+\+)(?:\s+(.*))?$")
_REGISTERED = {
    *("add-mask", "add-matcher", "add-path", "debug", "echo", "endgroup", "error", "group"),
    *(
        "notice",
        "remove-matcher",
        "save-state",
        "set-env",
        "set-output",
        "stop-commands",
        "warning",
    ),
}
_GITLAB = re.compile(
    r"section_(start|end):(\d+):([a-zA-Z0-9_.-]+)(\[[a-zA-Z0-9_=, ]*\])?\r\x1b\[0K([^\r\n]*)"
)


class Command(NamedTuple):
    """One line of a log that acts: the name, what stands beside it, and its text."""

    name: str
    properties: dict[str, str]
    data: str


def lines_of(log: str) -> list[str]:
    """As `StreamReader.ReadLine` and a browser divide it."""
    return re.split(r"\r\n|\r|\n", log)


def buildkite_headers(log: str) -> list[tuple[str, str]]:
    """The mark and the title of each group."""
    headers = []
    for line in lines_of(log):
        match = _BUILDKITE.match(line)
        if match:
            headers.append((match[1], match[2] or ""))
    return headers


def github_commands(log: str) -> list[Command]:
    """The commands on which the runner acts, in order."""
    commands: list[Command] = []
    token = ""
    for line in lines_of(log):
        command = _github_command(line, token)
        if command is None:
            continue
        if token:
            token = ""
            continue
        commands.append(command)
        if command.name == "stop-commands":
            token = command.data
    return commands


def gitlab_sections(log: str) -> list[tuple[str, str, str, str]]:
    """`start` or `end`, the name, the options and the header of each marker."""
    return [(match[1], match[3], match[4] or "", match[5]) for match in _GITLAB.finditer(log)]


def _github_command(line: str, token: str) -> Command | None:
    names = {token} if token else _REGISTERED
    trimmed = line.lstrip()
    if trimmed.startswith("::") and "::" in trimmed[2:]:
        head, _, data = trimmed[2:].partition("::")
        name, _, listed = head.partition(" ")
        if name in names:
            return Command(name, _properties(listed), _unescaped(data))
    _, mark, rest = line.partition("##[")
    if mark and "]" in rest:
        head, _, data = rest.partition("]")
        name = head.partition(" ")[0]
        if name in names:
            return Command(name, {}, data)
    return None


def _properties(listed: str) -> dict[str, str]:
    pairs = [pair.split("=", 1) for pair in listed.strip().split(",") if "=" in pair]
    return {name: _unescaped(value, (":", "%3A"), (",", "%2C")) for name, value in pairs}


def _unescaped(text: str, *more: tuple[str, str]) -> str:
    for character, escaped in (("\r", "%0D"), ("\n", "%0A"), *more, ("%", "%25")):
        text = text.replace(escaped, character)
    return text
