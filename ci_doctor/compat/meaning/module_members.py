# SPDX-License-Identifier: Apache-2.0
"""Pure. The names of modules: bound there, imported with a star, or submodules."""

import ast
from typing import Final

from ci_doctor.compat.meaning.asking import Asks
from ci_doctor.compat.meaning.refs import (
    AbsentRef,
    ConstantRef,
    Ignorance,
    ModuleRef,
    OutsideRef,
    Ref,
    UnknownRef,
)
from ci_doctor.compat.reading.name_scope import Binding, NameScope
from ci_doctor.compat.reading.parsed_module import ReadModule

# What the import system gives every module.
_OWN_NAMES: Final = frozenset(
    {
        "__name__",
        "__file__",
        "__doc__",
        "__path__",
        "__package__",
        "__spec__",
        "__loader__",
        "__dict__",
        "__all__",
        "__builtins__",
        "__cached__",
        "__class__",
    }
)


class ModuleMembers:
    """Looks names up in modules."""

    def __init__(self, asks: Asks) -> None:
        self._asks = asks
        self._world = asks.world
        self._looking: set[tuple[str, str]] = set()
        self._known: dict[tuple[str, str], Ref] = {}

    def imported(self, target: str, alias: str) -> Ref:
        """What `import target` binds: the module with an alias, else its top package."""
        if self._world.side(target) is None:
            return OutsideRef(target if alias else target.partition(".")[0])
        state = self.module(target)
        if isinstance(state, AbsentRef | UnknownRef):
            return state
        return state if alias else ModuleRef(target.partition(".")[0])

    def module(self, name: str) -> Ref:
        """The module of that dotted name, or why there is none."""
        parts = name.split(".")
        for length in range(2, len(parts) + 1):
            part = ".".join(parts[:length])
            if self._world.file(part) is None:
                if self._world.may_be_built(part):
                    return UnknownRef(Ignorance.BUILD, part)
                if self._is_compiled_or_dynamic(".".join(parts[: length - 1])):
                    return UnknownRef(Ignorance.NO_SOURCE, part)
                return AbsentRef(".".join(parts[: length - 1]), part, is_module=True)
        return ModuleRef(name)

    def imported_from(self, binding: Binding, scope: NameScope) -> Ref:
        """What `from target import name` binds."""
        name = self.absolute(binding, scope)
        if name is None:
            return UnknownRef(Ignorance.EXPRESSION)
        if self._world.side(name) is None:
            return OutsideRef(f"{name}.{binding.name}")
        state = self.module(name)
        if not isinstance(state, ModuleRef):
            return self._own_fault(state, scope)
        if binding.name == "*":
            return state
        return self._own_fault(self.member(name, binding.name), scope)

    def absolute(self, binding: Binding, scope: NameScope) -> str | None:
        """The absolute name of the module that a `from` names."""
        if not binding.level:
            return binding.target
        parts = scope.module.split(".")
        file = self._world.file(scope.module)
        drop = binding.level - (1 if file is not None and file.is_package else 0)
        if drop > len(parts) - (1 if binding.target == "" and drop == len(parts) else 0):
            return None
        kept = parts[: len(parts) - drop]
        name = ".".join([*kept, binding.target] if binding.target else kept)
        return name or None

    def _own_fault(self, ref: Ref, scope: NameScope) -> Ref:
        """What is missing inside a callee is the callee's own affair, and no proof for the caller."""
        if isinstance(ref, AbsentRef) and self._world.is_callee(scope.module):
            return UnknownRef(Ignorance.LAZY, ref.name)
        return ref

    def member(self, module: str, name: str) -> Ref:
        """What a name of a module stands for."""
        key = (module, name)
        if key in self._looking:
            return UnknownRef(Ignorance.LAZY, module)
        if key not in self._known:
            self._looking.add(key)
            try:
                self._known[key] = self._member(module, name)
            finally:
                self._looking.discard(key)
        return self._known[key]

    def _member(self, module: str, name: str) -> Ref:
        if name == "__version__" and module in self._world.versions():
            return ConstantRef(self._world.versions()[module])
        read = self._world.module(module)
        if read is not None:
            ref = self._asks.bound(name, read.scope)
            if ref is not None:
                return ref
            star = self.from_stars(read.scope, name)
            if star is not None:
                return star
        if self._world.file(f"{module}.{name}") is not None:
            return ModuleRef(f"{module}.{name}")
        return self._missing(module, name, read)

    def _missing(self, module: str, name: str, read: ReadModule | None) -> Ref:
        if name in _OWN_NAMES:
            return UnknownRef(Ignorance.EXPRESSION, name)
        if self._world.may_be_built(f"{module}.{name}"):
            return UnknownRef(Ignorance.BUILD, f"{module}.{name}")
        if read is None:
            return self._without_source(module, name)
        if "__getattr__" in read.scope.bindings or read.scope.is_dynamic:
            return self._lazy(module, name, read)
        if self._any_binding(read.scope, name):
            # In a branch that does not run here.
            return UnknownRef(Ignorance.CONDITION, name)
        return AbsentRef(module, name)

    def _without_source(self, module: str, name: str) -> Ref:
        file = self._world.file(module)
        if file is not None and file.path is None and file.is_package:
            return AbsentRef(module, name)  # a namespace package holds modules and nothing else
        return UnknownRef(Ignorance.NO_SOURCE, module)

    def _lazy(self, module: str, name: str, read: ReadModule) -> Ref:
        """A name that the module makes at run time, if it tells type checkers where it comes from."""
        ref = self._asks.bound(name, read.scope, typing=True)
        if ref is None:
            ref = self.from_stars(read.scope, name)
        known = ref is not None and not isinstance(ref, AbsentRef)
        return ref if known and ref is not None else UnknownRef(Ignorance.LAZY, module)

    def _any_binding(self, scope: NameScope, name: str) -> bool:
        if name in scope.bindings:
            return True
        return any(name in child.outer for child in scope.children.values())

    def from_stars(self, scope: NameScope, name: str) -> Ref | None:
        """What a star import of the module binds the name to; None if none of them does."""
        lazy: Ref | None = None
        for binding in scope.stars:
            target = self.absolute(binding, scope)
            if target is None or self._world.side(target) is None:
                return UnknownRef(Ignorance.OUTSIDE, target or "")
            if not self._world.may_export(target, name):
                continue
            read = self._world.module(target)
            if read is None:
                return UnknownRef(Ignorance.NO_SOURCE, target)
            ref = self._through_star(target, read, name)
            if isinstance(ref, UnknownRef) and ref.why is Ignorance.LAZY:
                lazy = ref  # another star may say where the name comes from
            elif ref is not None:
                return ref
        return lazy

    def _through_star(self, target: str, read: ReadModule, name: str) -> Ref | None:
        exported = exported_names(read)
        if exported is None:
            if name.startswith("_"):
                return None
        elif name not in exported:
            return None
        ref = self.member(target, name)
        return None if isinstance(ref, AbsentRef) else ref

    def _is_compiled_or_dynamic(self, module: str) -> bool:
        file = self._world.file(module)
        if file is not None and file.path is None and not file.is_package:
            return True
        read = self._world.module(module)
        return read is not None and (read.scope.is_dynamic or "__path__" in read.scope.bindings)


def exported_names(read: ReadModule) -> frozenset[str] | None:
    """The names in `__all__`; None if the module has none, or one that is not a plain list."""
    bindings = read.scope.bindings.get("__all__", [])
    if len(bindings) != 1 or not isinstance(bindings[0].value, ast.List | ast.Tuple):
        return None
    names = set()
    for element in bindings[0].value.elts:
        if not isinstance(element, ast.Constant) or not isinstance(element.value, str):
            return None
        names.add(element.value)
    return frozenset(names)
