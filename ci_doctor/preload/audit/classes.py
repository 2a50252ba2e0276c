# SPDX-License-Identifier: Apache-2.0
"""Pure. Classes: their bases, and what an attribute of a class or its objects stands for."""

import ast
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from ci_doctor.preload.audit.calls import argument, bind_arguments, is_static
from ci_doctor.preload.audit.functions import FunctionIndex, decorator_names, is_property
from ci_doctor.preload.audit.module_code import Annotated, Binding
from ci_doctor.preload.audit.values import (
    Answers,
    ClassValue,
    ExternalValue,
    FunctionValue,
    Given,
    InstanceValue,
    MethodValue,
    Scope,
    Value,
    Values,
)

Lineage = tuple[ClassValue | ExternalValue, ...]
# Bases that say nothing of an attribute.
_EMPTY: Final = frozenset(
    {
        "abc.ABC",
        "builtins.object",
        "typing.Generic",
        "typing.Protocol",
        "typing_extensions.Generic",
        "typing_extensions.Protocol",
    }
)


class ClassAnswers(Answers, Protocol):
    """What can be asked about classes."""

    index: FunctionIndex

    def class_scope(self, kind: ClassValue) -> Scope:
        """The names of the class body."""

    def bound(self, binding: Binding, scope: Scope) -> Values:
        """What a binding stands for."""

    def returned(self, function: FunctionValue, body: Scope) -> Values:
        """What a function returns."""

    def scope_of(self, function: FunctionValue, given: Mapping[str, Given]) -> Scope:
        """The names in a call."""


def lineage_of(answers: Answers, kind: ClassValue) -> Lineage:
    """The class and its bases, nearest first; depth first, which is the real order in most code."""
    lineage: dict[ClassValue | ExternalValue, None] = {}
    _add_lineage(answers, kind, lineage)
    return tuple(lineage)


def _add_lineage(
    answers: Answers, kind: ClassValue, lineage: dict[ClassValue | ExternalValue, None]
) -> None:
    if kind in lineage:
        return
    lineage[kind] = None
    for base in kind.node.bases:
        for value in answers.resolve(base, kind.scope):
            if isinstance(value, ClassValue):
                _add_lineage(answers, value, lineage)
            elif isinstance(value, ExternalValue) and value.name not in _EMPTY:
                lineage.setdefault(value, None)


def member(answers: ClassAnswers, lineage: Lineage, name: str, itself: Value | None) -> Values:
    """What the attribute `name` stands for, in the first class that has it.

    `itself` is the object or class that it is read from. External bases are asked last.
    """
    for kind in lineage:
        if isinstance(kind, ClassValue):
            values = _of_class(answers, kind, name, itself)
            if values:
                return values
    external = [kind for kind in lineage if isinstance(kind, ExternalValue)]
    holder = itself or lineage[0] if lineage else itself
    if holder is None:
        return ()
    return tuple(MethodValue(f"{kind.name}.{name}", holder) for kind in external)


def _of_class(answers: ClassAnswers, kind: ClassValue, name: str, itself: Value | None) -> Values:
    values: list[Value] = []
    scope = answers.class_scope(kind)
    for binding in scope.bindings.get(name, ()):
        if isinstance(binding, Annotated) and isinstance(itself, InstanceValue):
            values += _field(answers, itself, name)
        for value in answers.bound(binding, scope):
            values += _bind(answers, value, itself, kind)
    if isinstance(itself, InstanceValue):
        values += _set_by_methods(answers, kind, name, itself)
    return tuple(dict.fromkeys(values))


def _field(answers: Answers, itself: InstanceValue, name: str) -> Values:
    """The argument of that name: what a dataclass does with it."""
    if itself.call is None or itself.scope is None:
        return ()
    expression = argument(itself.call, -1, name)
    return () if expression is None else answers.resolve(expression, itself.scope)


def _bind(
    answers: ClassAnswers, value: Value, itself: Value | None, kind: ClassValue
) -> Sequence[Value]:
    """A method of the object or class, or what a property gives."""
    if not isinstance(value, FunctionValue) or isinstance(value.node, ast.Lambda):
        return (value,)
    if value.itself is not None or is_static(value):
        return (value,)
    if "classmethod" in decorator_names(value.node):
        holder = itself if isinstance(itself, ClassValue) else kind
        return (FunctionValue(value.node, value.scope, holder, value.owner),)
    if not isinstance(itself, InstanceValue):
        return (value,)
    method = FunctionValue(value.node, value.scope, itself, value.owner)
    if is_property(value.node):
        body = answers.scope_of(method, bind_arguments(method, None, value.scope))
        return answers.returned(method, body)
    return (method,)


def _set_by_methods(
    answers: ClassAnswers, kind: ClassValue, name: str, itself: InstanceValue
) -> list[Value]:
    values: list[Value] = []
    for node, expression in answers.index.attributes(kind.node).get(name, ()):
        method = FunctionValue(node, kind.scope, itself, kind)
        # The arguments of the call that made the object are those of __init__.
        is_init = node.name == "__init__" and itself.scope is not None
        call = itself.call if is_init else None
        caller = itself.scope if is_init and itself.scope else kind.scope
        body = answers.scope_of(method, bind_arguments(method, call, caller))
        values += answers.resolve(expression, body)
    return values
