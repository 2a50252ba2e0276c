# SPDX-License-Identifier: Apache-2.0
"""Reads the caller's classes below classes of the callee: overrides, and abstract methods."""

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Final

from ci_doctor.compat.judging.binding import arguments_of, mismatches
from ci_doctor.compat.judging.breakage import Breakage, BreakKind, Judged, SourceLine
from ci_doctor.compat.judging.call_signature import of_function
from ci_doctor.compat.judging.callee_calls import CalleeCalls
from ci_doctor.compat.judging.excerpts import excerpt
from ci_doctor.compat.judging.wording import sentence
from ci_doctor.compat.meaning.bases import Ancestor
from ci_doctor.compat.meaning.decorators import Shape, shape, words
from ci_doctor.compat.meaning.evaluation import Evaluation
from ci_doctor.compat.meaning.life import Life
from ci_doctor.compat.meaning.refs import ClassRef, FunctionRef, Ignorance, UnknownRef
from ci_doctor.compat.reading.name_scope import FunctionNode, NameScope
from ci_doctor.compat.reading.parsed_module import ReadModule

_ABSTRACT: Final = re.compile(r"\bABC\b|\bABCMeta\b|\bProtocol\b")


class OverrideJudge:
    """Judges the classes of the caller, one module after the other."""

    def __init__(self, evaluation: Evaluation, calls: CalleeCalls, judged: Judged) -> None:
        self._evaluation = evaluation
        self._world = evaluation.world
        self._calls = calls
        self._judged = judged

    def module(self, module: ReadModule, parents: frozenset[str]) -> None:
        """Judge the classes of a module. `parents`: names of classes that others of the caller extend."""
        for scope in module.classes:
            cls = ClassRef(scope)
            order = self._evaluation.classes.bases.order(cls)
            above = [each for each in order[1:] if self._is_callee(each)]
            if not above or self._evaluation.runs(scope.guards, scope) < Life.SOMETIMES:
                continue
            for node in self._methods(scope):
                self._override(module, cls, order[1:], node)
            if scope.name not in parents:
                self._abstract(module, cls, order)

    def _is_callee(self, ancestor: Ancestor) -> bool:
        return isinstance(ancestor, ClassRef) and self._world.is_callee(ancestor.scope.module)

    def _methods(self, scope: NameScope) -> Iterator[FunctionNode]:
        """Methods that are bound once, and whose decorators leave them as they are."""
        for name, bindings in scope.bindings.items():
            node = bindings[0].node
            is_special = name.startswith("__")
            if is_special or len(bindings) != 1 or not isinstance(node, FunctionNode):
                continue
            if shape(node, scope, self._evaluation) is Shape.PLAIN:
                yield node

    def _override(
        self, module: ReadModule, cls: ClassRef, above: Sequence[Ancestor], node: FunctionNode
    ) -> None:
        inherited, owner = self._evaluation.classes.lookup(above, node.name)
        if owner is None or not self._is_callee(owner) or not isinstance(inherited, FunctionRef):
            return
        own = of_function(FunctionRef(cls.scope.children[id(node)], skip=1))
        calls = self._calls.misfits(own, above, node.name)
        if calls is None:
            self._judged.miss(Ignorance.COMMON)
            return
        self._judged.count("overrides")
        for call in calls:
            wrong = mismatches(own, arguments_of(call.node))
            broken = Breakage(
                kind=BreakKind.OVERRIDE,
                at=SourceLine(
                    file=module.path, line=node.lineno, text=f"def {own.text.rpartition('.')[2]}"
                ),
                symbol=f"{owner.name}.{node.name}",
                sentence=(
                    f"{owner.scope.module.partition('.')[0]} calls {node.name}() of "
                    f"{owner.scope.name} at {call.at.file}:{call.at.line}, and "
                    + "; ".join(sentence(own, each) for each in wrong)
                ),
                definition=SourceLine(
                    file=call.at.file, line=call.at.line, text=f"calls {call.at.text}"
                ),
                signature=of_function(FunctionRef(inherited.scope, skip=1)),
                mismatches=tuple(wrong),
            )
            self._judged.breaks.append(broken)
            return

    def _abstract(self, module: ReadModule, cls: ClassRef, order: Sequence[Ancestor]) -> None:
        classes = [each for each in order if isinstance(each, ClassRef)]
        if len(classes) != len(order) or not any(map(_is_abstract_base, classes)):
            return
        names: dict[str, ClassRef] = {}
        for each in classes:
            for name in _abstract_names(each):
                names.setdefault(name, each)
        missing = {name: owner for name, owner in names.items() if self._stays(order, name)}
        if not missing or any(not self._is_callee(owner) for owner in missing.values()):
            return
        name, owner = min(missing.items())
        site = self._instance_of(module, cls)
        line = getattr(cls.scope.node, "lineno", 1)
        read = self._world.module(owner.scope.module)
        at = site or SourceLine(file=module.path, line=line, text=f"class {cls.scope.name}")
        where = "is made here" if site is not None else "cannot be made by anybody"
        self._judged.breaks.append(
            Breakage(
                kind=BreakKind.ABSTRACT,
                at=at,
                symbol=f"{owner.name}.{name}",
                sentence=f"{cls.scope.name} {where}: it lacks the abstract method `{name}` of {owner.name}",
                is_certain=site is not None,
                definition=None
                if read is None
                else SourceLine(
                    file=read.path,
                    line=getattr(owner.scope.node, "lineno", 1),
                    text=f"class {owner.scope.qualified}",
                ),
            )
        )

    def _stays(self, order: Sequence[Ancestor], name: str) -> bool:
        """Whether the first definition of the name in `order` is the abstract one."""
        inherited, owner = self._evaluation.classes.lookup(order, name)
        if isinstance(inherited, UnknownRef):
            return False
        return owner is not None and name in _abstract_names(owner)

    def _instance_of(self, module: ReadModule, cls: ClassRef) -> SourceLine | None:
        for site in module.sites:
            if not isinstance(site.node, ast.Call):
                continue
            if self._evaluation.value(site.node.func, site.scope) == cls:
                line = site.node.lineno
                return SourceLine(
                    file=module.path, line=line, text=excerpt(module, site.node, line)
                )
        return None


def _is_abstract_base(cls: ClassRef) -> bool:
    node = cls.scope.node
    if not isinstance(node, ast.ClassDef):
        return False
    named = [ast.unparse(each) for each in (*node.bases, *(each.value for each in node.keywords))]
    return any(_ABSTRACT.search(each) for each in named)


def _abstract_names(cls: ClassRef) -> set[str]:
    names = set()
    for name, bindings in cls.scope.bindings.items():
        for binding in bindings:
            if isinstance(binding.node, FunctionNode) and "abstractmethod" in words(binding.node):
                names.add(name)
    return names
