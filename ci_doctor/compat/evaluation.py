# SPDX-License-Identifier: Apache-2.0
"""Pure. What names and expressions stand for, followed through imports, assignments and calls."""

import ast
import builtins
from typing import Any, Final

from packaging.version import InvalidVersion, Version

from ci_doctor.compat.classes import ClassMembers
from ci_doctor.compat.conditions import Conditions
from ci_doctor.compat.folding import FUNCTIONS, METHODS, UndecidedError
from ci_doctor.compat.modules import ModuleMembers
from ci_doctor.compat.scopes import Binding, BindingKind, NameScope
from ci_doctor.compat.world import (
    AbsentRef,
    AwaitableRef,
    ClassRef,
    ConstantRef,
    FunctionRef,
    Ignorance,
    InstanceRef,
    Life,
    ModuleRef,
    OutsideRef,
    Ref,
    SuperRef,
    UnionRef,
    UnknownRef,
    World,
    joined,
)

# Forms that stand for what is in their brackets.
_THROUGH: Final = frozenset(
    {"Optional", "Annotated", "Final", "ClassVar", "Required", "NotRequired"}
)
_UNKNOWN: Final = UnknownRef(Ignorance.EXPRESSION)


class Annotations:
    """Reads annotations. A class below the named one is possible, so no instance is exact."""

    def __init__(self, evaluation: "Evaluation") -> None:
        self._evaluation = evaluation

    def instance(self, node: ast.expr, scope: NameScope) -> Ref:
        """What a value with that annotation stands for."""
        match node:
            case ast.Constant(value=str() as text):
                return self._text(text, scope)
            case ast.BinOp(op=ast.BitOr()):
                return self._either([node.left, node.right], scope)
            case ast.Subscript():
                return self._subscript(node, scope)
            case ast.Name() | ast.Attribute():
                return self._named(node, scope)
            case _:
                return _UNKNOWN

    def _text(self, text: str, scope: NameScope) -> Ref:
        try:
            parsed = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError):
            return _UNKNOWN
        # No other line has this node, so what is kept for it must not outlive it.
        return self.instance(parsed, scope)

    def _either(self, options: list[ast.expr], scope: NameScope) -> Ref:
        real = [each for each in options if not _is_none(each)]
        return self.instance(real[0], scope) if len(real) == 1 else _UNKNOWN

    def _subscript(self, node: ast.Subscript, scope: NameScope) -> Ref:
        form = ast.unparse(node.value).rpartition(".")[2]
        inside = node.slice
        parts = inside.elts if isinstance(inside, ast.Tuple) else [inside]
        if form == "Union":
            return self._either(list(parts), scope)
        if form in _THROUGH and parts:
            return self.instance(parts[0], scope)
        if form in {"type", "Type"}:
            return _UNKNOWN
        return self._named(node.value, scope)

    def _named(self, node: ast.expr, scope: NameScope) -> Ref:
        ref = self._reference(node, scope)
        if isinstance(ref, ClassRef):
            return InstanceRef(ref, is_exact=False)
        if isinstance(ref, OutsideRef):
            return UnknownRef(Ignorance.OUTSIDE, ref.path.partition(".")[0])
        return ref if isinstance(ref, UnknownRef) else _UNKNOWN

    def _reference(self, node: ast.expr, scope: NameScope) -> Ref:
        # What is imported under TYPE_CHECKING counts here.
        if isinstance(node, ast.Name):
            return self._evaluation.lookup(node.id, scope, typing=True)
        if isinstance(node, ast.Attribute):
            return self._evaluation.attribute(self._reference(node.value, scope), node.attr)
        return _UNKNOWN


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


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


