# SPDX-License-Identifier: Apache-2.0
"""Reads both sides for what speaks against a break, and the caller's classes below those of the callee."""

import ast
import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from typing import Final

from ci_doctor.compat import breaks as rules
from ci_doctor.compat.breaks import DefinitionFact, Judged, break_at, line_of
from ci_doctor.compat.calls import CallSignature, mismatches, of_function
from ci_doctor.compat.classes import Ancestor, Shape, shape, words
from ci_doctor.compat.evaluation import Evaluation
from ci_doctor.compat.scopes import FunctionNode, NameScope, ReadModule
from ci_doctor.compat.world import (
    AbsentRef,
    Caught,
    ClassRef,
    FunctionRef,
    InstanceRef,
    Life,
    Ref,
    Side,
    UnknownRef,
)

_METHOD_CALL: Final = re.compile(r"\.(\w+)\(")


class DoubtCheck:
    """Looks for code that makes a doubtful name or signature right after all."""

    def __init__(self, evaluation: Evaluation, callers: Sequence[ReadModule]) -> None:
        self._evaluation = evaluation
        self._world = evaluation.world
        self._callers = callers
        # As long as the pair is judged.
        self._all_text: Callable[[Side], list[tuple[str, str]]] = cache(_texts)
        self._calling: Callable[[Side], dict[str, list[tuple[str, str]]]] = cache(self._by_method)

    def is_named_in_caller(self, name: str) -> bool:
        """Whether a class of the caller defines the name, perhaps a mixin. Text says first where to look."""
        pattern = re.compile(rf"(?:def|class)\s+{name}\b|\b{name}\s*(?::[^=\n]+)?=(?!=)")
        side = self._world.caller
        for path, text in self._all_text(side):
            if name in text and pattern.search(text) and self._defines(side, path, name):
                return True
        return False

    def _defines(self, side: Side, path: str, name: str) -> bool:
        """Whether a class in the file defines the name; so be it if nobody can read the file."""
        module = self._module_of(side, path)
        read = None if module is None else self._world.module(module)
        if read is None:
            return True
        return any(name in each.bindings or name in each.attributes for each in read.classes)

    def may_have(self, owner: Ref, name: str) -> bool:
        """Whether code assigns the name from elsewhere, or a class below has it."""
        if any(name in module.patched for module in self._callers):
            return True
        pattern = re.compile(
            rf"(?<!self)(?<!cls)\.{name}\s*(?::[^=\n(]+)?=(?!=)|setattr\([^,]+,\s*[\"']{name}[\"']"
        )
        if any(self._matches(side, name, pattern) for side in self._world.callees):
            return True
        if isinstance(owner, InstanceRef) and not owner.is_exact:
            return any(self._has(each, name) for each in self._below(owner.cls))
        return False

    def may_be_set(self, ref: AbsentRef) -> bool:
        """Whether code of a callee gives the module of `ref` names that no text shows: `setattr(module, name, …)`."""
        if ref.is_module or ref.scope is not None:
            return False
        last = ref.place.rpartition(".")[2]
        pattern = re.compile(
            rf"setattr\(\s*(?:\w+\.)*{last}\s*,\s*[^\s\"']|vars\((?:\w+\.)*{last}\)|\b{last}\.__dict__"
        )
        return any(self._matches(side, last, pattern) for side in self._world.callees)

    def may_take(self, ref: Ref, node: ast.Call) -> bool:
        """Whether a class below the one of a method overrides it with one that takes the call."""
        if not isinstance(ref, FunctionRef) or ref.owner is None or not ref.skip:
            return False
        func = node.func
        if isinstance(func, ast.Attribute) and ast.unparse(func.value) == "super()":
            return False
        name = ref.scope.name
        for below in self._below(ClassRef(ref.owner)):
            override = self._evaluation.attribute(InstanceRef(below), name)
            if not isinstance(override, FunctionRef) or override.scope is ref.scope:
                continue
            if not mismatches(of_function(override), node):
                return True
        return False

    def _matches(self, side: Side, word: str, pattern: re.Pattern[str]) -> bool:
        """Whether a file has the pattern. `word` is a part of it: looking for it alone is far cheaper."""
        return any(word in text and pattern.search(text) for _, text in self._all_text(side))

    def modules_that_call(
        self, method: str, is_wanted: Callable[[str], bool], *, most: int
    ) -> list[ReadModule] | None:
        """The callees' modules that call `.method(` in a text that is wanted; None if there are more than `most`."""
        modules = []
        for side in self._world.callees:
            for path, text in self._calling(side).get(method, ()):
                if not is_wanted(text):
                    continue
                name = self._module_of(side, path)
                read = None if name is None else self._world.module(name)
                if read is not None:
                    modules.append(read)
                if len(modules) > most:
                    return None
        return modules

    def _has(self, cls: ClassRef, name: str) -> bool:
        ref = self._evaluation.attribute(InstanceRef(cls), name)
        return not isinstance(ref, AbsentRef)

    def _below(self, cls: ClassRef) -> Iterator[ClassRef]:
        """The classes of both sides below a class, as far as their bases are known."""
        pattern = re.compile(rf"^[ \t]*class\s+\w+\s*\([^)]*\b{cls.scope.name}\b", re.MULTILINE)
        for side in (*self._world.callees, self._world.caller):
            for path, text in self._all_text(side):
                if cls.scope.name not in text or not pattern.search(text):
                    continue
                module = self._module_of(side, path)
                read = None if module is None else self._world.module(module)
                for scope in () if read is None else read.classes:
                    below = ClassRef(scope)
                    if below != cls and cls in self._evaluation.classes.bases.order(below):
                        yield below

    def _module_of(self, side: Side, path: str) -> str | None:
        for name, file in side.index.modules.items():
            if file.path == path:
                return name
        return None

    def _by_method(self, side: Side) -> dict[str, list[tuple[str, str]]]:
        """The files of a side by the methods that they call: one pass, not one for each method."""
        files: dict[str, list[tuple[str, str]]] = {}
        for path, text in self._all_text(side):
            for method in set(_METHOD_CALL.findall(text)):
                files.setdefault(method, []).append((path, text))
        return files


