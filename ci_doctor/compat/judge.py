# SPDX-License-Identifier: Apache-2.0
"""Reads a caller and its callees: which places of the caller break, and what nobody can judge."""

import ast
import gc
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from msgspec import structs

from ci_doctor.compat import breaks as rules
from ci_doctor.compat.breaks import BreakFact, Judged, break_at, line_of
from ci_doctor.compat.calls import (
    CallSignature,
    Constructors,
    mismatches,
    of_function,
    right_call,
)
from ci_doctor.compat.evaluation import Evaluation
from ci_doctor.compat.overrides import DoubtCheck, OverrideJudge
from ci_doctor.compat.scopes import Binding, BindingKind, NameScope, ReadModule, UseSite
from ci_doctor.compat.world import (
    UNKNOWN,
    AbsentRef,
    Caught,
    ClassRef,
    CodeTree,
    FunctionRef,
    InstanceRef,
    Life,
    ModuleRef,
    Ref,
    SuperRef,
    UnionRef,
    UnknownRef,
    World,
    side_of,
)

# A name in a text, with its dots.
_WORD = re.compile(r"[A-Za-z_][\w.]*")


class SiteJudge:
    """Judges the places of modules, one module after the other, into one result."""

    def __init__(self, evaluation: Evaluation, doubts: DoubtCheck) -> None:
        self._evaluation = evaluation
        self._world = evaluation.world
        self._constructors = Constructors(evaluation)
        self._doubts = doubts
        self.judged = Judged()
        self._kept: set[BreakFact] = set()
        # Values are kept by what they are of: it must live as long.
        self._made: list[ast.AST | Binding] = []

    def module(self, module: ReadModule) -> None:
        """Judge every place of a module."""
        self.judged.files += 1
        for site in module.sites:
            try:
                self._site(module, site)
            except RecursionError:
                # Names that lead to names, deeper than Python itself goes.
                self.judged.unknown += 1

    def _site(self, module: ReadModule, site: UseSite) -> None:
        life = self._evaluation.conditions.runs(site.guards, site.scope)
        if life in {Life.DEAD, Life.TYPING}:
            return
        match site.node:
            case ast.Call() as node:
                self._call(module, site, life, node)
                self._by_name(module, site, life, node)
            case ast.Attribute() as node:
                self._attribute(module, site, life, node)
            case _:
                self._import(module, site, life)

    def _import(self, module: ReadModule, site: UseSite, life: Life) -> None:
        binding = site.binding
        if binding is None:
            return
        ref = self._evaluation.binding(binding, site.scope)
        if binding.level or not self._world.is_callee(binding.target):
            return
        if isinstance(ref, AbsentRef) and self._doubts.may_be_set(ref):
            self.judged.unknown += 1
        elif isinstance(ref, AbsentRef):
            broken = break_at(
                rules.MODULE_GONE if ref.is_module else rules.NAME_GONE,
                line_of(module, site.node),
                symbol=ref.name if ref.is_module else f"{ref.place}.{ref.name}",
                sentence=ref.sentence,
            )
            error = "ModuleNotFoundError" if ref.is_module else "ImportError"
            self._keep(broken, site, life, error)
        elif isinstance(ref, UnknownRef) and not ref.is_there:
            self.judged.unknown += 1
            # Such an import, if it runs when its module is imported and nothing handles it.
            caught = self._evaluation.conditions.caught(site.guards, "ImportError")
            if life is Life.ALWAYS and site.scope.parent is None and caught is Caught.NOT:
                self.judged.open_imports.append(line_of(module, site.node))
        else:
            self.judged.count("imports")

    def _attribute(
        self, module: ReadModule, site: UseSite, life: Life, node: ast.Attribute
    ) -> None:
        owner = self._evaluation.value(node.value, site.scope)
        if isinstance(owner, UnknownRef) and self._concerns(node.value, site.scope):
            self.judged.unknown += 1
        if not self._is_callee(owner):
            return
        match self._evaluation.value(node, site.scope):
            case UnknownRef(is_there=False):
                self.judged.unknown += 1
            case AbsentRef() as ref:
                self._gone(module, site, life, owner, ref)
            case _:
                self.judged.count("attributes")

    def _by_name(self, module: ReadModule, site: UseSite, life: Life, node: ast.Call) -> None:
        """Judge what a call names by a text: `getattr(x, "name")`, `import_module("x.y")`, `exec("…")`."""
        match ast.unparse(node.func).rpartition(".")[2], node.args:
            # With a default a missing name is no error.
            case "getattr", [owner, name]:
                self._attribute_by_name(module, site, life, owner, name)
            case "import_module" | "__import__", [name, *_]:
                self._import_by_name(module, site, life, name)
            case "exec" | "eval", [code, *_]:
                self.judged.unknown += self._names_callee(code)
            case _:
                pass

    def _attribute_by_name(
        self, module: ReadModule, site: UseSite, life: Life, owner: ast.expr, name: ast.expr
    ) -> None:
        if not self._is_callee(self._evaluation.value(owner, site.scope)):
            return
        text = _text(name)
        if text is None:
            self.judged.unknown += 1
            return
        read = ast.copy_location(ast.Attribute(value=owner, attr=text, ctx=ast.Load()), site.node)
        self._made.append(read)
        self._attribute(module, structs.replace(site, node=read), life, read)

    def _import_by_name(
        self, module: ReadModule, site: UseSite, life: Life, name: ast.expr
    ) -> None:
        text = _text(name)
        if text is None:
            self.judged.unknown += self._names_callee(name)
            return
        # A relative one is of the caller.
        if text.startswith("."):
            return
        binding = Binding(kind=BindingKind.IMPORT, node=site.node, guards=site.guards, target=text)
        self._made.append(binding)
        self._import(module, structs.replace(site, binding=binding), life)

    def _names_callee(self, node: ast.expr) -> bool:
        """Whether a text in an expression begins with a module of the callee, or holds its name."""
        texts = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant)]
        words = [word for text in texts if isinstance(text, str) for word in _WORD.findall(text)]
        return any(map(self._world.is_callee, words))

    def _gone(
        self, module: ReadModule, site: UseSite, life: Life, owner: Ref, ref: AbsentRef
    ) -> None:
        """Judge an attribute that no line gives its owner."""
        is_own = ref.scope is not None and not self._world.is_callee(ref.scope.module)
        # A class of the caller's own, below one of the callee.
        if is_own and self._doubts.is_named_in_caller(ref.name):
            self.judged.unknown += 1
            return
        if self._doubts.may_be_set(ref) or self._doubts.may_have(owner, ref.name):
            self.judged.unknown += 1
            return
        broken = break_at(
            rules.ATTRIBUTE_GONE,
            line_of(module, site.node, getattr(site.node, "end_lineno", None)),
            symbol=f"{ref.place}.{ref.name}",
            sentence=ref.sentence,
            now=None if ref.scope is None else self._world.class_line(ref.scope),
        )
        self._keep(broken, site, life, "AttributeError")

    def _call(self, module: ReadModule, site: UseSite, life: Life, node: ast.Call) -> None:
        ref = self._evaluation.value(node.func, site.scope)
        signature = self._signature(ref)
        if signature is None:
            return
        if isinstance(signature, UnknownRef):
            if self._concerns(node.func, site.scope):
                self.judged.unknown += 1
            return
        if not self._world.is_callee(signature.module):
            return
        misfits = mismatches(signature, node)
        if not misfits:
            self.judged.count("calls")
            return
        if self._doubts.may_take(ref, node):
            self.judged.unknown += 1
            return
        self.judged.count("calls")
        broken = break_at(
            rules.CALL,
            line_of(module, node),
            symbol=f"{signature.module}.{signature.qualified}",
            sentence="; ".join(misfits),
            now=self._world.definition(signature.module, signature.line, signature.text),
            call=right_call(node, signature) if len(misfits) == 1 else None,
        )
        self._keep(broken, site, life, "TypeError")

    def _signature(self, ref: Ref) -> CallSignature | UnknownRef | None:
        """What a call takes that stands for `ref`; None if it is nothing of the callee."""
        match ref:
            case FunctionRef():
                return of_function(ref)
            case ClassRef():
                return self._constructors.signature(ref)
            case InstanceRef():
                called = self._evaluation.attribute(ref, "__call__")
                return of_function(called) if isinstance(called, FunctionRef) else None
            case UnknownRef():
                return ref
            case UnionRef():
                return UNKNOWN
            case _:
                return None

    def _is_callee(self, ref: Ref) -> bool:
        """Whether the thing is the callee's own, or an instance of a class below one of its classes."""
        match ref:
            case ModuleRef():
                return self._world.is_callee(ref.name)
            case ClassRef():
                return self._descends(ref)
            case InstanceRef() | SuperRef():
                return self._descends(ref.cls)
            case FunctionRef():
                return self._world.is_callee(ref.scope.module)
            case _:
                return False

    def _descends(self, cls: ClassRef) -> bool:
        order = self._evaluation.classes.bases.order(cls)
        return any(
            isinstance(each, ClassRef) and self._world.is_callee(each.scope.module)
            for each in order
        )

    def _concerns(self, node: ast.expr, scope: NameScope) -> bool:
        """Whether an expression begins with something of the callee."""
        while isinstance(node, ast.Attribute | ast.Call | ast.Subscript | ast.Await):
            node = node.func if isinstance(node, ast.Call) else node.value
        if not isinstance(node, ast.Name):
            return False
        around: NameScope | None = scope
        while around is not None:
            for binding in around.bindings.get(node.id, ()):
                is_import = binding.kind in {BindingKind.IMPORT, BindingKind.FROM}
                if is_import and not binding.level and self._world.is_callee(binding.target):
                    return True
            around = around.parent
        return self._is_callee(self._evaluation.value(node, scope))

    def _keep(self, broken: BreakFact, site: UseSite, life: Life, error: str) -> None:
        caught = self._evaluation.conditions.caught(site.guards, error)
        if broken in self._kept:
            return  # `from gone import a, b` is one break
        self._kept.add(broken)
        if life is Life.GUARDED or caught is Caught.BY_NAME:
            self.judged.guarded += 1
            return
        hidden: Literal["not", "broadly"] = "broadly" if caught is Caught.BROADLY else "not"
        self.judged.breaks.append(structs.replace(broken, caught=hidden))


