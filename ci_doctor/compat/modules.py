# SPDX-License-Identifier: Apache-2.0
"""Pure. The names of modules: imports, star imports, stubs, and `__getattr__` (PEP 562)."""

import ast
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final

from msgspec import structs

from ci_doctor.compat.conditions import Conditions
from ci_doctor.compat.scope_reader import last_word
from ci_doctor.compat.scopes import Binding, NameScope, ReadModule
from ci_doctor.compat.world import (
    THERE,
    UNKNOWN,
    AbsentRef,
    Asks,
    ConstantRef,
    Life,
    ModuleRef,
    OutsideRef,
    Ref,
    UnknownRef,
)


class Answer(StrEnum):
    """One way through the function."""

    GIVES = "gives a value"
    RAISES = "raises AttributeError"
    GOES_ON = "goes on behind the statement"
    REFUSES = "raises AttributeError if nothing else gives it"
    UNDECIDED = "the source does not decide it"


class ModuleGetattr:
    """Follows the statements of such a function."""

    def __init__(self, evaluation: Asks, member: Callable[[str, str], Ref]) -> None:
        self._evaluation = evaluation
        self._member = member
        self._refuses = False

    def answer(self, scope: NameScope, name: str) -> Answer:
        """What the `__getattr__` of the module of `scope` does for `name`."""
        bindings = scope.bindings.get("__getattr__", [])
        node = bindings[-1].node if bindings else None
        if len(bindings) != 1 or not isinstance(node, ast.FunctionDef) or len(node.args.args) != 1:
            return Answer.UNDECIDED
        self._refuses = False
        ways = self._ways(node.body, scope.children[id(node)], {node.args.args[0].arg: name})
        if ways == {Answer.RAISES}:
            return Answer.RAISES
        if ways <= {Answer.GIVES, Answer.GOES_ON}:  # at its end it returns None
            return Answer.GIVES
        return Answer.REFUSES if self._refuses else Answer.UNDECIDED

    def _ways(
        self, body: Sequence[ast.stmt], scope: NameScope, names: dict[str, str]
    ) -> set[Answer]:
        """The ways through these statements."""
        ways: set[Answer] = set()
        for node in body:
            match node:
                case ast.If() | ast.Try():
                    step = self._branches(node, scope, names)
                case ast.Raise():
                    called = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
                    is_absence = called is not None and last_word(called) == "AttributeError"
                    step = {Answer.RAISES if is_absence else Answer.UNDECIDED}
                case ast.Return():
                    step = {self._returned(node.value, scope, names)}
                case ast.With():
                    step = self._ways(node.body, scope, names)
                case _:
                    # A warning, a message, the import of what is returned say nothing.
                    open_ = () if isinstance(node, _QUIET) else (Answer.UNDECIDED,)
                    step = {Answer.GOES_ON, *open_}
            ways |= step - {Answer.GOES_ON}
            if Answer.GOES_ON not in step:
                return ways
        return {*ways, Answer.GOES_ON}

    def _branches(
        self, node: ast.If | ast.Try, scope: NameScope, names: dict[str, str]
    ) -> set[Answer]:
        """The ways through an `if`, or `try: value = TABLE[name]` and its like."""
        if isinstance(node, ast.If):
            decided = self._evaluation.decide(node.test, scope, names)
            yes, no = node.body, [node.orelse]
        else:
            value = getattr(node.body[0], "value", None)
            is_part = isinstance(node.body[0], ast.Assign | ast.Return)
            decided = None
            if is_part and isinstance(value, ast.Subscript):
                decided = self._evaluation.contains(value.slice, value.value, scope, names)
            yes, no = [*node.body, *node.orelse], [each.body for each in node.handlers]
        ways: set[Answer] = set() if decided is False else self._ways(yes, scope, names)
        # A table of names that are gone holds it.
        is_refused = isinstance(node, ast.If) and decided is True and Answer.RAISES in ways
        self._refuses = self._refuses or is_refused
        for branch in () if decided is True else no:
            ways |= self._ways(branch, scope, names)
        # One that gives a value is open if nobody knows which branch runs.
        if decided is None and Answer.GIVES in ways:
            return ways - {Answer.GIVES} | {Answer.UNDECIDED}
        return ways

    def _returned(self, value: ast.expr | None, scope: NameScope, names: dict[str, str]) -> Answer:
        if not isinstance(value, ast.Call):
            return Answer.GIVES
        if last_word(value.func) == "getattr" and len(value.args) == 2:
            owner = self._evaluation.value(value.args[0], scope)
            name = self._evaluation.value(value.args[1], scope, names)
            if isinstance(owner, ModuleRef) and isinstance(name, ConstantRef):
                member = self._member(owner.name, str(name.value))
                return Answer.RAISES if isinstance(member, AbsentRef) else Answer.UNDECIDED
        return Answer.UNDECIDED


