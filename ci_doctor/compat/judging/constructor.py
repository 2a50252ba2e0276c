# SPDX-License-Identifier: Apache-2.0
"""Pure. What a call of a class takes: `__init__`, `__new__`, or the fields of a dataclass."""

import ast
from collections.abc import Sequence
from typing import Final

from ci_doctor.compat.judging.call_signature import (
    CallParameter,
    CallSignature,
    ParameterKind,
    of_function,
)
from ci_doctor.compat.meaning.bases import Ancestor, OpaqueBase
from ci_doctor.compat.meaning.decorators import words
from ci_doctor.compat.meaning.evaluation import Evaluation
from ci_doctor.compat.meaning.refs import ClassRef, FunctionRef, Ignorance, UnknownRef
from ci_doctor.compat.reading.name_scope import NameScope

_NAMED_TUPLES: Final = frozenset({"typing.NamedTuple", "typing_extensions.NamedTuple"})


class Constructors:
    """Finds the signature by which a class is called."""

    def __init__(self, evaluation: Evaluation) -> None:
        self._evaluation = evaluation

    def signature(self, cls: ClassRef) -> CallSignature | UnknownRef:
        """The parameters of a call of `cls`, or why nobody knows them."""
        order = self._evaluation.classes.bases.order(cls)
        if any(isinstance(each, OpaqueBase) and each.is_metaclass for each in order):
            return UnknownRef(Ignorance.BASES, "metaclass")
        found = self._through(cls, order)
        if isinstance(found, CallSignature) and self._has_own_new(order):
            return UnknownRef(Ignorance.GENERATED, "__new__")
        return found

    def initialiser(self, order: Sequence[Ancestor], name: str) -> CallSignature | UnknownRef:
        """What `super().__init__` takes, with the classes above in `order`."""
        for position, each in enumerate(order):
            found = self._of(each, order[position:], name)
            if found is not None:
                return found
        return UnknownRef(Ignorance.BASES, "object")

    def _through(self, cls: ClassRef, order: Sequence[Ancestor]) -> CallSignature | UnknownRef:
        for position, each in enumerate(order):
            found = self._of(each, order[position:], cls.scope.name)
            if found is not None:
                return found
        if any("__new__" in each.scope.bindings for each in order if isinstance(each, ClassRef)):
            return self._new(cls)
        return CallSignature(
            name=cls.scope.qualified,
            parameters=(),
            module=cls.scope.module,
            qualified=cls.scope.qualified,
            line=getattr(cls.scope.node, "lineno", 1),
        )

    def _of(
        self, each: Ancestor, rest: Sequence[Ancestor], name: str
    ) -> CallSignature | UnknownRef | None:
        """What this class says of the call; None if it says nothing."""
        if isinstance(each, OpaqueBase):
            return UnknownRef(Ignorance.BASES, each.name)
        unknown = self._evaluation.classes.decorated(each)
        return unknown if unknown is not None else self._of_class(each, rest, name)

    def _of_class(
        self, each: ClassRef, rest: Sequence[Ancestor], name: str
    ) -> CallSignature | UnknownRef | None:
        if _is_named_tuple(rest):
            return self._fields_of_tuple(each)
        if "__init__" in each.scope.bindings:
            ref = self._evaluation.bound("__init__", each.scope)
            if isinstance(ref, FunctionRef):
                return of_function(FunctionRef(ref.scope, skip=1), name=name)
            return UnknownRef(Ignorance.SEVERAL)
        if _has_generated_constructor(each):
            return self._dataclass(each, rest, name)
        return None

    def _new(self, cls: ClassRef) -> CallSignature | UnknownRef:
        ref = self._evaluation.class_member(cls, "__new__")
        if isinstance(ref, FunctionRef):
            return of_function(FunctionRef(ref.scope, skip=1), name=cls.scope.name)
        return UnknownRef(Ignorance.GENERATED, "__new__")

    def _has_own_new(self, order: Sequence[Ancestor]) -> bool:
        """Whether a `__new__` stands beside an `__init__`: both see the arguments."""
        classes = [each for each in order if isinstance(each, ClassRef)]
        has_new = any("__new__" in each.scope.bindings for each in classes)
        return has_new and any("__init__" in each.scope.bindings for each in classes)

    def _fields_of_tuple(self, cls: ClassRef) -> CallSignature:
        fields = [_field(name, node) for name, node in _annotated(cls.scope)]
        return _generated(cls, cls.scope.name, fields)

    def _dataclass(
        self, cls: ClassRef, rest: Sequence[Ancestor], name: str
    ) -> CallSignature | UnknownRef:
        if _plain_dataclass(cls) is None:
            return UnknownRef(Ignorance.GENERATED, cls.name)
        fields: dict[str, CallParameter] = {}
        for each in reversed(rest):
            if isinstance(each, OpaqueBase):
                return UnknownRef(Ignorance.BASES, each.name)
            unknown = self._evaluation.classes.decorated(each)
            if unknown is not None:
                return unknown
            own = self._own_fields(each)
            if isinstance(own, UnknownRef):
                return own
            fields |= own
        return _generated(cls, name, list(fields.values()))

    def _own_fields(self, cls: ClassRef) -> dict[str, CallParameter] | UnknownRef:
        if not _has_generated_constructor(cls):
            return {}
        decorator = _plain_dataclass(cls)
        if decorator is None:
            return UnknownRef(Ignorance.GENERATED, cls.name)
        keyword_only = _flag(decorator, "kw_only")
        fields: dict[str, CallParameter] = {}
        for name, node in _annotated(cls.scope):
            annotation = ast.unparse(node.annotation).strip("'\"")
            if annotation.rpartition(".")[2] == "KW_ONLY":
                keyword_only = True
                continue
            if annotation.rpartition("[")[0].endswith("ClassVar") or annotation.endswith(
                "ClassVar"
            ):
                continue
            if annotation.startswith(("ClassVar[", "typing.ClassVar[")):
                continue
            made = _dataclass_field(name, node, keyword_only=keyword_only)
            if made is not None:
                fields[name] = made
        return fields


