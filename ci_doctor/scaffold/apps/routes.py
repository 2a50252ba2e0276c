# SPDX-License-Identifier: Apache-2.0
"""Pure. The routes of an application that can be asked with what its source shows."""

import ast
import re
from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

from ci_doctor.scaffold.apps.app import Framework, Parameter, Route
from ci_doctor.scaffold.apps.examples import UnknownTypeError, example_of, is_model, type_name
from ci_doctor.scaffold.apps.module_source import ModuleSource, ModuleTable

_VERBS: Final = {"get": "GET", "post": "POST"}
_PLAIN: Final = frozenset(("str", "int", "float", "bool"))
# What FastAPI gives a function by itself.
_GIVEN: Final = frozenset(("Request", "Response", "BackgroundTasks", "HTTPConnection"))
_PATH_PARAMETER: Final = re.compile(r"\{(\w+)(?::\w+)?\}|<(?:\w+:)?(\w+)>")
# What gives another value each time.
_CHANGING: Final = frozenset(
    (
        *(
            "now",
            "utcnow",
            "today",
            "time",
            "time_ns",
            "monotonic",
            "perf_counter",
            "uuid1",
            "uuid4",
        ),
        *("random", "randint", "choice", "token_hex", "token_urlsafe", "getpid", "urandom"),
    )
)
_REFUSALS: Final = frozenset(("HTTPException", "abort", "get_or_404", "first_or_404", "HTTP_404"))
# Paths of what a request does to a server, or to others.
_ACTS: Final = re.compile(
    r"shutdown|stop|kill|delete|remove|reset|sleep|wake|regist|log-?in|log-?out|sign-?up|auth|token|e?mail"
    r"|upload|download|webhook|callback|profile|pause|abort|load|update|create",
    re.IGNORECASE,
)
# A response of these is no JSON.
_NO_JSON: Final = frozenset(
    (
        *(
            "HTMLResponse",
            "PlainTextResponse",
            "FileResponse",
            "StreamingResponse",
            "RedirectResponse",
        ),
        *("Response", "EventSourceResponse", "TemplateResponse", "render_template", "send_file"),
        *("send_from_directory", "redirect"),
    )
)


class RawRoute(Struct, frozen=True, kw_only=True):
    """A function with a decorator of a route, before its parameters are looked at."""

    owner: str
    method: str
    path: str
    function: ast.FunctionDef | ast.AsyncFunctionDef
    status: int | None
    is_json: bool


def raw_routes(module: ModuleSource) -> Iterator[RawRoute]:
    """Every function of a module that serves a GET or a POST."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and isinstance(decorator.func, ast.Attribute):
                    yield from _of_decorator(decorator, decorator.func, node)


def _of_decorator(
    call: ast.Call, named: ast.Attribute, function: ast.FunctionDef | ast.AsyncFunctionDef
) -> Iterator[RawRoute]:
    path = _literal(call.args[0]) if call.args else None
    owner = type_name(named.value)
    if not isinstance(path, str) or not owner:
        return
    options = {each.arg: each.value for each in call.keywords}
    methods = [_VERBS[named.attr]] if named.attr in _VERBS else []
    if named.attr in {"route", "api_route"}:
        listed = _literal(options.get("methods")) or ["GET"]
        methods = [each for each in listed if each in {"GET", "POST"}]
    for method in methods:
        yield RawRoute(
            owner=owner,
            method=method,
            path=path,
            function=function,
            status=_status(options.get("status_code")),
            is_json=_gives_json(function, options.get("response_class")),
        )


def route_of(
    raw: RawRoute, prefix: str, framework: Framework, module: ModuleSource, table: ModuleTable
) -> Route | None:
    """The route with examples of what it takes; None if the source does not show what that is."""
    if not raw.is_json or raw.status not in {None, 200} or not _is_repeatable(raw):
        return None
    names = [first or second for first, second in _PATH_PARAMETER.findall(raw.path)]
    if framework is not Framework.FASTAPI:
        return _flask_route(raw, prefix, names)
    try:
        query, in_path, bodies = _parameters(raw, names, module, table)
    except UnknownTypeError:
        return None
    # A POST has one body here, and a GET none.
    if len(bodies) != (raw.method == "POST"):
        return None
    return Route(
        method=raw.method,
        path=_joined(prefix, raw.path),
        line=raw.function.lineno,
        query=tuple(query),
        in_path=tuple(in_path),
        body=bodies[0] if bodies else None,
    )


def _is_repeatable(raw: RawRoute) -> bool:
    """Whether a route can be asked again and again, and answers alike.

    One that looks something up may not have it, and an answer of 404 is none.
    """
    names = {type_name(node) for node in ast.walk(raw.function) if isinstance(node, ast.expr)}
    looks_up = _PATH_PARAMETER.search(raw.path) is not None
    if names & _CHANGING or (looks_up and names & _REFUSALS):
        return False
    return _ACTS.search(raw.path) is None


def _flask_route(raw: RawRoute, prefix: str, names: list[str]) -> Route | None:
    """Flask's functions take what is in the path alone; what a POST wants, nobody declares."""
    if raw.method == "POST" or not _returns_object(raw.function):
        return None
    in_path = [Parameter(name=name, kind="str", has_default=False) for name in names]
    path = _PATH_PARAMETER.sub(r"{\1\2}", raw.path)
    line = raw.function.lineno
    return Route(method="GET", path=_joined(prefix, path), line=line, in_path=tuple(in_path))


