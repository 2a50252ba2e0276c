# SPDX-License-Identifier: Apache-2.0
"""Pure. What each kind of expression, attribute, call and binding stands for."""

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Protocol, TypeGuard

from ci_doctor.preload.audit.calls import elements_of, external_call, given_first
from ci_doctor.preload.audit.classes import ClassAnswers, lineage_of, member
from ci_doctor.preload.audit.module_code import Annotated, ElementOf, Entered, ImportedName
from ci_doctor.preload.audit.values import (
    ClassValue,
    ExternalValue,
    FunctionValue,
    InstanceValue,
    LiteralValue,
    MethodValue,
    ModuleValue,
    PartialValue,
    Scope,
    SuperValue,
    TextValue,
    Value,
    Values,
)

# Possible values of one expression; more only cost time.
MOST_VALUES = 16


class Evaluator(ClassAnswers, Protocol):
    """What can be asked of a resolver here."""

    def lookup(self, name: str, scope: Scope) -> Values:
        """What a name stands for."""

    def module_attribute(self, module: str, name: str) -> Values:
        """What a name of a module stands for."""

    def body_scope(self, function: FunctionValue, call: ast.Call | None, caller: Scope) -> Scope:
        """The names in one call."""


def distinct(values: Iterable[Value]) -> Values:
    """Each once, not too many."""
    return tuple(dict.fromkeys(values))[:MOST_VALUES]


def joined(groups: Iterable[Values]) -> Values:
    """All of them, each once."""
    return distinct(value for group in groups for value in group)


# Expressions.


def evaluate(answers: Evaluator, expression: ast.expr, scope: Scope) -> Values:
    """What an expression stands for; its parts are asked for."""
    evaluation = _EXPRESSIONS.get(type(expression))
    return () if evaluation is None else evaluation(answers, expression, scope)


def _name(answers: Evaluator, node: ast.Name, scope: Scope) -> Values:
    return answers.lookup(node.id, scope)


def _attribute(answers: Evaluator, node: ast.Attribute, scope: Scope) -> Values:
    bases = answers.resolve(node.value, scope)
    return joined(answers.attribute(base, node.attr) for base in bases)


def _call(answers: Evaluator, node: ast.Call, scope: Scope) -> Values:
    return called(answers, answers.resolve(node.func, scope), node, scope)


def _lambda(_answers: Evaluator, node: ast.Lambda, scope: Scope) -> Values:
    return (FunctionValue(node, scope),)


def _constant(_answers: Evaluator, node: ast.Constant, _scope: Scope) -> Values:
    return (TextValue(node.value),) if isinstance(node.value, str) else ()


def _formatted(answers: Evaluator, node: ast.JoinedStr, scope: Scope) -> Values:
    texts = [""]
    for part in node.values:
        expression = part.value if isinstance(part, ast.FormattedValue) else part
        values = answers.resolve(expression, scope)
        ends = [value.text for value in values if isinstance(value, TextValue)]
        texts = [text + end for text in texts for end in ends][:MOST_VALUES]
    return tuple(TextValue(text) for text in texts)


def _added(answers: Evaluator, node: ast.BinOp, scope: Scope) -> Values:
    if not isinstance(node.op, ast.Add):
        return ()
    return _formatted(answers, ast.JoinedStr([node.left, node.right]), scope)


def _display(_answers: Evaluator, node: ast.expr, scope: Scope) -> Values:
    return (LiteralValue(node, scope),)


def _comprehension(_answers: Evaluator, node: ast.ListComp, scope: Scope) -> Values:
    return (LiteralValue(ast.List([node.elt], ast.Load()), scope),)


def _subscript(answers: Evaluator, node: ast.Subscript, scope: Scope) -> Values:
    bases = answers.resolve(node.value, scope)
    # A generic class with its parameter is still that class.
    classes = [base for base in bases if isinstance(base, ClassValue | ExternalValue)]
    return distinct([*classes, *elements_of(answers, bases, node.slice)])


def _either(answers: Evaluator, node: ast.IfExp, scope: Scope) -> Values:
    return joined((answers.resolve(node.body, scope), answers.resolve(node.orelse, scope)))


def _any_of(answers: Evaluator, node: ast.BoolOp, scope: Scope) -> Values:
    return joined(answers.resolve(part, scope) for part in node.values)


def _value(answers: Evaluator, node: ast.Await, scope: Scope) -> Values:
    return answers.resolve(node.value, scope)


_EXPRESSIONS: Final[dict[type[ast.expr], Callable[[Any, Any, Scope], Values]]] = {
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Call: _call,
    ast.Lambda: _lambda,
    ast.Constant: _constant,
    ast.JoinedStr: _formatted,
    ast.BinOp: _added,
    ast.List: _display,
    ast.Tuple: _display,
    ast.Set: _display,
    ast.Dict: _display,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.Subscript: _subscript,
    ast.IfExp: _either,
    ast.BoolOp: _any_of,
    ast.Await: _value,
    ast.NamedExpr: _value,
    ast.Starred: _value,
}


# Attributes and calls.


