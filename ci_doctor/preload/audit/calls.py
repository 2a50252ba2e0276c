# SPDX-License-Identifier: Apache-2.0
"""Pure. Arguments of calls, the elements of collections, and what some library calls give."""

import ast
from collections.abc import Callable, Iterable
from importlib.util import resolve_name
from typing import Final

from ci_doctor.preload.audit.functions import (
    all_parameters,
    decorator_names,
    defaults,
    parameters,
)
from ci_doctor.preload.audit.values import (
    Answers,
    Deferred,
    ExternalValue,
    FunctionValue,
    Given,
    InstanceValue,
    LiteralValue,
    MethodValue,
    ModuleValue,
    PartialValue,
    Scope,
    SuperValue,
    TextValue,
    Typed,
    Value,
    Values,
)

IMPORTERS: Final = frozenset({"importlib.import_module", "builtins.__import__"})
_COPIES: Final = frozenset(
    f"builtins.{name}"
    for name in ("list", "tuple", "set", "frozenset", "sorted", "reversed", "enumerate", "iter")
)

_DEEPEST_COPY = 4


def argument(call: ast.Call, position: int, keyword: str) -> ast.expr | None:
    """The expression given by keyword, else at `position`; None if neither is there."""
    for given in call.keywords:
        if given.arg == keyword:
            return given.value
    before = call.args[: position + 1]
    if position < 0 or len(before) <= position:
        return None
    if any(isinstance(each, ast.Starred) for each in before):
        return None
    return before[position]


def bind_arguments(
    function: FunctionValue, call: ast.Call | None, caller: Scope
) -> dict[str, Given]:
    """The parameters of `function` in that call; `self` and defaults included."""
    given = _without_arguments(function)
    own = parameters(function.node)
    if function.itself is not None and own:
        given[own[0].arg] = (function.itself,)
        own = own[1:]
    if call is None:
        return given
    for parameter, value in zip(own, call.args, strict=False):
        if isinstance(value, ast.Starred):
            break
        given[parameter.arg] = Deferred(value, caller)
    names = {each.arg for each in (*own, *function.node.args.kwonlyargs)}
    for keyword in call.keywords:
        if keyword.arg in names:
            given[keyword.arg] = Deferred(keyword.value, caller)
    return given


def _without_arguments(function: FunctionValue) -> dict[str, Given]:
    """The parameters by default and annotation alone."""
    given: dict[str, Given] = {}
    for each in all_parameters(function.node):
        given[each.arg] = Typed(each.annotation, function.scope) if each.annotation else ()
    for name, default in defaults(function.node).items():
        # A default of None says less than the annotation.
        if not isinstance(default, ast.Constant) or isinstance(default.value, str):
            given[name] = Deferred(default, function.scope)
    return given


def given_first(function: FunctionValue, values: Values) -> dict[str, Given]:
    """The parameters if `values` are the only argument, as for a decorator."""
    given = bind_arguments(function, None, function.scope)
    own = parameters(function.node)
    if function.itself is not None:
        own = own[1:]
    if own:
        given[own[0].arg] = values
    return given


def elements_of(
    answers: Answers, values: Iterable[Value], key: ast.expr | None, *, depth: int = 0
) -> Values:
    """The elements of collections; of a dictionary its values, or the one of a constant `key`."""
    # A name may stand for a copy of itself.
    if depth > _DEEPEST_COPY:
        return ()
    elements: list[Value] = []
    for value in values:
        if isinstance(value, LiteralValue):
            for element in _elements(value.expression, key):
                elements += answers.resolve(element, value.scope)
        elif isinstance(value, InstanceValue) and _is_copy(value):
            elements += elements_of(answers, _copied(answers, value), None, depth=depth + 1)
    return tuple(dict.fromkeys(elements))


def _elements(display: ast.expr, key: ast.expr | None) -> list[ast.expr]:
    if isinstance(display, ast.Dict):
        pairs = list(zip(display.keys, display.values, strict=True))
        if isinstance(key, ast.Constant):
            named = [value for name, value in pairs if _is_constant(name, key.value)]
            return named or [value for _, value in pairs]
        return [value for _, value in pairs]
    elements = list(getattr(display, "elts", ()))
    if isinstance(key, ast.Constant) and isinstance(key.value, int):
        return elements[key.value : key.value + 1] or elements
    return elements


