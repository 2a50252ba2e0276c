# SPDX-License-Identifier: Apache-2.0
"""Pure. What the source of a web application says of it."""

from enum import StrEnum
from typing import Any

from msgspec import Struct


class Framework(StrEnum):
    """What makes the application."""

    FASTAPI = "FastAPI"
    FLASK = "Flask"
    # A server of the standard library, or of another framework: its paths are read, not its routes.
    OTHER = "other"


class Parameter(Struct, frozen=True, kw_only=True):
    """A parameter of a route: `kind` is the name of its type, `default` whether it has one."""

    name: str
    kind: str
    has_default: bool


class Route(Struct, frozen=True, kw_only=True):
    """One that answers with JSON and needs nothing but what is here.

    path: with `{name}` for its parameters. query: what stands behind the `?`. body: an example for a
    POST; where it is None the route takes no body.
    """

    method: str
    path: str
    line: int
    query: tuple[Parameter, ...] = ()
    in_path: tuple[Parameter, ...] = ()
    body: dict[str, Any] | None = None


class App(Struct, frozen=True, kw_only=True):
    """An application in `file`, under the name `variable` in its module.

    paths: the paths of URLs that the source names, for a server whose routes are not read.
    model: what a constant of the source calls the model. takes_port_option: its command line has
    `--port`. has_schema: FastAPI gives its description of the API. port_variable: the variable of the environment that holds the port. fixed_port: the one
    that the source names. is_run: the module starts its server itself. hidden: how many routes were
    left out, because they need what the source does not show.
    """

    file: str
    framework: Framework
    variable: str = "app"
    routes: tuple[Route, ...] = ()
    paths: tuple[str, ...] = ()
    model: str | None = None
    takes_port_option: bool = False
    port_variable: str | None = None
    fixed_port: int | None = None
    is_run: bool = False
    is_factory: bool = False
    has_schema: bool = True
    hidden: int = 0