def _texts(side: Side) -> list[tuple[str, str]]:
    texts = []
    for path in sorted(side.tree.names):
        if path.endswith(".py"):
            with contextlib.suppress(OSError):
                texts.append((path, side.tree.read(path).decode("utf-8", "replace")))
    return texts


_LONGEST_CALL: Final = 4_000
# A name that stands in more files is a word of every program, such as `get`: reading all of them costs more
# than all the rest.
_MOST_FILES: Final = 30


def _may_misfit(text: str, name: str, own: CallSignature) -> bool:
    """Whether a call of the method in this text does not fit, or cannot be cut out of it."""
    start = text.find(f".{name}(")
    while start >= 0:
        opening = start + len(name) + 1
        try:
            node = ast.parse(f"f{_bracketed(text, opening)}", mode="eval").body
        except (SyntaxError, ValueError):
            return True
        if not isinstance(node, ast.Call) or mismatches(own, node):
            return True
        start = text.find(f".{name}(", opening)
    return False


def _bracketed(text: str, opening: int) -> str:
    """From the bracket at `opening` to the one that closes it. Brackets in strings break it off early."""
    depth = 0
    for position in range(opening, min(len(text), opening + _LONGEST_CALL)):
        depth += (text[position] in "([{") - (text[position] in ")]}")
        if depth == 0:
            return text[opening : position + 1]
    return text[opening : opening + 1]


_ABSTRACT: Final = re.compile(r"\bABC\b|\bABCMeta\b|\bProtocol\b")


