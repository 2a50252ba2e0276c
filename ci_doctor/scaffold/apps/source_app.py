# SPDX-License-Identifier: Apache-2.0
"""Pure. Applications in the source of a repository: what makes them, their port, their routes."""

import ast
import re
from collections.abc import Iterator
from typing import Any, Final

from ci_doctor.scaffold.apps.app import App, Framework, Route
from ci_doctor.scaffold.apps.examples import type_name
from ci_doctor.scaffold.apps.module_source import ModuleSource, ModuleTable
from ci_doctor.scaffold.apps.routes import raw_routes, route_of

_FRAMEWORKS: Final = {"FastAPI": Framework.FASTAPI, "Flask": Framework.FLASK}
_ROUTERS: Final = frozenset(("APIRouter", "Blueprint"))
_DEEPEST: Final = 6
_MOST_ROUTES: Final = 200
# Constants by which a program calls what it serves.
_MODEL: Final = re.compile(r"^(?:DEFAULT_|SERVED_)?MODEL(?:_NAME|_ID)?$")
_PATH: Final = re.compile(r"/[\w./-]+")
# A program with one of these may be a server.
_SERVES: Final = re.compile(
    r"FastAPI\(|Flask\(|HTTPServer|uvicorn\.run|aiohttp|web\.run_app|Starlette\(|Sanic\(|Quart\("
)


def may_serve(text: str) -> bool:
    """Whether a Python file may hold a server: a look at its text, before it is parsed."""
    return _SERVES.search(text) is not None


def app_in(file: str, variable: str | None, table: ModuleTable) -> App | None:
    """The application in a file; None if there is none.

    variable: its name in the module (`app` of `main:app`), or None for the first one.
    """
    # To parse each program that a repository runs would take seconds.
    if variable is None and not may_serve(table.files.get(file, "")):
        return None
    module = table.module(file)
    if module is None:
        return None
    made = dict(_made(module))
    if variable is not None and variable not in made:
        return _behind(module, variable, table)
    if not made:
        return _other(module, table)
    name = variable or next(iter(made))
    framework = made[name]
    routes, hidden = _routes(name, framework, module, table)
    return _app(module, table, framework=framework, variable=name, routes=routes, hidden=hidden)


def _made(module: ModuleSource) -> Iterator[tuple[str, Framework]]:
    """The applications that a module makes, at its top or in a function."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Call):
            framework = _FRAMEWORKS.get(type_name(node.value.func))
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if framework is not None and isinstance(targets[0], ast.Name):
                yield targets[0].id, framework


def _behind(module: ModuleSource, variable: str, table: ModuleTable) -> App | None:
    """The application that a module imports, or that its function `variable` makes."""
    imported = module.imports.get(variable)
    home = table.named(imported[0], module.file) if imported is not None else None
    if home is not None and home is not module:
        return app_in(home.file, None, table)
    made = dict(_made(module))
    if not made:
        called = _called_for(module, variable)
        imported = module.imports.get(called or "")
        home = table.named(imported[0], module.file) if imported is not None else None
        return app_in(home.file, None, table) if home is not None and home is not module else None
    name = next(iter(made))
    routes, hidden = _routes(name, made[name], module, table)
    return _app(
        module, table, framework=made[name], variable=variable, routes=routes, hidden=hidden
    )


def _called_for(module: ModuleSource, variable: str) -> str | None:
    """`create_app` of `app = create_app()`."""
    for node in module.tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            names = [type_name(each) for each in node.targets]
            if variable in names:
                return type_name(node.value.func)
    return None


def _other(module: ModuleSource, table: ModuleTable) -> App:
    return _app(module, table, framework=Framework.OTHER, variable="app", routes=(), hidden=0)


def _app(module: ModuleSource, table: ModuleTable, **given: Any) -> App:
    text = table.files[module.file]
    functions = {node.name for node in module.tree.body if isinstance(node, ast.FunctionDef)}
    return App(
        file=module.file,
        paths=tuple(dict.fromkeys(_paths(module))),
        model=_model(module, table),
        takes_port_option=bool(
            re.search(r"""["']--port["']|\bport\s*:\s*int\b.*=\s*typer""", text)
        ),
        port_variable=_port_variable(text),
        fixed_port=_fixed_port(text),
        is_run="uvicorn.run(" in text or ".run(" in text or "serve_forever" in text,
        has_schema="openapi_url=None" not in text,
        is_factory=given["variable"] in functions,
        **given,
    )