def _text(node: ast.expr) -> str | None:
    """The value of a text that stands in the source as it is."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return None


def judge(
    caller: CodeTree,
    callees: Sequence[CodeTree],
    *,
    python: tuple[int, int],
    tell: Callable[[str], None] = lambda _: None,
) -> Judged:
    """Judge every place of the caller that concerns a callee.

    `python` is the version that `sys.version_info` guards are decided by.
    """
    was_enabled = gc.isenabled()
    # Syntax trees live until the end: the collector goes through millions of nodes and frees none.
    # It took half of the time on vllm and transformers.
    gc.disable()
    try:
        world = World(side_of(caller, is_caller=True), [side_of(each) for each in callees], python)
        tell(f"reading {caller.label}")
        files = concerned_files(world)
        judged = _judge(Evaluation(world), concerned_modules(world, files))
        judged.unread_callers = files.keys() & judged.unread.keys()
        return judged
    finally:
        if was_enabled:
            gc.enable()


def _judge(evaluation: Evaluation, modules: Sequence[ReadModule]) -> Judged:
    doubts = DoubtCheck(evaluation, modules)
    judging = SiteJudge(evaluation, doubts)
    for module in modules:
        judging.module(module)
    overrides = OverrideJudge(evaluation, doubts, judging.judged)
    # The last words of all bases of the caller's classes.
    parents = {
        ast.unparse(base).partition("[")[0].rpartition(".")[2]
        for module in modules
        for scope in module.classes
        for base in getattr(scope.node, "bases", ())
    }
    for module in modules:
        overrides.module(module, parents)
    judging.judged.unread = evaluation.world.unread
    return judging.judged


def concerned_files(world: World) -> dict[str, bytes]:
    """The files of the caller whose text names a callee, by path."""
    tops = {top for side in world.callees for top in side.index.tops}
    if not tops:
        return {}
    pattern = re.compile(rb"\b(?:" + "|".join(map(re.escape, sorted(tops))).encode() + rb")\b")
    return {path: source for path, source in world.caller_files() if pattern.search(source)}


def concerned_modules(world: World, files: Mapping[str, bytes]) -> list[ReadModule]:
    """The modules of `files`; without those that no Python could run."""
    by_path = {file.path: name for name, file in world.caller.index.modules.items()}
    modules = []
    for path, source in files.items():
        name = by_path.get(path)
        read = world.module(name) if name is not None and world.side(name) is world.caller else None
        if read is None:
            is_package = path.endswith("__init__.py")
            stem = path.removesuffix(".py").replace("/", ".")
            read = world.parse(stem, path, source, is_package=is_package)
        if read is not None:
            modules.append(read)
    return modules