def attribute_of(answers: Evaluator, value: Value, name: str) -> Values:
    """What `value.name` stands for."""
    if isinstance(value, ModuleValue):
        return answers.module_attribute(value.name, name)
    if isinstance(value, ExternalValue):
        return (ExternalValue(f"{value.name}.{name}"),)
    if isinstance(value, ClassValue):
        return member(answers, lineage_of(answers, value), name, value)
    if isinstance(value, SuperValue):
        return member(answers, lineage_of(answers, value.owner)[1:], name, value.itself)
    if isinstance(value, InstanceValue) and isinstance(value.kind, ClassValue):
        return member(answers, lineage_of(answers, value.kind), name, value)
    return _external_attribute(value, name)


def _external_attribute(value: Value, name: str) -> Values:
    if isinstance(value, InstanceValue) and isinstance(value.kind, ExternalValue):
        return (MethodValue(f"{value.kind.name}.{name}", value),)
    if isinstance(value, MethodValue):
        return (MethodValue(f"{value.name}.{name}", value.itself),)
    if isinstance(value, FunctionValue):
        return (MethodValue(f"function.{name}", value),)
    if isinstance(value, LiteralValue):
        return (MethodValue(f"builtins.display.{name}", value),)
    return ()


def call_of(answers: Evaluator, value: Value, call: ast.Call | None, scope: Scope) -> Values:
    """What calling `value` gives."""
    if isinstance(value, ClassValue):
        return (InstanceValue(value, call, scope),)
    if isinstance(value, FunctionValue):
        return answers.returned(value, answers.body_scope(value, call, scope))
    if isinstance(value, PartialValue):
        return answers.call(value.function, call, scope)
    if isinstance(value, ExternalValue | MethodValue):
        return external_call(answers, value, call, scope)
    if isinstance(value, InstanceValue) and isinstance(value.kind, ClassValue):
        return called(answers, answers.attribute(value, "__call__"), call, scope)
    return ()


def called(
    answers: Evaluator, callees: Iterable[Value], call: ast.Call | None, scope: Scope
) -> Values:
    """What calling any of `callees` gives."""
    return joined(answers.call(callee, call, scope) for callee in callees)


# Bindings.


def bound_to(answers: Evaluator, binding: object, scope: Scope) -> Values:
    """What a binding of `scope` stands for."""
    if isinstance(binding, ast.FunctionDef | ast.AsyncFunctionDef):
        owner = scope.owner if scope.is_class else None
        outer = scope.parent if scope.is_class and scope.parent else scope
        return _decorated(answers, FunctionValue(binding, outer, owner=owner), scope)
    if isinstance(binding, ast.ClassDef):
        return (ClassValue(binding, scope),)
    if isinstance(binding, ImportedName):
        return _imported_name(answers, binding)
    if isinstance(binding, ast.expr):
        return answers.resolve(binding, scope)
    return _less_common(answers, binding, scope)


def _imported_name(answers: Evaluator, binding: ImportedName) -> Values:
    if binding.name is None:
        return (ModuleValue(binding.module),)
    return answers.module_attribute(binding.module, binding.name)


def _less_common(answers: Evaluator, binding: object, scope: Scope) -> Values:
    if isinstance(binding, ElementOf):
        return elements_of(answers, answers.resolve(binding.expression, scope), None)
    if isinstance(binding, Entered):
        return _entered(answers, binding.expression, scope)
    if isinstance(binding, Annotated):
        return of_type(answers, binding.annotation, scope)
    return ()


def _decorated(answers: Evaluator, function: FunctionValue, scope: Scope) -> Values:
    """What the name of a decorated function stands for.

    A decorator of external code is taken to leave the function as it is.
    """
    values: Values = (function,)
    for decorator in reversed(getattr(function.node, "decorator_list", ())):
        for value in answers.resolve(decorator, scope):
            if isinstance(value, FunctionValue):
                body = answers.scope_of(value, given_first(value, values))
                results = answers.returned(value, body)
                wrappers = [each for each in results if isinstance(each, FunctionValue)]
                values = tuple(wrappers) or values
    return values


def _entered(answers: Evaluator, expression: ast.expr, scope: Scope) -> Values:
    values: list[Value] = []
    for value in answers.resolve(expression, scope):
        enter: Values = ()
        if isinstance(value, InstanceValue) and isinstance(value.kind, ClassValue):
            enter = answers.attribute(value, "__enter__")
        values += called(answers, enter, None, scope) or (value,)
    return distinct(values)


def of_type(answers: Evaluator, annotation: ast.expr, scope: Scope) -> Values:
    """Objects of the classes that an annotation names."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            annotation = ast.parse(annotation.value, mode="eval").body
        except SyntaxError:
            return ()
    instances: list[Value] = []
    for part in _types_in(annotation):
        kinds = answers.resolve(part, scope)
        instances += [InstanceValue(kind, None, None) for kind in kinds if _is_class(kind)]
    return distinct(instances)


def _is_class(value: Value) -> TypeGuard[ClassValue | ExternalValue]:
    if isinstance(value, ExternalValue):
        return not value.name.startswith("builtins.")
    return isinstance(value, ClassValue)


def _types_in(annotation: ast.expr) -> Iterator[ast.expr]:
    if isinstance(annotation, ast.BinOp):
        yield from _types_in(annotation.left)
        yield from _types_in(annotation.right)
    elif isinstance(annotation, ast.Subscript):
        is_optional = ast.unparse(annotation.value).endswith("Optional")
        yield from _types_in(annotation.slice) if is_optional else (annotation,)
    elif isinstance(annotation, ast.Name | ast.Attribute):
        yield annotation
