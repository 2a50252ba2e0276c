# SPDX-License-Identifier: Apache-2.0
"""Pure. Example values for the types of a request's body, read from the classes of a repository."""

import ast
import math
from collections.abc import Iterator
from typing import Any, Final

from ci_doctor.scaffold.apps.module_source import ModuleSource, ModuleTable

_DEEPEST: Final = 4
_LARGEST: Final = 1 << 53
# The names of values that decide how a model draws; with these an answer repeats itself.
_FIXED: Final = {
    "temperature": 0,
    "seed": 0,
    "max_tokens": 32,
    "max_new_tokens": 32,
    "stream": False,
}
_PLAIN: Final[dict[str, Any]] = {"str": "text", "int": 1, "float": 1.0, "bool": True}
_OPEN: Final = frozenset(("dict", "Dict", "Any", "Mapping", "object"))
_LISTS: Final = frozenset(("list", "List", "Sequence", "tuple", "Tuple", "set", "Set", "Iterable"))
_EMPTY: Final = _OPEN | _LISTS
_WRAPPERS: Final = frozenset(("Annotated", "Required", "NotRequired", "Final"))


class UnknownTypeError(ValueError):
    """No example can be made for a type that the source does not show."""


def is_model(name: str, module: ModuleSource, table: ModuleTable) -> bool:
    """Whether `name` is a class of the repository with typed fields, as pydantic has them."""
    model = _class(name, module, table)
    return model is not None and _has_fields(*model, table)


def example_of(annotation: ast.expr, module: ModuleSource, table: ModuleTable) -> Any:
    """A value of a type. Raises UnknownTypeError."""
    return _Examples(table).value(annotation, module, 0)


class _Examples:
    def __init__(self, table: ModuleTable) -> None:
        self._table = table

    def value(self, annotation: ast.expr, module: ModuleSource, depth: int) -> Any:
        if depth > _DEEPEST:
            raise UnknownTypeError
        if isinstance(annotation, ast.Constant):
            annotation = _expression(str(annotation.value))
        if isinstance(annotation, ast.BinOp):
            # `X | None`: the first one that is a value.
            return self.value(annotation.left, module, depth + 1)
        if isinstance(annotation, ast.Subscript):
            return self._generic(annotation, module, depth)
        name = type_name(annotation)
        if name in _PLAIN:
            return _PLAIN[name]
        if name in _EMPTY:
            return {} if name in _OPEN else []
        return self._of_class(name, module, depth)

    def _generic(self, annotation: ast.Subscript, module: ModuleSource, depth: int) -> Any:
        name = type_name(annotation.value)
        inner = annotation.slice
        first = inner.elts[0] if isinstance(inner, ast.Tuple) and inner.elts else inner
        if name in _LISTS:
            return [self.value(first, module, depth + 1)]
        if name in _OPEN:
            return {}
        if name == "Literal" and isinstance(first, ast.Constant):
            return _json_value(first.value)
        if name in _WRAPPERS or name in {"Optional", "Union"}:
            return self.value(first, module, depth + 1)
        raise UnknownTypeError

    def _of_class(self, name: str, module: ModuleSource, depth: int) -> Any:
        model = _class(name, module, self._table)
        if model is None:
            raise UnknownTypeError
        node, home = model
        first = _first_member(node)
        if first is not None:
            return first
        if not _has_fields(node, home, self._table):
            raise UnknownTypeError
        return self._fields(node, home, depth)

    def _fields(self, node: ast.ClassDef, home: ModuleSource, depth: int) -> dict[str, Any]:
        """The fields without a default, also those of the classes above it."""
        made: dict[str, Any] = {}
        for above in node.bases:
            model = _class(type_name(above), home, self._table)
            if model is not None and depth < _DEEPEST:
                made |= self._fields(*model, depth + 1)
        for name, statement in _annotated(node):
            if name in _FIXED:
                made[name] = _FIXED[name]
            elif not _is_class_variable(statement) and _is_required(statement):
                made[name] = self.value(statement.annotation, home, depth + 1)
        return made


def type_name(annotation: ast.expr) -> str:
    """The last name of a type: `list` of `builtins.list`; empty for what is no name."""
    if isinstance(annotation, ast.Subscript):
        return type_name(annotation.value)
    if isinstance(annotation, ast.Attribute):
        return annotation.attr
    return annotation.id if isinstance(annotation, ast.Name) else ""


def _expression(text: str) -> ast.expr:
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UnknownTypeError from error


def _json_value(value: object) -> Any:
    """A constant that a request's body can hold. Raises UnknownTypeError for bytes, infinity, `...`."""
    is_finite = isinstance(value, float) and math.isfinite(value)
    # A larger number has more digits than Python writes, or than others read.
    is_small = isinstance(value, int) and abs(value) <= _LARGEST
    if value is None or isinstance(value, str) or is_finite or is_small:
        return value
    raise UnknownTypeError


def _class(
    name: str, module: ModuleSource, table: ModuleTable, depth: int = 0
) -> tuple[ast.ClassDef, ModuleSource] | None:
    """The definition of a class of the repository, also behind imports."""
    for node in module.tree.body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return node, module
    imported = module.imports.get(name)
    if imported is None or depth > _DEEPEST:
        return None
    home = table.named(imported[0], module.file)
    return _class(imported[1], home, table, depth + 1) if home is not None else None


def _has_fields(node: ast.ClassDef, home: ModuleSource, table: ModuleTable, depth: int = 0) -> bool:
    """Whether a class stands, by whatever classes between, on pydantic's or SQLModel's."""
    for above in node.bases:
        name = type_name(above)
        if name in {"BaseModel", "SQLModel", "TypedDict"}:
            return True
        model = _class(name, home, table)
        if model is not None and depth < _DEEPEST and _has_fields(*model, table, depth + 1):
            return True
    return any("dataclass" in ast.dump(decorator) for decorator in node.decorator_list)


def _first_member(node: ast.ClassDef) -> Any:
    """The first value of an enum; None for another class. Raises UnknownTypeError."""
    if not any(type_name(above).endswith("Enum") for above in node.bases):
        return None
    for statement in node.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant):
            return _json_value(statement.value.value)
    return None


def _annotated(node: ast.ClassDef) -> Iterator[tuple[str, ast.AnnAssign]]:
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id, statement


def _is_class_variable(statement: ast.AnnAssign) -> bool:
    return type_name(statement.annotation) == "ClassVar"


def _is_required(statement: ast.AnnAssign) -> bool:
    value = statement.value
    if value is None:
        return True
    if not isinstance(value, ast.Call):
        return False
    # `Field(...)` is required, `Field(default)` and `Field(default_factory=…)` are not.
    if value.args:
        first = value.args[0]
        return isinstance(first, ast.Constant) and first.value is ...
    return not any((each.arg or "").startswith("default") for each in value.keywords)
