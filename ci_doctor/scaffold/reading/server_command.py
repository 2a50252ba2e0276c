# SPDX-License-Identifier: Apache-2.0
"""Pure. A command that starts a server, as it stands in a file of the repository."""

from msgspec import Struct

from ci_doctor.scaffold.reading.source_file import ScriptPlace, TextKind


class ServerCommand(Struct, frozen=True, kw_only=True):
    """`words` from the program on, with what runs it (`uv run`) before them; a `$` of the shell is marked.

    kind: the row of the table. arguments: the place of the first word behind those that name the server.
    env: the assignments before the command. directory: where `cd` or a Dockerfile says that it runs,
    relative to what is looked at; empty if nothing says it. in_container: another machine or an image
    runs it. waits: the file goes on by sleeping or by polling.
    """

    kind: str
    file: str
    line: int
    place: ScriptPlace
    text_kind: TextKind
    words: tuple[str, ...]
    arguments: int
    env: dict[str, str] = {}
    directory: str = ""
    in_container: bool = False
    in_background: bool = False