class ExpressionValues:
    """Evaluates one expression, and evaluation the evaluation about those inside it."""

    def __init__(self, evaluation: "Evaluation") -> None:
        self._evaluation = evaluation

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
                return self._evaluation.value(node.value, scope)
            case ast.Compare() | ast.UnaryOp(op=ast.Not()):
                return self._truth(node, scope)
            case ast.Constant():
                return ConstantRef(node.value)
            case ast.Tuple() | ast.BinOp():
                return self._folded(node, scope)
            case _:
                return _UNKNOWN

    def _truth(self, node: ast.expr, scope: NameScope) -> Ref:
        decided = self._evaluation.conditions.decisions.decide(node, scope)
        return _UNKNOWN if decided is None else ConstantRef(decided)

    def _folded(self, node: ast.expr, scope: NameScope) -> Ref:
        try:
            return ConstantRef(self._evaluation.conditions.decisions.folding.value(node, scope))
        except UndecidedError:
            return _UNKNOWN

    def _read(self, node: ast.Name | ast.Attribute | ast.Subscript, scope: NameScope) -> Ref:
        if isinstance(node, ast.Name):
            return self._evaluation.lookup(node.id, scope)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, scope)
        return self._subscript(node, scope)

    def _ran(self, node: ast.Call | ast.Await, scope: NameScope) -> Ref:
        if isinstance(node, ast.Call):
            return self._call(node, scope)
        ref = self._evaluation.value(node.value, scope)
        return ref.result if isinstance(ref, AwaitableRef) else _UNKNOWN

    def _attribute(self, node: ast.Attribute, scope: NameScope) -> Ref:
        if is_narrowed(node.value, scope):
            return UnknownRef(Ignorance.NARROWED, ast.unparse(node.value))
        return self._evaluation.attribute(self._evaluation.value(node.value, scope), node.attr)

    def _choice(self, node: ast.IfExp | ast.BoolOp, scope: NameScope) -> Ref:
        if isinstance(node, ast.BoolOp):
            refs = [self._evaluation.value(each, scope) for each in node.values]
            if all(isinstance(each, ConstantRef) for each in refs):
                return self._truth(node, scope)
            return joined(refs) if isinstance(node.op, ast.Or) else self._truth(node, scope)
        decided = self._evaluation.conditions.decisions.decide(node.test, scope)
        if decided is not None:
            return self._evaluation.value(node.body if decided else node.orelse, scope)
        return joined([self._evaluation.value(each, scope) for each in (node.body, node.orelse)])

    def _subscript(self, node: ast.Subscript, scope: NameScope) -> Ref:
        ref = self._evaluation.value(node.value, scope)
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
        ref = self._evaluation.value(node.func, scope)
        options = ref.options if isinstance(ref, UnionRef) else (ref,)
        return joined([self._result(each, node, scope) for each in options])

    def _result(self, ref: Ref, node: ast.Call, scope: NameScope) -> Ref:
        match ref:
            case ClassRef():
                return self._evaluation.classes.instance(ref)
            case FunctionRef():
                return self.returned(ref)
            case OutsideRef():
                return self._outside(ref.path, node, scope)
            case InstanceRef():
                called = self._evaluation.attribute(ref, "__call__")
                return self.returned(called) if isinstance(called, FunctionRef) else _UNKNOWN
            case UnknownRef():
                return ref
            case _:
                return _UNKNOWN

    def returned(self, ref: FunctionRef) -> Ref:
        """What a call of the function gives back."""
        node = ref.scope.node
        if isinstance(node, ast.Lambda):
            return self._evaluation.value(node.body, ref.scope)
        if isinstance(node, ast.Module | ast.ClassDef) or ref.scope.is_generator:
            return _UNKNOWN
        if self._evaluation.classes.changes_result(ref.scope):
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
            declared = self._evaluation.annotations.instance(
                node.returns, ref.scope.parent or ref.scope
            )
            if isinstance(declared, InstanceRef):
                return declared
        values = []
        for value, guards in ref.scope.returns:
            if value is not None and self._evaluation.conditions.runs(guards, ref.scope):
                values.append(self._evaluation.value(value, ref.scope))
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
            return _parsed(self._evaluation.value(first, scope))
        if path in _VERSION_OF:
            return self._version_of(first)
        if path in _SAME:
            return self._evaluation.value(first, scope)
        if path in {"typing.cast", "typing_extensions.cast"}:
            return self._evaluation.annotations.instance(first, scope)
        if path == "importlib.import_module" and isinstance(first, ast.Constant):
            name = str(first.value)
            return ModuleRef(name) if self._evaluation.world.file(name) else _UNKNOWN
        return _library(path)

    def _version_of(self, node: ast.expr) -> Ref:
        if isinstance(node, ast.Constant):
            known = self._evaluation.world.versions().get(str(node.value))
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
        return SuperRef(cls, is_class=self._evaluation.classes.is_class_level(function))

    def entered(self, binding: Binding, scope: NameScope) -> Ref:
        """What `with value as name` binds."""
        if binding.value is None:
            return _UNKNOWN
        manager = self._evaluation.value(binding.value, scope)
        if not isinstance(manager, InstanceRef):
            return _UNKNOWN
        enter = self._evaluation.attribute(manager, "__enter__")
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