def _parameters(
    raw: RawRoute, names: list[str], module: ModuleSource, table: ModuleTable
) -> tuple[list[Parameter], list[Parameter], list[dict[str, Any]]]:
    """The parameters in the query, those in the path, and the bodies. Raises UnknownTypeError."""
    query: list[Parameter] = []
    in_path: list[Parameter] = []
    bodies: list[dict[str, Any]] = []
    for argument, default in _arguments(raw.function):
        annotation = argument.annotation
        kind = type_name(annotation) if annotation is not None else "str"
        if kind == "Optional" or isinstance(annotation, ast.BinOp):
            kind = _first_plain(annotation) or kind
        if kind in _GIVEN:
            continue
        if kind in _PLAIN and not _is_call_of(
            default, "Body", "Depends", "Header", "Cookie", "Form", "File", "Security"
        ):
            parameter = Parameter(name=argument.arg, kind=kind, has_default=_has_default(default))
            (in_path if argument.arg in names else query).append(parameter)
        elif annotation is not None and default is None and is_model(kind, module, table):
            bodies.append(example_of(annotation, module, table))
        elif not _has_default(default) or _is_call_of(default, "Depends", "Security"):
            # A database, a user who is logged in: nobody knows here what it takes.
            raise UnknownTypeError
    return query, in_path, bodies


def _arguments(
    function: ast.FunctionDef | ast.AsyncFunctionDef,
) -> Iterator[tuple[ast.arg, ast.expr | None]]:
    plain = [*function.args.posonlyargs, *function.args.args]
    missing = [None] * (len(plain) - len(function.args.defaults))
    for argument, default in zip(plain, [*missing, *function.args.defaults], strict=True):
        if argument.arg not in {"self", "cls"}:
            yield argument, default
    yield from zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)


def _first_plain(annotation: ast.expr | None) -> str | None:
    """`str` of `str | None` and of `Optional[str]`."""
    if annotation is None:
        return None
    for node in ast.walk(annotation):
        if isinstance(node, ast.Name) and node.id in _PLAIN:
            return node.id
    return None


def _has_default(default: ast.expr | None) -> bool:
    """Whether a parameter may be left out: `= 3`, `= Query(None)`, but not `= Query(...)`."""
    if default is None:
        return False
    if not isinstance(default, ast.Call):
        return True
    if not default.args:
        return any((each.arg or "").startswith("default") for each in default.keywords)
    first = default.args[0]
    return not (isinstance(first, ast.Constant) and first.value is ...)


def _is_call_of(default: ast.expr | None, *names: str) -> bool:
    return isinstance(default, ast.Call) and type_name(default.func) in names


def _gives_json(
    function: ast.FunctionDef | ast.AsyncFunctionDef, response_class: ast.expr | None
) -> bool:
    for annotation in (response_class, function.returns):
        if annotation is not None and type_name(annotation) in _NO_JSON:
            return False
    called = {type_name(node.func) for node in ast.walk(function) if isinstance(node, ast.Call)}
    return not called & _NO_JSON


def _returns_object(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function of Flask returns a dictionary or a list, or calls `jsonify`."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and type_name(node.func) == "jsonify":
            return True
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Dict | ast.List):
            return True
    return False


def _status(node: ast.expr | None) -> int | None:
    value = _literal(node)
    if isinstance(value, int):
        return value
    # `status.HTTP_201_CREATED`
    match = re.search(r"HTTP_(\d{3})", ast.dump(node)) if node is not None else None
    return int(match[1]) if match else None


def _literal(node: ast.expr | None) -> Any:
    if node is None:
        return None
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None


def _joined(prefix: str, path: str) -> str:
    return f"{prefix.rstrip('/')}{path}" or "/"
