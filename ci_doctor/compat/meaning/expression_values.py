# SPDX-License-Identifier: Apache-2.0
"""Pure. What single expressions stand for: names, attributes, calls, choices."""

import ast
from typing import Any, Final

from packaging.version import InvalidVersion, Version

from ci_doctor.compat.meaning.asking import Asks
from ci_doctor.compat.meaning.class_members import ClassMembers
from ci_doctor.compat.meaning.conditions import Conditions
from ci_doctor.compat.meaning.folding import FUNCTIONS, METHODS, UndecidedError
from ci_doctor.compat.meaning.refs import (
    AwaitableRef,
    ClassRef,
    ConstantRef,
    FunctionRef,
    Ignorance,
    InstanceRef,
    ModuleRef,
    OutsideRef,
    Ref,
    SuperRef,
    UnionRef,
    UnknownRef,
    joined,
)
from ci_doctor.compat.reading.name_scope import Binding, NameScope

_UNKNOWN: Final = UnknownRef(Ignorance.EXPRESSION)
_PARSERS: Final = frozenset(
    {
        "packaging.version.Version",
        "packaging.version.parse",
        "packaging.version.LooseVersion",
        "distutils.version.LooseVersion",
        "distutils.version.StrictVersion",
        "pkg_resources.parse_version",
    }
)
_VERSION_OF: Final = frozenset({"importlib.metadata.version", "importlib_metadata.version"})
_SAME: Final = frozenset({"copy.copy", "copy.deepcopy"})


class Parts(Asks):
    """The evaluation, with the parts that a value needs beside the questions."""

    classes: ClassMembers
    conditions: Conditions