_QUIET: Final = (
    ast.Assign,
    ast.AnnAssign,
    ast.Expr,
    ast.Import,
    ast.ImportFrom,
    ast.Pass,
    ast.Global,
)


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

    def __init__(self, evaluation: Asks, conditions: Conditions) -> None:
        self._evaluation = evaluation
        self._conditions = conditions
        self._world = evaluation.world
        self._looking: set[tuple[str, str]] = set()
        self._known: dict[tuple[str, str], Ref] = {}
        self._looking_at_stubs: set[tuple[str, str]] = set()
        self._getattr = ModuleGetattr(evaluation, self.member)

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
            above = ".".join(parts[: length - 1])
            if self._world.file(part) is not None:
                continue
            if self._world.may_be_built(part) or self._is_compiled_or_dynamic(above):
                return UNKNOWN
            return AbsentRef(above, part, is_module=True)
        return ModuleRef(name)

    def imported_from(self, binding: Binding, scope: NameScope) -> Ref:
        """What `from target import name` binds."""
        name = self.absolute(binding, scope)
        if name is None:
            return UNKNOWN
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
            return UNKNOWN
        return ref

    def member(self, module: str, name: str) -> Ref:
        """What a name of a module stands for."""
        key = (module, name)
        if key in self._looking:
            return UNKNOWN
        if key not in self._known:
            self._looking.add(key)
            try:
                self._known[key] = self._member(module, name)
            finally:
                self._looking.discard(key)
        return self._known[key]

    def _member(self, module: str, name: str) -> Ref:
        version = self._world.versions().get(module.partition(".")[0])
        if version is not None and _is_of_version(module, name):
            return ConstantRef(version)
        read = self._world.module(module)
        ref = None if read is None else self._in_source(module, name, read)
        if ref is not None:
            return ref
        if self._world.file(f"{module}.{name}") is not None:
            return ModuleRef(f"{module}.{name}")
        return self._missing(module, name, read)

    def _in_source(self, module: str, name: str, read: ReadModule) -> Ref | None:
        """What the statements of the module bind the name to; None if none of them does."""
        ref = self._evaluation.bound(name, read.scope)
        if ref is not None:
            return self._certain(ref, name, read)
        star = self.from_stars(read.scope, name)
        if not isinstance(star, UnknownRef) or star.is_there:
            return star
        if self._world.file(f"{module}.{name}") is not None or self._stub_lacks(module, name):
            return None
        # A star of what nobody can read may bring it; the types of the module say whether.
        return THERE if self._is_stubbed(module, name) else star

    def _certain(self, ref: Ref, name: str, read: ReadModule) -> Ref:
        """`ref`, marked as being there if a statement surely binds the name, whatever it gives it."""
        if not isinstance(ref, UnknownRef):
            return ref
        lives = [
            self._conditions.runs(each.guards, read.scope) for each in read.scope.bindings[name]
        ]
        live = [each for each in lives if each not in {Life.DEAD, Life.TYPING}]
        if Life.ALWAYS in live or len(live) > 1:
            return structs.replace(ref, is_there=True)
        return ref

    def _missing(self, module: str, name: str, read: ReadModule | None) -> Ref:
        if name in _OWN_NAMES or self._is_stubbed(module, name):
            return THERE
        if self._world.may_be_built(f"{module}.{name}"):
            return UNKNOWN
        if read is None:
            return self._without_source(module, name)
        if "__getattr__" in read.scope.bindings or read.scope.is_dynamic:
            return self._lazy(module, name, read)
        if self._any_binding(read.scope, name):
            # In a branch that does not run here.
            return UNKNOWN
        return AbsentRef(module, name)

    def _without_source(self, module: str, name: str) -> Ref:
        file = self._world.file(module)
        if file is not None and file.compiled is None and file.is_package:
            return AbsentRef(module, name)  # a namespace package holds modules and nothing else
        is_there = self._world.is_in_compiled(module, name)
        return THERE if is_there else UNKNOWN

    def _lazy(self, module: str, name: str, read: ReadModule) -> Ref:
        """A name that the module makes at run time: where it says it is from, or whether it makes it."""
        ref = self._evaluation.bound(name, read.scope, typing=True)
        if ref is None:
            ref = self.from_stars(read.scope, name)
        # A table of lazy names is text.
        is_quoted = any(f'"{name}"' in line or f"'{name}'" in line for line in read.lines)
        if isinstance(ref, UnknownRef) and not ref.is_there:
            return THERE if is_quoted else UNKNOWN
        if ref is not None and not isinstance(ref, AbsentRef):
            return ref
        if name in (exported_names(read) or ()):
            return THERE
        return self._made(module, name, read, is_quoted=is_quoted)

    def _made(self, module: str, name: str, read: ReadModule, *, is_quoted: bool) -> Ref:
        """What `__getattr__` of the module makes of the name."""
        answer = Answer.UNDECIDED
        if _is_attached(read):
            answer = Answer.GIVES if is_quoted else Answer.RAISES
        elif not read.scope.is_dynamic:
            answer = self._getattr.answer(read.scope, name)
        if answer is Answer.RAISES:
            return AbsentRef(module, name)
        is_there = answer is Answer.GIVES or (is_quoted and answer is not Answer.REFUSES)
        return THERE if is_there else UNKNOWN

    def _stub_lacks(self, module: str, name: str) -> bool:
        """Whether the module has types that name all it has, and not this name."""
        stub = self._world.stub(module)
        if stub is None or "__getattr__" in stub.scope.bindings:
            return False
        return not self._is_stubbed(module, name)

    def _is_stubbed(self, module: str, name: str) -> bool:
        """Whether the types of the module (PEP 484) name it."""
        stub = self._world.stub(module)
        if stub is None or (module, name) in self._looking_at_stubs:
            return False
        if name in stub.scope.bindings:
            return True
        self._looking_at_stubs.add((module, name))
        try:
            targets = [self.absolute(each, stub.scope) for each in stub.scope.stars]
            return any(each is not None and self._is_stubbed(each, name) for each in targets)
        finally:
            self._looking_at_stubs.discard((module, name))

    def _any_binding(self, scope: NameScope, name: str) -> bool:
        if name in scope.bindings:
            return True
        return any(name in child.outer for child in scope.children.values())

    def from_stars(self, scope: NameScope, name: str) -> Ref | None:
        """What a star import of the module binds the name to; None if none of them does."""
        vague: Ref | None = None
        for binding in scope.stars:
            target = self.absolute(binding, scope)
            if target is None or self._world.side(target) is None:
                vague = UNKNOWN
                continue
            if not self._world.may_export(target, name):
                continue
            ref = self._through_star(target, name)
            if isinstance(ref, UnknownRef) and not ref.is_there:
                # Another star may say where the name comes from.
                vague = vague if self._stub_lacks(target, name) else ref
            elif ref is not None:
                return ref
        return vague

    def _through_star(self, target: str, name: str) -> Ref | None:
        read = self._world.module(target)
        if read is None:
            is_there = self._is_stubbed(target, name)
            return THERE if is_there else UNKNOWN
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