def _paths(module: ModuleSource) -> Iterator[str]:
    for node in ast.walk(module.tree):
        value = node.value if isinstance(node, ast.Constant) else None
        if isinstance(value, str) and _PATH.fullmatch(value):
            yield value


def _model(module: ModuleSource, table: ModuleTable) -> str | None:
    """A constant of the module, or of one that it imports from beside it."""
    homes = [module]
    for imported, _ in module.imports.values():
        home = table.named(imported, module.file)
        if home is not None:
            homes.append(home)
    for home in homes:
        for node in home.tree.body:
            if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Constant):
                continue
            name = type_name(node.targets[0])
            if _MODEL.match(name) and isinstance(node.value.value, str):
                return node.value.value
    return None


def _port_variable(text: str) -> str | None:
    match = re.search(r"""(?:environ(?:\.get)?|getenv)[\[(]\s*["'](\w*PORT)["']""", text)
    return match[1] if match else None


def _fixed_port(text: str) -> int | None:
    match = re.search(r"""\bport\s*=\s*(\d{2,5})\b|Server\(\(["'][^"']*["'],\s*(\d{2,5})""", text)
    return int(match[1] or match[2]) if match else None


def _routes(
    app: str, framework: Framework, module: ModuleSource, table: ModuleTable
) -> tuple[tuple[Route, ...], int]:
    """The routes of an application with those of its routers, and how many others there are."""
    routes: list[Route] = []
    hidden = 0
    for home, owner, prefix in _mounted(module, app, "", table, 0):
        for raw in raw_routes(home):
            if raw.owner != owner or len(routes) >= _MOST_ROUTES:
                continue
            route = route_of(raw, prefix, framework, home, table)
            if route is None:
                hidden += 1
            else:
                routes.append(route)
    return tuple(routes), hidden


def _mounted(
    module: ModuleSource, owner: str, prefix: str, table: ModuleTable, depth: int
) -> Iterator[tuple[ModuleSource, str, str]]:
    """An application or router, and all that it includes, each with the prefix of its paths."""
    yield module, owner, prefix
    if depth >= _DEEPEST:
        return
    for node in ast.walk(module.tree):
        if (
            not isinstance(node, ast.Call)
            or not isinstance(node.func, ast.Attribute)
            or not node.args
        ):
            continue
        if node.func.attr not in {"include_router", "register_blueprint"}:
            continue
        if type_name(node.func.value) != owner:
            continue
        router = _router(node.args[0], module, table)
        if router is not None:
            home, name, own = router
            given = _prefix(node, table)
            if given is not None:
                yield from _mounted(home, name, f"{prefix}{given}{own}", table, depth + 1)


def _router(
    expression: ast.expr, module: ModuleSource, table: ModuleTable
) -> tuple[ModuleSource, str, str] | None:
    """Where a router is made, its name there, and its own prefix."""
    home, name = _home_of(expression, module, table)
    if home is None:
        return None
    for node in ast.walk(home.tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            is_it = type_name(node.targets[0]) == name
            if is_it and type_name(node.value.func) in _ROUTERS:
                return home, name, _prefix(node.value, table) or ""
    return None


def _home_of(
    expression: ast.expr, module: ModuleSource, table: ModuleTable
) -> tuple[ModuleSource | None, str]:
    """The module in which `items.router` or `router` is made, and its name there."""
    name = type_name(expression)
    if isinstance(expression, ast.Attribute):
        imported = module.imports.get(type_name(expression.value), ("", ""))
        return table.named(".".join(filter(None, imported)), module.file), name
    home: ModuleSource | None = module
    # An import may lead to a module that imports it, too.
    for _ in range(2):
        if home is not None and name in home.imports:
            source, name = home.imports[name]
            home = table.named(source, home.file)
    return home, name


def _prefix(call: ast.Call, table: ModuleTable) -> str | None:
    """The `prefix` of a call; None if nobody can read it."""
    for keyword in call.keywords:
        if keyword.arg not in {"prefix", "url_prefix"}:
            continue
        if isinstance(keyword.value, ast.Constant):
            return str(keyword.value.value)
        return _setting(type_name(keyword.value), table)
    return ""


def _setting(name: str, table: ModuleTable) -> str | None:
    """`settings.API_V1_STR`, if one place of the repository gives it a text."""
    pattern = re.compile(
        rf"""^[ \t]*{re.escape(name)}[ \t]*(?::[ \t]*\w+[ \t]*)?=[ \t]*["']([^"'\n]*)["']""",
        re.MULTILINE,
    )
    values = set()
    for text in table.files.values():
        values.update(pattern.findall(text))
    return values.pop() if name and len(values) == 1 else None
