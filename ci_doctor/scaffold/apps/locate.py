# SPDX-License-Identifier: Apache-2.0
"""Pure. Which file of the repository a command of a web server means, and where it must run."""

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Final

from msgspec import Struct

from ci_doctor.scaffold.apps.module_source import ModuleTable
from ci_doctor.scaffold.reading.server_command import ServerCommand
from ci_doctor.scaffold.servers.option_words import option_value

# Where `fastapi run` looks if it is given no file.
_FASTAPI_FILES: Final = (
    *("main.py", "app.py", "api.py"),
    *("app/main.py", "app/app.py", "app/api.py"),
)
_FLASK_FILES: Final = ("wsgi.py", "app.py")


class AppPlace(Struct, frozen=True, kw_only=True):
    """`file` holds the application, `variable` is its name there if the command tells it.

    directory: where the command must run, relative to what is looked at; empty for that itself.
    """

    file: str
    variable: str | None
    directory: str


def app_place(command: ServerCommand, table: ModuleTable) -> AppPlace | None:
    """Where the application of a command lies; None if no file of the repository is it."""
    arguments = command.words[command.arguments :]
    match command.kind:
        case "uvicorn" | "gunicorn" | "hypercorn":
            return _of_target(arguments, command, table)
        case "fastapi":
            files = [word for word in arguments if word.endswith(".py")] or _FASTAPI_FILES
            return _first_file(files, command, table)
        case "flask":
            return _of_flask(command, table)
        case _:
            program = command.words[command.arguments - 1]
    if not program.endswith(".py"):
        path = program.replace(".", "/")
        return _first_file([f"{path}.py", f"{path}/__main__.py"], command, table)
    return _first_file([program], command, table)


def _of_target(
    arguments: Sequence[str], command: ServerCommand, table: ModuleTable
) -> AppPlace | None:
    target = next((word for word in arguments if _is_target(word)), None)
    if target is None:
        return None
    dotted, _, variable = target.partition(":")
    module = dotted.replace(".", "/")
    inside = option_value(arguments, ("--app-dir", "--chdir", "--pythonpath")) or ""
    for _, file, base in _files(f"{module}.py", command, table):
        directory = base
        if inside.strip("./"):
            directory = base.removesuffix(inside.strip("./")).rstrip("/")
        return AppPlace(file=file, variable=variable.rstrip("()"), directory=directory)
    for _, file, base in _files(f"{module}/__init__.py", command, table):
        return AppPlace(file=file, variable=variable.rstrip("()"), directory=base)
    return None


def _is_target(word: str) -> bool:
    """Whether a word is `package.module:app`, and no HOST:PORT."""
    module, colon, variable = word.partition(":")
    names = [*module.split("."), variable.rstrip("()")]
    return bool(colon) and all(name.isidentifier() for name in names)


def _of_flask(command: ServerCommand, table: ModuleTable) -> AppPlace | None:
    given = option_value(command.words, ("--app", "-A")) or command.env.get("FLASK_APP")
    if given is None:
        return _first_file(_FLASK_FILES, command, table)
    module, _, variable = given.partition(":")
    path = module if module.endswith(".py") else f"{module.replace('.', '/')}.py"
    place = _first_file([path, path.replace(".py", "/__init__.py")], command, table)
    if place is None:
        return None
    return AppPlace(file=place.file, variable=variable or None, directory=place.directory)


def _first_file(
    names: Sequence[str], command: ServerCommand, table: ModuleTable
) -> AppPlace | None:
    """The file nearest to where the command runs; of files as near the first of `names`."""
    ranked = []
    for order, name in enumerate(names):
        for distance, file, base in _files(name, command, table):
            ranked.append((distance, order, file, base))
    if not ranked:
        return None
    _, _, file, base = min(ranked)
    return AppPlace(file=file, variable=None, directory=base)


def _files(
    name: str, command: ServerCommand, table: ModuleTable
) -> Iterator[tuple[tuple[int, int], str, str]]:
    """The files that end with `name`: how far away, and the directory before it; the nearest first."""
    name = str(PurePosixPath(name)).lstrip("/")
    parts = name.split("/")
    while parts and parts[0] in {"..", "."}:
        parts.pop(0)
    ending = "/".join(parts)
    own = command.file.rpartition("/")[0]
    ranked = []
    for file in table.files:
        if file == ending or file.endswith(f"/{ending}"):
            base = file[: -len(ending)].rstrip("/")
            ranked.append((_distance(base, own, command.directory), file, base))
    yield from sorted(ranked)


def _distance(base: str, own: str, directory: str) -> tuple[int, int]:
    """How far a directory is from where a command says it runs, from its own, from the top."""
    wanted = directory.strip("./")
    if wanted and (base == wanted or base.endswith(f"/{wanted}")):
        return (0, len(base))
    if base == own:
        return (1, 0)
    if not base:
        return (2, 0)
    is_near = own.startswith(base) or base.startswith(own)
    return (3 if is_near else 4, len(base))