_DEEPEST: Final = 80
_VERSION_PARTS: Final = frozenset({"major", "minor", "micro", "release", "base_version", "public"})


class Evaluation:
    """Answers what a name, an attribute or an expression stands for; each answer is kept."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.conditions = Conditions(self)
        self.classes = ClassMembers(self)
        self.modules = ModuleMembers(self)
        self.annotations = Annotations(self)
        self._expressions = ExpressionValues(self)
        # What the parts ask each other (`Asks`).
        self.runs = self.conditions.runs
        self.member = self.modules.member
        self.imported = self.modules.imported
        self.absolute = self.modules.absolute
        self.annotation = self.annotations.instance
        self.class_member = self.classes.member
        self._values: dict[tuple[int, int], Ref] = {}
        self._bindings: dict[tuple[int, int], Ref] = {}
        self._depth = 0

    def value(self, node: ast.expr, scope: NameScope) -> Ref:
        """What an expression stands for in a scope."""
        key = (id(node), id(scope))
        if key not in self._values:
            # An expression that needs itself, as in a loop, is unknown while it is looked at.
            self._values[key] = UnknownRef(Ignorance.EXPRESSION)
            self._values[key] = self._deeper(node, scope)
        return self._values[key]

    def _deeper(self, node: ast.expr, scope: NameScope) -> Ref:
        if self._depth > _DEEPEST:
            return UnknownRef(Ignorance.EXPRESSION)
        self._depth += 1
        try:
            return self._expressions.value(node, scope)
        finally:
            self._depth -= 1

    def lookup(self, name: str, scope: NameScope, *, typing: bool = False) -> Ref:
        """What a name stands for: here, in the functions around, in the module, in Python itself."""
        around: NameScope | None = scope
        while around is not None:
            # The body of a class is no scope for its methods.
            if around is scope or not around.is_class:
                ref = self.bound(name, around, typing=typing)
                if ref is not None:
                    return ref
            around = around.parent
        star = self.modules.from_stars(scope.root(), name)
        if star is not None:
            return star
        if hasattr(builtins, name):
            return OutsideRef(f"builtins.{name}")
        return UnknownRef(Ignorance.EXPRESSION, name)

    def bound(self, name: str, scope: NameScope, *, typing: bool = False) -> Ref | None:
        """What a name stands for in this very scope; None if no line there binds it."""
        bindings = scope.bindings.get(name)
        if not bindings:
            return None
        if name in scope.outer or _is_outer(name, scope):
            return UnknownRef(Ignorance.SEVERAL, name)
        return self._joined_bindings(bindings, scope, typing=typing)

    def _joined_bindings(
        self, bindings: list[Binding], scope: NameScope, *, typing: bool
    ) -> Ref | None:
        in_order = scope.parent is None or scope.is_class
        refs: list[Ref] = []
        gone: Ref | None = None
        for binding in bindings:
            life = self.conditions.runs(binding.guards, scope)
            if life is Life.DEAD or (life is Life.TYPING and not typing):
                continue
            ref = self.binding(binding, scope)
            if isinstance(ref, AbsentRef):
                # A failed import binds nothing; another branch may.
                gone = ref
                continue
            if in_order and life >= Life.ALWAYS:
                refs = []
            refs.append(ref)
        if not refs:
            return gone
        return joined(refs)

    def binding(self, binding: Binding, scope: NameScope) -> Ref:
        """What one statement binds."""
        key = (id(binding), id(scope))
        if key not in self._bindings:
            self._bindings[key] = UnknownRef(Ignorance.EXPRESSION)
            self._bindings[key] = self._bind(binding, scope)
        return self._bindings[key]

    def _bind(self, binding: Binding, scope: NameScope) -> Ref:
        match binding.kind:
            case BindingKind.IMPORT | BindingKind.FROM:
                return self._imported(binding, scope)
            case BindingKind.FUNCTION | BindingKind.CLASS:
                return self._defined(binding, scope)
            case BindingKind.VALUE:
                return self._assigned(binding, scope)
            case BindingKind.PARAMETER:
                return self._parameter(binding, scope)
            case BindingKind.WITH:
                return self._expressions.entered(binding, scope)
            case BindingKind.UNKNOWN:
                return UnknownRef(Ignorance.EXPRESSION)

    def _imported(self, binding: Binding, scope: NameScope) -> Ref:
        if binding.kind is BindingKind.IMPORT:
            return self.modules.imported(binding.target, binding.name)
        return self.modules.imported_from(binding, scope)

    def _defined(self, binding: Binding, scope: NameScope) -> Ref:
        if binding.kind is BindingKind.FUNCTION:
            return self.classes.function(binding, scope)
        return ClassRef(scope.children[id(binding.node)])

    def _assigned(self, binding: Binding, scope: NameScope) -> Ref:
        ref: Ref = UnknownRef(Ignorance.EXPRESSION)
        if binding.value is not None:
            ref = self.value(binding.value, scope)
        vague = isinstance(ref, UnknownRef | OutsideRef | UnionRef)
        if isinstance(ref, ConstantRef) and ref.value is None:
            vague = True
        if vague and binding.annotation is not None:
            return self.annotations.instance(binding.annotation, scope)
        return ref

    def _parameter(self, binding: Binding, scope: NameScope) -> Ref:
        own = self.classes.first_parameter(binding, scope)
        if own is not None:
            return own
        if binding.annotation is None:
            return UnknownRef(Ignorance.EXPRESSION)
        return self.annotations.instance(binding.annotation, scope)

    def attribute(self, ref: Ref, name: str) -> Ref:
        """What an attribute stands for."""
        match ref:
            case ModuleRef() | OutsideRef():
                return self._name_of_package(ref, name)
            case ClassRef() | InstanceRef() | SuperRef():
                return self._name_of_class(ref, name)
            case ConstantRef():
                return _constant_attribute(ref, name)
            case UnionRef():
                return joined([self.attribute(each, name) for each in ref.options])
            case UnknownRef():
                return UnknownRef(ref.why, ref.detail)
            case _:
                return UnknownRef(Ignorance.EXPRESSION, name)

    def _name_of_package(self, ref: ModuleRef | OutsideRef, name: str) -> Ref:
        if isinstance(ref, ModuleRef):
            return self.modules.member(ref.name, name)
        return self._outside(f"{ref.path}.{name}")

    def _name_of_class(self, ref: ClassRef | InstanceRef | SuperRef, name: str) -> Ref:
        if isinstance(ref, ClassRef):
            return self.classes.class_attribute(ref, name)
        if isinstance(ref, InstanceRef):
            return self.classes.instance_attribute(ref, name)
        return self.classes.super_attribute(ref, name)

    def _outside(self, path: str) -> Ref:
        if path == "sys.version_info":
            return ConstantRef((*self.world.python, 0, "final", 0))
        return OutsideRef(path)


def _is_outer(name: str, scope: NameScope) -> bool:
    """Whether a function below declares the name global or nonlocal: it may give it any value."""
    if scope.is_class:
        return False
    return any(name in child.outer or _is_outer(name, child) for child in scope.children.values())


def _constant_attribute(ref: ConstantRef, name: str) -> Ref:
    if isinstance(ref.value, tuple) and name in {"major", "minor"} and len(ref.value) > 1:
        return ConstantRef(ref.value[name == "minor"])
    if name in _VERSION_PARTS and hasattr(ref.value, name):
        return ConstantRef(getattr(ref.value, name))
    return UnknownRef(Ignorance.EXPRESSION, name)