def _is_constant(expression: ast.expr | None, value: object) -> bool:
    return isinstance(expression, ast.Constant) and expression.value == value


def _copied(answers: Answers, value: InstanceValue) -> Values:
    if value.call is None or value.scope is None:
        return ()
    return answers.resolve(value.call.args[0], value.scope)


def _is_copy(value: InstanceValue) -> bool:
    if value.call is None or not value.call.args:
        return False
    return isinstance(value.kind, ExternalValue) and value.kind.name in _COPIES


def external_call(
    answers: Answers, callee: ExternalValue | MethodValue, call: ast.Call | None, scope: Scope
) -> Values:
    """What a call into external code gives: mostly an object of which only the maker is known."""
    made = (InstanceValue(ExternalValue(callee.name), call, scope),)
    if call is None:
        return made
    if isinstance(callee, MethodValue) and isinstance(callee.itself, LiteralValue):
        return elements_of(answers, (callee.itself,), call.args[0] if call.args else None)
    if callee.name == "builtins.super":
        return _super(scope)
    special = _SPECIAL.get(callee.name)
    if special is None or len(call.args) < special[0]:
        return made
    return special[1](answers, call, scope)


def _super(scope: Scope) -> Values:
    at: Scope | None = scope
    while at is not None and at.owner is None:
        at = at.parent
    if at is None or at.owner is None:
        return ()
    return (SuperValue(at.owner, at.itself),)


def imported_names(answers: Answers, call: ast.Call, scope: Scope) -> list[str]:
    """The absolute names that a call of `import_module` or `__import__` imports, where known."""
    name = argument(call, 0, "name")
    package = argument(call, 1, "package")
    names = [] if name is None else _texts(answers, name, scope)
    packages = [] if package is None else _texts(answers, package, scope)
    modules = [each for each in names if each and not each.startswith(".")]
    for each in names:
        if each.startswith("."):
            modules += [_absolute(each, base) for base in packages]
    return [each for each in modules if each]


def _texts(answers: Answers, expression: ast.expr, scope: Scope) -> list[str]:
    values = answers.resolve(expression, scope)
    return [value.text for value in values if isinstance(value, TextValue)]


def _absolute(name: str, package: str) -> str:
    try:
        return resolve_name(name, package)
    except (ImportError, ValueError):  # above the top, or no package
        return ""


def _imported(answers: Answers, call: ast.Call, scope: Scope) -> Values:
    return tuple(ModuleValue(name) for name in imported_names(answers, call, scope))


def _getattr(answers: Answers, call: ast.Call, scope: Scope) -> Values:
    values: list[Value] = []
    for name in answers.resolve(call.args[1], scope):
        if isinstance(name, TextValue):
            for value in answers.resolve(call.args[0], scope):
                values += answers.attribute(value, name.text)
    return tuple(values)


def _partial(answers: Answers, call: ast.Call, scope: Scope) -> Values:
    return tuple(PartialValue(value) for value in answers.resolve(call.args[0], scope))


def _first(answers: Answers, call: ast.Call, scope: Scope) -> Values:
    return answers.resolve(call.args[0], scope)


def _second(answers: Answers, call: ast.Call, scope: Scope) -> Values:
    return answers.resolve(call.args[1], scope)


# By name: the arguments that the call must have, and what it gives.
_SPECIAL: Final[dict[str, tuple[int, Callable[[Answers, ast.Call, Scope], Values]]]] = {
    "builtins.__import__": (1, _imported),
    "builtins.classmethod": (1, _first),
    "builtins.getattr": (2, _getattr),
    "builtins.staticmethod": (1, _first),
    "functools.lru_cache": (1, _first),
    "functools.partial": (1, _partial),
    "importlib.import_module": (1, _imported),
    "typing.cast": (2, _second),
    "typing_extensions.cast": (2, _second),
}


def is_static(function: FunctionValue) -> bool:
    """Whether a method takes neither object nor class."""
    return "staticmethod" in decorator_names(function.node)
