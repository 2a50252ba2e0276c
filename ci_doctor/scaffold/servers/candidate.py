# SPDX-License-Identifier: Apache-2.0
"""Pure. A server that can be proposed as a service."""

from msgspec import Struct

from ci_doctor.scaffold.apps.app import App
from ci_doctor.scaffold.reading.server_command import ServerCommand
from ci_doctor.scaffold.servers.server_kind import Api


class ServerCandidate(Struct, frozen=True, kw_only=True):
    """A command made ready to be started with a free port.

    words: with `{port}` where the port was; a `$` of the shell is still marked. ready: its probe.
    paths: where it answers an API, if not at the usual place. model: as requests name it; None if nobody knows. cwd: relative to the directory of the
    configuration; empty for that one. unknown: variables that the job must bring. connector: what keeps its keys and
    values elsewhere, in a word. notes: what was changed in the command, and what else a reader must
    know. short_prompts: its context may be small. role: it is one part of a server that several make.
    count: how often the repository starts it.
    """

    kind: str
    command: ServerCommand
    words: tuple[str, ...]
    env: dict[str, str] = {}
    cwd: str = ""
    ready: str = "/health"
    apis: tuple[Api, ...] = ()
    paths: dict[Api, str] = {}
    model: str | None = None
    app: App | None = None
    unknown: tuple[str, ...] = ()
    connector: str | None = None
    role: str | None = None
    is_engine: bool = False
    short_prompts: bool = False
    notes: tuple[str, ...] = ()
    count: int = 1

    @property
    def origin(self) -> str:
        """`file:line` of the command."""
        return f"{self.command.file}:{self.command.line}"
