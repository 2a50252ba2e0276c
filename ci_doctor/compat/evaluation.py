# SPDX-License-Identifier: Apache-2.0
"""Pure. What names and expressions stand for, followed through imports, assignments and calls."""

import ast
import builtins
from typing import Any, Final

from packaging.version import InvalidVersion, Version

from ci_doctor.compat.classes import MANAGERS, ClassMembers, words
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
        # What the parts ask each other (`Asks`).
        self.runs = self.conditions.runs
        self.member = self.modules.member
        self.imported = self.modules.imported
        self.absolute = self.modules.absolute
        self.class_member = self.classes.member
        self._values: dict[tuple[int, int], Ref] = {}
        self._bindings: dict[tuple[int, int], Ref] = {}
        self._depth = 0
        self._forms: dict[type[ast.expr], Any] = {
            ast.Name: lambda node, scope: self.lookup(node.id, scope),
            ast.Attribute: self._attribute,
            ast.Subscript: self._subscript,
            ast.Call: self._call,
            ast.Await: self._awaited,
            ast.IfExp: self._choice,
            ast.BoolOp: self._either,
            ast.NamedExpr: lambda node, scope: self.value(node.value, scope),
            ast.Compare: self._truth,
            ast.UnaryOp: self._negation,
            ast.Constant: lambda node, _: ConstantRef(node.value),
            ast.Tuple: self._folded,
            ast.BinOp: self._folded,
        }

    def value(self, node: ast.expr, scope: NameScope) -> Ref:
        """What an expression stands for in a scope."""
        key = (id(node), id(scope))
        if key not in self._values:
            # An expression that needs itself, as in a loop, is unknown while it is looked at.
            self._values[key] = _UNKNOWN
            read = self._forms.get(type(node))
            if read is not None and self._depth <= _DEEPEST:
                self._depth += 1
                try:
                    self._values[key] = read(node, scope)
                finally:
                    self._depth -= 1
        return self._values[key]

    def _negation(self, node: ast.UnaryOp, scope: NameScope) -> Ref:
        return self._truth(node, scope) if isinstance(node.op, ast.Not) else _UNKNOWN

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
        # A function below may declare it global or nonlocal, and give it any value.
        if name in scope.outer or (not scope.is_class and self._is_outer(name, scope)):
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
        ref: Ref = _UNKNOWN
        match binding.kind:
            case BindingKind.IMPORT:
                ref = self.modules.imported(binding.target, binding.name)
            case BindingKind.FROM:
                ref = self.modules.imported_from(binding, scope)
            case BindingKind.FUNCTION | BindingKind.CLASS:
                ref = self.classes.defined(binding, scope)
            case BindingKind.VALUE:
                ref = self._assigned(binding, scope)
            case BindingKind.PARAMETER:
                ref = self.classes.first_parameter(binding, scope) or self._assigned(binding, scope)
            case BindingKind.WITH:
                ref = self.entered(binding, scope)
            case BindingKind.UNKNOWN:
                pass
        return ref

    def _is_outer(self, name: str, scope: NameScope) -> bool:
        return any(
            name in child.outer or (not child.is_class and self._is_outer(name, child))
            for child in scope.children.values()
        )

    def _assigned(self, binding: Binding, scope: NameScope) -> Ref:
        ref = _UNKNOWN if binding.value is None else self.value(binding.value, scope)
        vague = isinstance(ref, UnknownRef | OutsideRef | UnionRef)
        is_none = isinstance(ref, ConstantRef) and ref.value is None
        if binding.annotation is not None and (vague or is_none):
            return self.annotation(binding.annotation, scope)
        return ref

    def attribute(self, ref: Ref, name: str) -> Ref:  # noqa: PLR0911 - a case per form
        """What an attribute stands for."""
        match ref:
            case ModuleRef():
                return self.modules.member(ref.name, name)
            case OutsideRef(path="sys") if name == "version_info":
                return ConstantRef((*self.world.python, 0, "final", 0))
            case OutsideRef():
                return OutsideRef(f"{ref.path}.{name}")
            case ClassRef() | InstanceRef() | SuperRef():
                return self.classes.attribute(ref, name)
            case ConstantRef():
                return _constant_attribute(ref, name)
            case UnionRef():
                return joined([self.attribute(each, name) for each in ref.options])
            case UnknownRef():
                return UnknownRef(ref.why, ref.detail)
            case _:
                return UnknownRef(Ignorance.EXPRESSION, name)

    def annotation(self, node: ast.expr, scope: NameScope) -> Ref:
        """What a value with that annotation stands for.

        A class below the named one is possible, so no instance is exact.
        """
        match node:
            case ast.Constant(value=str() as text):
                return self._annotation_text(text, scope)
            case ast.BinOp(op=ast.BitOr()):
                return self._union([node.left, node.right], scope)
            case ast.Subscript():
                return self._form(node, scope)
            case ast.Name() | ast.Attribute():
                return self._class_named(node, scope)
            case _:
                return _UNKNOWN

    def _annotation_text(self, text: str, scope: NameScope) -> Ref:
        try:
            parsed = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError):
            return _UNKNOWN
        # No other line has this node, so what is kept for it must not outlive it.
        return self.annotation(parsed, scope)

    def _union(self, options: list[ast.expr], scope: NameScope) -> Ref:
        real = [
            each for each in options if not (isinstance(each, ast.Constant) and each.value is None)
        ]
        return self.annotation(real[0], scope) if len(real) == 1 else _UNKNOWN

    def _form(self, node: ast.Subscript, scope: NameScope) -> Ref:
        form = ast.unparse(node.value).rpartition(".")[2]
        inside = node.slice
        parts = inside.elts if isinstance(inside, ast.Tuple) else [inside]
        if form == "Union":
            return self._union(list(parts), scope)
        if form in _THROUGH and parts:
            return self.annotation(parts[0], scope)
        if form in {"type", "Type"}:
            return _UNKNOWN
        return self._class_named(node.value, scope)

    def _class_named(self, node: ast.expr, scope: NameScope) -> Ref:
        ref = self._reference(node, scope)
        if isinstance(ref, ClassRef):
            return InstanceRef(ref, is_exact=False)
        if isinstance(ref, OutsideRef):
            return UnknownRef(Ignorance.OUTSIDE, ref.path.partition(".")[0])
        return ref if isinstance(ref, UnknownRef) else _UNKNOWN

    def _reference(self, node: ast.expr, scope: NameScope) -> Ref:
        # What is imported under TYPE_CHECKING counts here.
        if isinstance(node, ast.Name):
            return self.lookup(node.id, scope, typing=True)
        if isinstance(node, ast.Attribute):
            return self.attribute(self._reference(node.value, scope), node.attr)
        return _UNKNOWN

    def _truth(self, node: ast.expr, scope: NameScope) -> Ref:
        decided = self.conditions.decisions.decide(node, scope)
        return _UNKNOWN if decided is None else ConstantRef(decided)

    def _folded(self, node: ast.expr, scope: NameScope) -> Ref:
        try:
            return ConstantRef(self.conditions.decisions.folding.value(node, scope))
        except UndecidedError:
            return _UNKNOWN

    def _attribute(self, node: ast.Attribute, scope: NameScope) -> Ref:
        # A test in the function looks at the type of the owner.
        if scope.narrowed and ast.unparse(node.value) in scope.narrowed:
            return UnknownRef(Ignorance.NARROWED, ast.unparse(node.value))
        return self.attribute(self.value(node.value, scope), node.attr)

    def _either(self, node: ast.BoolOp, scope: NameScope) -> Ref:
        refs = [self.value(each, scope) for each in node.values]
        is_stated = all(isinstance(each, ConstantRef) for each in refs)
        if is_stated or not isinstance(node.op, ast.Or):
            return self._truth(node, scope)
        return joined(refs)

    def _choice(self, node: ast.IfExp, scope: NameScope) -> Ref:
        decided = self.conditions.decisions.decide(node.test, scope)
        if decided is not None:
            return self.value(node.body if decided else node.orelse, scope)
        return joined([self.value(each, scope) for each in (node.body, node.orelse)])

    def _awaited(self, node: ast.Await, scope: NameScope) -> Ref:
        ref = self.value(node.value, scope)
        return ref.result if isinstance(ref, AwaitableRef) else _UNKNOWN

    def _subscript(self, node: ast.Subscript, scope: NameScope) -> Ref:
        ref = self.value(node.value, scope)
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
        ref = self.value(node.func, scope)
        options = ref.options if isinstance(ref, UnionRef) else (ref,)
        return joined([self._result(each, node, scope) for each in options])

    def _result(self, ref: Ref, node: ast.Call, scope: NameScope) -> Ref:
        match ref:
            case ClassRef():
                return self.classes.instance(ref)
            case FunctionRef():
                return self.returned(ref)
            case OutsideRef():
                return self._outside(ref.path, node, scope)
            case InstanceRef():
                called = self.attribute(ref, "__call__")
                return self.returned(called) if isinstance(called, FunctionRef) else _UNKNOWN
            case UnknownRef():
                return ref
            case _:
                return _UNKNOWN

    def returned(self, ref: FunctionRef) -> Ref:
        """What a call of the function gives back."""
        node = ref.scope.node
        if isinstance(node, ast.Lambda):
            return self.value(node.body, ref.scope)
        if isinstance(node, ast.Module | ast.ClassDef) or ref.scope.is_generator:
            return _UNKNOWN
        # A call gives a context manager, and not what the body returns.
        if MANAGERS & set(words(node)):
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
            declared = self.annotation(node.returns, ref.scope.parent or ref.scope)
            if isinstance(declared, InstanceRef):
                return declared
        values = []
        for value, guards in ref.scope.returns:
            if value is not None and self.conditions.runs(guards, ref.scope):
                values.append(self.value(value, ref.scope))
        return joined(values) if values else _UNKNOWN

    def _outside(self, path: str, node: ast.Call, scope: NameScope) -> Ref:  # noqa: C901, PLR0911 - a case per function
        if path == "builtins.super":
            return self._super(node, scope)
        if not node.args:
            return UnknownRef(Ignorance.OUTSIDE, path.partition(".")[0])
        first = node.args[0]
        if path.partition(".")[0] == "builtins" and path.rpartition(".")[2] in FUNCTIONS:
            return self._folded(node, scope)
        if path in _PARSERS:
            return self._parsed(first, scope)
        if path in _VERSION_OF:
            return self._version_of(first)
        if path in _SAME:
            return self.value(first, scope)
        if path in {"typing.cast", "typing_extensions.cast"}:
            return self.annotation(first, scope)
        if path == "importlib.import_module" and isinstance(first, ast.Constant):
            name = str(first.value)
            return ModuleRef(name) if self.world.file(name) else _UNKNOWN
        return UnknownRef(Ignorance.OUTSIDE, path.partition(".")[0])

    def _parsed(self, node: ast.expr, scope: NameScope) -> Ref:
        ref = self.value(node, scope)
        try:
            return (
                ConstantRef(Version(str(ref.value))) if isinstance(ref, ConstantRef) else _UNKNOWN
            )
        except InvalidVersion:
            return _UNKNOWN

    def _version_of(self, node: ast.expr) -> Ref:
        if isinstance(node, ast.Constant):
            known = self.world.versions().get(str(node.value))
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
        return SuperRef(cls, is_class=self.classes.is_class_level(function))

    def entered(self, binding: Binding, scope: NameScope) -> Ref:
        """What `with value as name` binds."""
        if binding.value is None:
            return _UNKNOWN
        manager = self.value(binding.value, scope)
        if not isinstance(manager, InstanceRef):
            return _UNKNOWN
        enter = self.attribute(manager, "__enter__")
        return self.returned(enter) if isinstance(enter, FunctionRef) else _UNKNOWN


def _constant_attribute(ref: ConstantRef, name: str) -> Ref:
    if isinstance(ref.value, tuple) and name in {"major", "minor"} and len(ref.value) > 1:
        return ConstantRef(ref.value[name == "minor"])
    if name in _VERSION_PARTS and hasattr(ref.value, name):
        return ConstantRef(getattr(ref.value, name))
    return UnknownRef(Ignorance.EXPRESSION, name)
