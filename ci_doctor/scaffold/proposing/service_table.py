# SPDX-License-Identifier: Apache-2.0
"""Pure. A server as a `[services.NAME]` table."""

import re
import shlex
from typing import Final

from ci_doctor.scaffold.proposing.toml_text import toml_key, toml_list, toml_string, toml_table
from ci_doctor.scaffold.reading.shell_words import BARE, QUOTED
from ci_doctor.scaffold.reading.variables import unknown_variables
from ci_doctor.scaffold.servers.candidate import ServerCandidate

_SIMPLE: Final = re.compile(r"[\w@%+=:,./{}\[\]-]+")
_LIVE: Final = re.compile(f"[{BARE}{QUOTED}]")
_WIDEST: Final = 88


def service_table(name: str, server: ServerCandidate, *comments: str) -> str:
    """The table with where it comes from, and what a reader must know, as comments above it."""
    # A comment ends with its line, whatever a file is called.
    remarks = (*comments, *_remarks(server))
    lines = ["# " + "".join(filter(str.isprintable, remark)) for remark in remarks]
    lines += [f"[services.{toml_key(name)}]", f"command = {_command(server)}"]
    settled = _settled(server)
    if settled:
        lines.append(f"env = {toml_table(settled)}")
    if server.cwd:
        lines.append(f"cwd = {toml_string(server.cwd)}")
    lines.append(f"ready = {toml_string(server.ready)}")
    return "\n".join(lines) + "\n"


def _remarks(server: ServerCandidate) -> list[str]:
    remarks = list(server.notes)
    if server.unknown:
        names = ", ".join(server.unknown)
        remarks.append(f"the job must set {names}: the shell below takes them from its environment")
    if server.command.in_container:
        remarks.append("there it runs in a container; here it runs as it is")
    return remarks


def _command(server: ServerCandidate) -> str:
    """A text if no word needs a quote, else a list; with variables a shell of its own."""
    if server.unknown:
        return toml_list(["bash", "-uc", f"exec {_script(server)}"])
    if all(_SIMPLE.fullmatch(word) for word in server.words):
        line = " ".join(server.words)
        if len(line) <= _WIDEST:
            return toml_string(line)
    return toml_list(server.words)


def _script(server: ServerCandidate) -> str:
    """The words for a shell, in which the variables are still alive."""
    words = [_quoted(word) for word in server.words]
    variables = [
        f"{name}={_quoted(value)}"
        for name, value in server.env.items()
        if unknown_variables([value])
    ]
    return " ".join(["env", *variables, *words] if variables else words)


def _quoted(word: str) -> str:
    if not _LIVE.search(word):
        return word if _SIMPLE.fullmatch(word) else shlex.quote(word)
    escaped = re.sub(r'([\\"$`])', r"\\\1", word)
    return f'"{_LIVE.sub("$", escaped)}"'


def _settled(server: ServerCandidate) -> dict[str, str]:
    """The variables whose values are known; the others are set by the shell."""
    return {name: value for name, value in server.env.items() if not unknown_variables([value])}
