# SPDX-License-Identifier: Apache-2.0
"""Reads all source of both sides for a name, before it is said to be gone."""

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from ci_doctor.compat.judging.binding import arguments_of, mismatches
from ci_doctor.compat.judging.call_signature import of_function
from ci_doctor.compat.meaning.evaluation import Evaluation
from ci_doctor.compat.meaning.refs import AbsentRef, ClassRef, FunctionRef, InstanceRef, Ref
from ci_doctor.compat.meaning.world import Side
from ci_doctor.compat.reading.parsed_module import ReadModule

_METHOD_CALL: Final = re.compile(r"\.(\w+)\(")


class DoubtCheck:
    """Looks for code that makes a doubtful name or signature right after all."""

    def __init__(self, evaluation: Evaluation, callers: Sequence[ReadModule]) -> None:
        self._evaluation = evaluation
        self._world = evaluation.world
        self._callers = callers
        self._texts: dict[int, list[tuple[str, str]]] = {}
        self._by_method: dict[int, dict[str, list[tuple[str, str]]]] = {}

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
            if not mismatches(of_function(override), arguments_of(node)):
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

    def _calling(self, side: Side) -> dict[str, list[tuple[str, str]]]:
        """The files of a side by the methods that they call: one pass, not one for each method."""
        key = id(side)
        if key not in self._by_method:
            files: dict[str, list[tuple[str, str]]] = {}
            for path, text in self._all_text(side):
                for method in set(_METHOD_CALL.findall(text)):
                    files.setdefault(method, []).append((path, text))
            self._by_method[key] = files
        return self._by_method[key]

    def _all_text(self, side: Side) -> list[tuple[str, str]]:
        key = id(side)
        if key not in self._texts:
            self._texts[key] = list(_texts(side))
        return self._texts[key]


def _texts(side: Side) -> Iterator[tuple[str, str]]:
    for path in sorted(side.tree.names):
        if path.endswith(".py"):
            try:
                yield path, side.tree.read(path).decode("utf-8", "replace")
            except OSError:
                continue
