# SPDX-License-Identifier: Apache-2.0
"""Pure. From a command that starts a repository's own application to a service."""

import re
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from ci_doctor.scaffold.apps.app import App, Framework
from ci_doctor.scaffold.apps.locate import app_place
from ci_doctor.scaffold.apps.module_source import ModuleTable
from ci_doctor.scaffold.apps.source_app import app_in
from ci_doctor.scaffold.reading.server_command import ServerCommand
from ci_doctor.scaffold.reading.source_file import ScriptPlace, TextKind
from ci_doctor.scaffold.reading.variables import is_opaque, unknown_variables
from ci_doctor.scaffold.servers.candidate import ServerCandidate
from ci_doctor.scaffold.servers.make_candidate import with_known_host, with_port
from ci_doctor.scaffold.servers.option_words import PORT, has_option, with_value, without_option
from ci_doctor.scaffold.servers.server_kind import Api
from ci_doctor.scaffold.servers.table import BY_KIND, PYTHON_PROGRAM

_ENDINGS: Final = {
    "/chat/completions": Api.CHAT,
    "/completions": Api.COMPLETIONS,
    "/responses": Api.RESPONSES,
    "/embeddings": Api.EMBEDDINGS,
}
_HEALTH: Final = re.compile(
    r"(?:^|/)(?:health\w*|[\w-]*health-?check|livez|readyz?|ping|status|up)/?$"
)
# Python refuses to read thousands of digits.
_FOUR_OR_FIVE: Final = re.compile(r"[0-9]{4,5}")
# A server that starts itself again when a file changes is two processes, and stays when one dies.
_RELOADS: Final = (("--reload", 0), ("--reload-dir", 1), ("--debug", 0))


def app_candidate(command: ServerCommand, table: ModuleTable) -> ServerCandidate | None:
    """The service of a command; None if its application is not in the repository, or cannot be asked."""
    arguments = list(command.words[command.arguments :])
    if command.kind == "flask" and "run" not in arguments:
        return None
    place = app_place(command, table)
    app = app_in(place.file, place.variable, table) if place is not None else None
    if place is None or app is None:
        return None
    apis = _apis(app)
    if not apis:
        return None
    arguments, notes = _steady(arguments)
    env = dict(command.env)
    named = list(command.words[: command.arguments])
    if command.kind == "fastapi" and "dev" in named:
        named[named.index("dev")] = "run"
        notes.append("`fastapi run` in place of `fastapi dev`, which starts itself again")
    placed, ready = _with_port(command, app, with_known_host(arguments), env)
    if placed is None:
        return None
    words = (*named, *placed)
    if is_opaque((*words, *env.values())):
        return None
    if "{port}" not in ready and ready.partition("://")[2]:
        notes.append("its port is fixed in its source, so no other process may have it")
    return ServerCandidate(
        kind=command.kind,
        command=command,
        words=words,
        env=env,
        cwd=place.directory,
        ready=ready,
        apis=tuple(apis),
        paths=apis,
        model=app.model,
        app=app,
        unknown=unknown_variables([*words, *env.values()]),
        short_prompts=True,
        notes=tuple(notes),
    )


def bare_candidate(file: str, table: ModuleTable) -> ServerCandidate | None:
    """A service for an application that no command of the repository starts."""
    app = app_in(file, None, table)
    if app is None or app.framework is Framework.OTHER:
        return None
    module = file.removesuffix("/__init__.py").removesuffix(".py")
    # Packages are imported from the directory above the topmost one.
    directory, dotted = _import_name(module, table)
    target = f"{dotted}:{app.variable}"
    words: tuple[str, ...] = ("uvicorn", target)
    if app.framework is Framework.FLASK:
        words = ("flask", "--app", target, "run")
    command = ServerCommand(
        kind=words[0],
        file=file,
        line=1,
        place=ScriptPlace.SOURCE,
        text_kind=TextKind.PYTHON,
        words=words,
        arguments=1,
        directory=directory,
    )
    candidate = app_candidate(command, table)
    if candidate is None:
        return None
    note = "no file of the repository starts it, so this command is a guess"
    return replace(candidate, notes=(note, *candidate.notes))


def _import_name(module: str, table: ModuleTable) -> tuple[str, str]:
    """The directory to run in and the dotted name of a module, by where `__init__.py` files lie."""
    parts = module.split("/")
    first = len(parts) - 1
    while first > 0 and f"{'/'.join(parts[:first])}/__init__.py" in table.files:
        first -= 1
    return "/".join(parts[:first]), ".".join(parts[first:])


def _steady(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The arguments without those that make a server start itself again."""
    made = list(arguments)
    notes = []
    for option, values in _RELOADS:
        if has_option(made, option):
            made = without_option(made, option, values)
            notes.append(f"without {option}, which starts it again when a file changes")
    return made, notes


def _with_port(
    command: ServerCommand, app: App, arguments: list[str], env: dict[str, str]
) -> tuple[list[str] | None, str]:
    """The arguments with a free port, and the probe; None if nobody knows how the port is given.

    `env` gets the port if the program reads it there.
    """
    ready = _ready(app)
    if command.kind != PYTHON_PROGRAM:
        return with_port(BY_KIND[command.kind], arguments), ready
    placed = _of_program(app, arguments, env)
    if placed is not None or app.fixed_port is None:
        return placed, ready
    at_port = f"127.0.0.1:{app.fixed_port}"
    return arguments, f"http://{at_port}{ready}" if ready.startswith("/") else f"tcp://{at_port}"


def _of_program(app: App, arguments: list[str], env: dict[str, str]) -> list[str] | None:
    """The arguments of a program of the repository with a free port; None if it takes none."""
    placed = with_value(arguments, ("--port", "-p"), PORT)
    if placed is None and app.takes_port_option:
        return [*arguments, "--port", PORT]
    if placed is None and app.port_variable is not None:
        env[app.port_variable] = PORT
        return arguments
    ports = [at for at in range(len(arguments)) if _is_port(arguments, at, app.fixed_port)]
    if placed is None and len(ports) == 1:
        placed = [*arguments]
        placed[ports[0]] = PORT
    return placed


def _is_port(arguments: Sequence[str], at: int, fixed: int | None) -> bool:
    """Whether a word is the port: no value of another option, and the one that the source has, if it has one."""
    word = arguments[at]
    if not _FOUR_OR_FIVE.fullmatch(word) or not 1024 <= int(word) < 65536:
        return False
    before = arguments[at - 1] if at else ""
    if before.startswith("-") and "=" not in before:
        return before.endswith("port")
    return fixed is None or int(word) == fixed


def _ready(app: App) -> str:
    asked = [route.path for route in app.routes if route.method == "GET" and not route.in_path]
    for path in (*asked, *app.paths):
        if _HEALTH.search(path) is not None:
            return path
    if app.framework is Framework.FASTAPI and app.has_schema:
        return "/openapi.json"
    return "tcp://127.0.0.1:{port}"


def _apis(app: App) -> dict[Api, str]:
    """What an application answers, and where: an API that others have too, else its own routes."""
    paths = [*app.paths, *(route.path for route in app.routes)]
    by_api: dict[Api, str] = {}
    for path in paths:
        for ending, api in _ENDINGS.items():
            if path.rstrip("/").endswith(ending):
                by_api.setdefault(api, path)
                break
    if by_api:
        return by_api
    can_be_asked = bool(app.routes) or (app.framework is Framework.FASTAPI and app.has_schema)
    return {Api.ROUTES: "/"} if can_be_asked else {}