class ExpressionValues:
    """Evaluates one expression, and asks the evaluation about those inside it."""

    def __init__(self, asks: Any) -> None:
        self._asks: Parts = asks

    def value(self, node: ast.expr, scope: NameScope) -> Ref:  # noqa: PLR0911 - a case per form
        """What the expression stands for."""
        match node:
            case ast.Name() | ast.Attribute() | ast.Subscript():
                return self._read(node, scope)
            case ast.Call() | ast.Await():
                return self._ran(node, scope)
            case ast.IfExp() | ast.BoolOp():
                return self._choice(node, scope)
            case ast.NamedExpr():
                return self._asks.value(node.value, scope)
            case ast.Compare() | ast.UnaryOp(op=ast.Not()):
                return self._truth(node, scope)
            case ast.Constant():
                return ConstantRef(node.value)
            case ast.Tuple() | ast.BinOp():
                return self._folded(node, scope)
            case _:
                return _UNKNOWN

    def _truth(self, node: ast.expr, scope: NameScope) -> Ref:
        decided = self._asks.conditions.decisions.decide(node, scope)
        return _UNKNOWN if decided is None else ConstantRef(decided)

    def _folded(self, node: ast.expr, scope: NameScope) -> Ref:
        try:
            return ConstantRef(self._asks.conditions.decisions.folding.value(node, scope))
        except UndecidedError:
            return _UNKNOWN

    def _read(self, node: ast.Name | ast.Attribute | ast.Subscript, scope: NameScope) -> Ref:
        if isinstance(node, ast.Name):
            return self._asks.lookup(node.id, scope)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, scope)
        return self._subscript(node, scope)

    def _ran(self, node: ast.Call | ast.Await, scope: NameScope) -> Ref:
        if isinstance(node, ast.Call):
            return self._call(node, scope)
        ref = self._asks.value(node.value, scope)
        return ref.result if isinstance(ref, AwaitableRef) else _UNKNOWN

    def _attribute(self, node: ast.Attribute, scope: NameScope) -> Ref:
        if is_narrowed(node.value, scope):
            return UnknownRef(Ignorance.NARROWED, ast.unparse(node.value))
        return self._asks.attribute(self._asks.value(node.value, scope), node.attr)

    def _choice(self, node: ast.IfExp | ast.BoolOp, scope: NameScope) -> Ref:
        if isinstance(node, ast.BoolOp):
            refs = [self._asks.value(each, scope) for each in node.values]
            if all(isinstance(each, ConstantRef) for each in refs):
                return self._truth(node, scope)
            return joined(refs) if isinstance(node.op, ast.Or) else self._truth(node, scope)
        decided = self._asks.conditions.decisions.decide(node.test, scope)
        if decided is not None:
            return self._asks.value(node.body if decided else node.orelse, scope)
        return joined([self._asks.value(each, scope) for each in (node.body, node.orelse)])

    def _subscript(self, node: ast.Subscript, scope: NameScope) -> Ref:
        ref = self._asks.value(node.value, scope)
        if isinstance(ref, ClassRef):
            return ref
        if isinstance(ref, ConstantRef) and isinstance(ref.value, tuple | str):
            try:
                return ConstantRef(ref.value[_index(node.slice)])
            except (TypeError, IndexError, ValueError):
                return _UNKNOWN
        return _UNKNOWN

    def _call(self, node: ast.Call, scope: NameScope) -> Ref:
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if method in METHODS:
            stated = self._folded(node, scope)
            if isinstance(stated, ConstantRef):
                return stated
        ref = self._asks.value(node.func, scope)
        options = ref.options if isinstance(ref, UnionRef) else (ref,)
        return joined([self._result(each, node, scope) for each in options])

    def _result(self, ref: Ref, node: ast.Call, scope: NameScope) -> Ref:
        match ref:
            case ClassRef():
                return self._asks.classes.instance(ref)
            case FunctionRef():
                return self.returned(ref)
            case OutsideRef():
                return self._outside(ref.path, node, scope)
            case InstanceRef():
                called = self._asks.attribute(ref, "__call__")
                return self.returned(called) if isinstance(called, FunctionRef) else _UNKNOWN
            case UnknownRef():
                return ref
            case _:
                return _UNKNOWN

    def returned(self, ref: FunctionRef) -> Ref:
        """What a call of the function gives back."""
        node = ref.scope.node
        if isinstance(node, ast.Lambda):
            return self._asks.value(node.body, ref.scope)
        if isinstance(node, ast.Module | ast.ClassDef) or ref.scope.is_generator:
            return _UNKNOWN
        if self._asks.classes.changes_result(ref.scope):
            return _UNKNOWN
        result = self._result_of_body(ref, node)
        return AwaitableRef(result) if isinstance(node, ast.AsyncFunctionDef) else result

    def _result_of_body(
        self, ref: FunctionRef, node: ast.FunctionDef | ast.AsyncFunctionDef
    ) -> Ref:
        if node.returns is not None:
            text = ast.unparse(node.returns).strip("'\"")
            if text.rpartition(".")[2] == "Self" and ref.owner is not None:
                return InstanceRef(ClassRef(ref.owner), is_exact=False)
            declared = self._asks.annotation(node.returns, ref.scope.parent or ref.scope)
            if isinstance(declared, InstanceRef):
                return declared
        values = []
        for value, guards in ref.scope.returns:
            if value is not None and self._asks.runs(guards, ref.scope):
                values.append(self._asks.value(value, ref.scope))
        return joined(values) if values else _UNKNOWN

    def _outside(self, path: str, node: ast.Call, scope: NameScope) -> Ref:  # noqa: C901, PLR0911 - a case per function
        if path == "builtins.super":
            return self._super(node, scope)
        if not node.args:
            return _library(path)
        first = node.args[0]
        if path.partition(".")[0] == "builtins" and path.rpartition(".")[2] in FUNCTIONS:
            return self._folded(node, scope)
        if path in _PARSERS:
            return _parsed(self._asks.value(first, scope))
        if path in _VERSION_OF:
            return self._version_of(first)
        if path in _SAME:
            return self._asks.value(first, scope)
        if path in {"typing.cast", "typing_extensions.cast"}:
            return self._asks.annotation(first, scope)
        if path == "importlib.import_module" and isinstance(first, ast.Constant):
            name = str(first.value)
            return ModuleRef(name) if self._asks.world.file(name) else _UNKNOWN
        return _library(path)

    def _version_of(self, node: ast.expr) -> Ref:
        if isinstance(node, ast.Constant):
            known = self._asks.world.versions().get(str(node.value))
            if known is not None:
                return ConstantRef(known)
        return _UNKNOWN

    def _super(self, node: ast.Call, scope: NameScope) -> Ref:
        function: NameScope | None = scope
        while function is not None and not (
            function.parent is not None and function.parent.is_class
        ):
            function = function.parent
        if function is None or function.parent is None or node.args:
            return _UNKNOWN
        cls = ClassRef(function.parent)
        return SuperRef(cls, is_class=self._asks.classes.is_class_level(function))

    def entered(self, binding: Binding, scope: NameScope) -> Ref:
        """What `with value as name` binds."""
        if binding.value is None:
            return _UNKNOWN
        manager = self._asks.value(binding.value, scope)
        if not isinstance(manager, InstanceRef):
            return _UNKNOWN
        enter = self._asks.attribute(manager, "__enter__")
        return self.returned(enter) if isinstance(enter, FunctionRef) else _UNKNOWN


def is_narrowed(node: ast.expr, scope: NameScope) -> bool:
    """Whether a test in the function looks at the type of the expression."""
    if not scope.narrowed:
        return False
    return ast.unparse(node) in scope.narrowed


def _library(path: str) -> Ref:
    return UnknownRef(Ignorance.OUTSIDE, path.partition(".")[0])


def _parsed(ref: Ref) -> Ref:
    if not isinstance(ref, ConstantRef):
        return _UNKNOWN
    try:
        return ConstantRef(Version(str(ref.value)))
    except InvalidVersion:
        return _UNKNOWN


def _index(node: ast.expr) -> Any:
    if isinstance(node, ast.Slice):
        bounds = [
            None if each is None else ast.literal_eval(each)
            for each in (node.lower, node.upper, node.step)
        ]
        return slice(*bounds)
    return ast.literal_eval(node)