def _is_attached(read: ReadModule) -> bool:
    """Whether the module's lazy names are the texts of one call: `lazy_loader.attach(__name__, submod_attrs={…})`."""
    bindings = read.scope.bindings.get("__getattr__", [])
    call = bindings[0].value if len(bindings) == 1 else None
    if not isinstance(call, ast.Call) or last_word(call.func) not in {"attach", "_attach"}:
        return False
    literal = (ast.Dict, ast.List, ast.Set, ast.Tuple, ast.Constant)
    for each in (*call.args, *(keyword.value for keyword in call.keywords)):
        stated = [binding.value for binding in read.scope.bindings.get(last_word(each), [])]
        values = stated if len(stated) == 1 else [each]
        if not isinstance(values[0], literal) and last_word(each) != "__name__":
            return False
    return True


def _is_of_version(module: str, name: str) -> bool:
    """Whether the name is the version of its package as text: `numpy.version.version`, `x.__version__`."""
    last = module.partition(".")[2]
    if name == "__version__":
        return last in {"", "version", "_version", "__about__", "about"}
    return last in {"version", "_version"} and name in {"version", "short_version", "full_version"}


def exported_names(read: ReadModule) -> frozenset[str] | None:
    """The names in `__all__`; None if the module has none, or one that is not a plain list."""
    bindings = read.scope.bindings.get("__all__", [])
    if len(bindings) != 1 or not isinstance(bindings[0].value, ast.List | ast.Tuple):
        return None
    names = [getattr(each, "value", None) for each in bindings[0].value.elts]
    texts = [name for name in names if isinstance(name, str)]
    return frozenset(texts) if len(texts) == len(names) else None