class OverrideJudge:
    """Judges the classes of the caller, one module after the other."""

    def __init__(self, evaluation: Evaluation, doubts: DoubtCheck, judged: Judged) -> None:
        self._evaluation = evaluation
        self._world = evaluation.world
        self._doubts = doubts
        self._judged = judged

    def module(self, module: ReadModule, parents: AbstractSet[str]) -> None:
        """Judge the classes of a module. `parents`: names of classes that others of the caller extend."""
        for scope in module.classes:
            cls = ClassRef(scope)
            order = self._evaluation.classes.bases.order(cls)
            above = [each for each in order[1:] if self._is_callee(each)]
            if not above or self._evaluation.conditions.runs(scope.guards, scope) < Life.SOMETIMES:
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
        # The text of each call decides first whether its file is worth parsing.
        modules = self._doubts.modules_that_call(
            node.name, lambda text: _may_misfit(text, node.name, own), most=_MOST_FILES
        )
        if modules is None:
            self._judged.unknown += 1
            return
        self._judged.count("overrides")
        calls = [(at, call) for at in modules for call in self._calls(at, above, node.name)]
        for at, call in calls:
            wrong = mismatches(own, call)
            if not wrong:
                continue
            place = line_of(at, call)
            text = f"def {own.text.rpartition('.')[2]}"
            broken = break_at(
                rules.OVERRIDE,
                DefinitionFact(file=module.path, line=node.lineno, text=text),
                symbol=f"{owner.name}.{node.name}",
                sentence=(
                    f"{owner.scope.module.partition('.')[0]} calls {node.name}() of "
                    f"{owner.scope.name} at {place.file}:{place.line}, and " + "; ".join(wrong)
                ),
                now=DefinitionFact(file=place.file, line=place.line, text=f"calls {place.text}"),
            )
            self._judged.breaks.append(broken)
            return

    def _calls(
        self, module: ReadModule, above: Sequence[Ancestor], name: str
    ) -> Iterator[ast.Call]:
        """The calls of `name` that run, on receivers that may surely be one of the classes `above`."""
        conditions = self._evaluation.conditions
        for site in module.sites:
            node = site.node
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr != name:
                continue
            receiver = self._evaluation.value(node.func.value, site.scope)
            if not isinstance(receiver, InstanceRef) or receiver.is_exact:
                continue
            is_caught = conditions.caught(site.guards, "TypeError") is not Caught.NOT
            is_run = conditions.runs(site.guards, site.scope) >= Life.SOMETIMES
            if receiver.cls in above and is_run and not is_caught:
                yield node

    def _abstract(self, module: ReadModule, cls: ClassRef, order: Sequence[Ancestor]) -> None:
        classes = [each for each in order if isinstance(each, ClassRef)]
        nodes = [each.scope.node for each in classes if isinstance(each.scope.node, ast.ClassDef)]
        named = [
            ast.unparse(each)
            for node in nodes
            for each in (*node.bases, *(keyword.value for keyword in node.keywords))
        ]
        if len(classes) != len(order) or not any(map(_ABSTRACT.search, named)):
            return
        names: dict[str, ClassRef] = {}
        for each in classes:
            for name in _abstract_names(each):
                names.setdefault(name, each)
        missing = {}
        for name, owner in names.items():
            # The first definition of the name must be the abstract one.
            inherited, first = self._evaluation.classes.lookup(order, name)
            is_known = first is not None and not isinstance(inherited, UnknownRef)
            if is_known and first is not None and name in _abstract_names(first):
                missing[name] = owner
        if not missing or any(not self._is_callee(owner) for owner in missing.values()):
            return
        name, owner = min(missing.items())
        made = [
            site.node
            for site in module.sites
            if isinstance(site.node, ast.Call)
            and self._evaluation.value(site.node.func, site.scope) == cls
        ]
        line = getattr(cls.scope.node, "lineno", 1)
        at = DefinitionFact(file=module.path, line=line, text=f"class {cls.scope.name}")
        where = "is made here" if made else "cannot be made by anybody"
        self._judged.breaks.append(
            break_at(
                rules.ABSTRACT,
                line_of(module, made[0]) if made else at,
                symbol=f"{owner.name}.{name}",
                sentence=f"{cls.scope.name} {where}: it lacks the abstract method `{name}` of {owner.name}",
                is_certain=bool(made),
                now=self._world.class_line(owner.scope),
            )
        )


def _abstract_names(cls: ClassRef) -> set[str]:
    return {
        name
        for name, bindings in cls.scope.bindings.items()
        for binding in bindings
        if isinstance(binding.node, FunctionNode) and "abstractmethod" in words(binding.node)
    }