def _is_named_tuple(rest: Sequence[Ancestor]) -> bool:
    return len(rest) > 1 and isinstance(rest[1], OpaqueBase) and rest[1].name in _NAMED_TUPLES


def _has_generated_constructor(cls: ClassRef) -> bool:
    node = cls.scope.node
    if not isinstance(node, ast.ClassDef):
        return False
    # Any decorator that is left by now is `dataclass` or works like it.
    plain = {"final", "runtime_checkable", "total_ordering", "unique", "deprecated"}
    return bool(set(words(node)) - plain)


def _plain_dataclass(cls: ClassRef) -> ast.expr | None:
    """The decorator, if it is the standard library's own and makes an `__init__`."""
    node = cls.scope.node
    if not isinstance(node, ast.ClassDef):
        return None
    imported = cls.scope.root().bindings
    for decorator in node.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        top = ast.unparse(called).partition(".")[0]
        standard = any(
            "dataclasses" in {each.target, each.target or each.name}
            for each in imported.get(top, [])
        )
        if standard and ast.unparse(called).endswith("dataclass"):
            return None if _flag(decorator, "init", default=True) is False else decorator
    return None


def _flag(decorator: ast.expr, name: str, *, default: bool = False) -> bool:
    if isinstance(decorator, ast.Call):
        for keyword in decorator.keywords:
            if keyword.arg == name and isinstance(keyword.value, ast.Constant):
                return bool(keyword.value.value)
    return default


def _annotated(scope: NameScope) -> list[tuple[str, ast.AnnAssign]]:
    found: dict[str, ast.AnnAssign] = {}
    for name, bindings in scope.bindings.items():
        for binding in bindings:
            if isinstance(binding.node, ast.AnnAssign):
                found.setdefault(name, binding.node)
    return sorted(found.items(), key=lambda each: each[1].lineno)


def _field(name: str, node: ast.AnnAssign) -> CallParameter:
    default = None if node.value is None else ast.unparse(node.value)
    return CallParameter(name=name, kind=ParameterKind.PLAIN, default=default)


def _dataclass_field(name: str, node: ast.AnnAssign, *, keyword_only: bool) -> CallParameter | None:
    """The parameter that a field becomes; None if the constructor does not take it."""
    value = node.value
    default = None if value is None else ast.unparse(value)
    if isinstance(value, ast.Call) and ast.unparse(value.func).rpartition(".")[2] == "field":
        if not _flag(value, "init", default=True):
            return None
        keyword_only = _flag(value, "kw_only", default=keyword_only)
        given = {each.arg for each in value.keywords}
        default = "..." if given & {"default", "default_factory"} else None
    kind = ParameterKind.KEYWORD_ONLY if keyword_only else ParameterKind.PLAIN
    return CallParameter(name=name, kind=kind, default=default)


def _generated(cls: ClassRef, name: str, fields: list[CallParameter]) -> CallSignature:
    plain = [each for each in fields if each.kind is ParameterKind.PLAIN]
    rest = [each for each in fields if each.kind is not ParameterKind.PLAIN]
    return CallSignature(
        name=name,
        parameters=(*plain, *rest),
        module=cls.scope.module,
        qualified=cls.scope.qualified,
        line=getattr(cls.scope.node, "lineno", 1),
        filled=1,
    )
