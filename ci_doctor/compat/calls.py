# SPDX-License-Identifier: Apache-2.0
"""Pure. Calls: the parameters of what is called, the arguments that do not fit, and what Python says."""

import ast
import re
from collections.abc import Sequence
from enum import StrEnum
from itertools import takewhile
from typing import Final

from msgspec import Struct

from ci_doctor.compat.classes import Ancestor, OpaqueBase, words
from ci_doctor.compat.evaluation import Evaluation
from ci_doctor.compat.scopes import NameScope
from ci_doctor.compat.world import ClassRef, FunctionRef, Ignorance, UnknownRef
from ci_doctor.render.formatting import amount


class ParameterKind(StrEnum):
    """How an argument reaches a parameter, in the words of `inspect`."""

    POSITIONAL_ONLY = "positional-only"
    PLAIN = "positional or keyword"
    STAR = "variadic positional"
    KEYWORD_ONLY = "keyword-only"
    STARS = "variadic keyword"


class CallParameter(Struct, frozen=True, kw_only=True):
    """One parameter. `default` is its text; None if an argument must be given."""

    name: str
    kind: ParameterKind
    default: str | None = None

    @property
    def text(self) -> str:
        """As it stands in a definition, without its annotation."""
        if self.kind is ParameterKind.STAR:
            return f"*{self.name}"
        if self.kind is ParameterKind.STARS:
            return f"**{self.name}"
        return self.name if self.default is None else f"{self.name}={self.default}"


class CallSignature(Struct, frozen=True, kw_only=True):
    """What can be called, and with what.

    name: as a reader calls it. module, qualified, line: where the definition stands. filled: how many
    parameters Python fills itself (self, cls) and counts in its messages.
    """

    name: str
    parameters: tuple[CallParameter, ...]
    module: str
    qualified: str
    line: int
    filled: int = 0

    @property
    def text(self) -> str:
        """`name(a, b=1, *, c)`."""
        return f"{self.name}({parameter_list(self.parameters)})"

    def positional(self) -> list[CallParameter]:
        """The parameters that a positional argument can fill, in order."""
        kinds = {ParameterKind.POSITIONAL_ONLY, ParameterKind.PLAIN}
        return [each for each in self.parameters if each.kind in kinds]

    def has(self, kind: ParameterKind) -> bool:
        """Whether a parameter is of that kind."""
        return any(each.kind is kind for each in self.parameters)

    def keywords(self) -> dict[str, CallParameter]:
        """The parameters that a keyword argument can fill, by name."""
        kinds = {ParameterKind.KEYWORD_ONLY, ParameterKind.PLAIN}
        return {each.name: each for each in self.parameters if each.kind in kinds}


def parameter_list(parameters: tuple[CallParameter, ...]) -> str:
    """The parameters as a definition writes them, with its `/` and `*`."""
    texts: list[str] = []
    before: ParameterKind | None = None
    starred = False
    for each in parameters:
        if before is ParameterKind.POSITIONAL_ONLY and each.kind is not before:
            texts.append("/")
        starred = starred or each.kind is ParameterKind.STAR
        if each.kind is ParameterKind.KEYWORD_ONLY and not starred:
            texts.append("*")
            starred = True
        texts.append(each.text)
        before = each.kind
    if before is ParameterKind.POSITIONAL_ONLY:
        texts.append("/")
    return ", ".join(texts)


def of_function(ref: FunctionRef, *, name: str | None = None) -> CallSignature:
    """The signature of a function, without the parameters that are filled already."""
    node = ref.scope.node
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)  # noqa: S101
    parameters = read_parameters(node.args)
    fills = {ParameterKind.POSITIONAL_ONLY, ParameterKind.PLAIN}
    filled = [each for each in parameters if each.kind in fills][: ref.skip]
    return CallSignature(
        name=name or ref.scope.qualified,
        parameters=tuple(each for each in parameters if each not in filled),
        module=ref.scope.module,
        qualified=ref.scope.qualified,
        line=node.lineno,
        filled=len(filled),
    )


def read_parameters(arguments: ast.arguments) -> list[CallParameter]:
    """The parameters of a definition."""
    plain = [*arguments.posonlyargs, *arguments.args]
    # The defaults are those of the last parameters.
    defaults = [None] * (len(plain) - len(arguments.defaults)) + list(arguments.defaults)
    read = []
    for position, (each, value) in enumerate(zip(plain, defaults, strict=True)):
        is_only = position < len(arguments.posonlyargs)
        kind = ParameterKind.POSITIONAL_ONLY if is_only else ParameterKind.PLAIN
        read.append(CallParameter(name=each.arg, kind=kind, default=_text(value)))
    if arguments.vararg is not None:
        read.append(CallParameter(name=arguments.vararg.arg, kind=ParameterKind.STAR))
    for each, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        kind = ParameterKind.KEYWORD_ONLY
        read.append(CallParameter(name=each.arg, kind=kind, default=_text(value)))
    if arguments.kwarg is not None:
        read.append(CallParameter(name=arguments.kwarg.arg, kind=ParameterKind.STARS))
    return read


class Misfit(StrEnum):
    """Why a call raises TypeError."""

    TOO_MANY = "too many positional arguments"
    TWICE = "multiple values"
    UNKNOWN_KEYWORD = "unknown keyword"
    MISSING = "missing argument"


class Mismatch(Struct, frozen=True, kw_only=True):
    """One reason. `names` are parameters or keywords; `given` and `taken` count positional arguments."""

    misfit: Misfit
    names: tuple[str, ...] = ()
    given: int = 0
    taken: int = 0


class Arguments(Struct, frozen=True, kw_only=True):
    """What a call passes: how many positional arguments before any `*`, and its keywords."""

    positional: int
    has_star: bool
    keywords: tuple[str, ...]
    has_stars: bool


def arguments_of(call: ast.Call) -> Arguments:
    """What a call passes. Only arguments before the first `*` have a certain position."""
    certain = list(takewhile(lambda each: not isinstance(each, ast.Starred), call.args))
    return Arguments(
        positional=len(certain),
        has_star=len(certain) < len(call.args),
        keywords=tuple(each.arg for each in call.keywords if each.arg is not None),
        has_stars=any(each.arg is None for each in call.keywords),
    )


def mismatches(signature: CallSignature, arguments: Arguments) -> list[Mismatch]:
    """Why the call surely fails; empty if it may succeed."""
    positional = signature.positional()
    misfits: list[Mismatch] = []
    if arguments.positional > len(positional) and not signature.has(ParameterKind.STAR):
        misfits.append(
            Mismatch(misfit=Misfit.TOO_MANY, given=arguments.positional, taken=len(positional))
        )
    filled = positional[: arguments.positional]
    misfits += _twice(filled, arguments)
    misfits += _unknown(signature, arguments)
    if not misfits:
        misfits += _missing(signature, filled, arguments)
    return misfits


def _twice(filled: list[CallParameter], arguments: Arguments) -> list[Mismatch]:
    names = [
        each.name
        for each in filled
        if each.kind is ParameterKind.PLAIN and each.name in arguments.keywords
    ]
    return [Mismatch(misfit=Misfit.TWICE, names=tuple(names))] if names else []


def _unknown(signature: CallSignature, arguments: Arguments) -> list[Mismatch]:
    if signature.has(ParameterKind.STARS):
        return []
    known = signature.keywords()
    names = tuple(name for name in arguments.keywords if name not in known)
    return [Mismatch(misfit=Misfit.UNKNOWN_KEYWORD, names=names)] if names else []


def _missing(
    signature: CallSignature, filled: list[CallParameter], arguments: Arguments
) -> list[Mismatch]:
    if arguments.has_stars:
        return []
    given = {each.name for each in filled} | set(arguments.keywords)
    names = []
    for each in signature.parameters:
        if each.default is not None or each.name in given:
            continue
        if each.kind in {ParameterKind.STAR, ParameterKind.STARS}:
            continue
        if arguments.has_star and each.kind is not ParameterKind.KEYWORD_ONLY:
            continue
        names.append(each.name)
    return [Mismatch(misfit=Misfit.MISSING, names=tuple(names))] if names else []


_NAMED_TUPLES: Final = frozenset({"typing.NamedTuple", "typing_extensions.NamedTuple"})


class Constructors:
    """Finds the signature by which a class is called."""

    def __init__(self, evaluation: Evaluation) -> None:
        self._evaluation = evaluation

    def signature(self, cls: ClassRef) -> CallSignature | UnknownRef:
        """The parameters of a call of `cls`, or why nobody knows them."""
        order = self._evaluation.classes.bases.order(cls)
        if any(isinstance(each, OpaqueBase) and each.is_metaclass for each in order):
            return UnknownRef(Ignorance.BASES, "metaclass")
        found = self._through(cls, order)
        # A `__new__` beside an `__init__`: both see the arguments.
        bound = {
            name for each in order if isinstance(each, ClassRef) for name in each.scope.bindings
        }
        if isinstance(found, CallSignature) and {"__new__", "__init__"} <= bound:
            return UnknownRef(Ignorance.GENERATED, "__new__")
        return found

    def _through(self, cls: ClassRef, order: Sequence[Ancestor]) -> CallSignature | UnknownRef:
        for position, each in enumerate(order):
            if isinstance(each, OpaqueBase):
                return UnknownRef(Ignorance.BASES, each.name)
            unknown = self._evaluation.classes.decorated(each)
            found = unknown or self._of_class(each, order[position:], cls.scope.name)
            if found is not None:
                return found
        if not any(
            "__new__" in each.scope.bindings for each in order if isinstance(each, ClassRef)
        ):
            return _generated(cls, cls.scope.qualified, [], filled=0)
        ref = self._evaluation.classes.member(cls, "__new__")
        if isinstance(ref, FunctionRef):
            return of_function(FunctionRef(ref.scope, skip=1), name=cls.scope.name)
        return UnknownRef(Ignorance.GENERATED, "__new__")

    def _of_class(
        self, each: ClassRef, rest: Sequence[Ancestor], name: str
    ) -> CallSignature | UnknownRef | None:
        """What this class says of the call; None if it says nothing."""
        base = rest[1] if len(rest) > 1 else None
        if isinstance(base, OpaqueBase) and base.name in _NAMED_TUPLES:
            fields = [
                CallParameter(name=field, kind=ParameterKind.PLAIN, default=_text(node.value))
                for field, node in _annotated(each.scope)
            ]
            return _generated(each, each.scope.name, fields)
        if "__init__" in each.scope.bindings:
            ref = self._evaluation.bound("__init__", each.scope)
            if isinstance(ref, FunctionRef):
                return of_function(FunctionRef(ref.scope, skip=1), name=name)
            return UnknownRef(Ignorance.SEVERAL)
        if _has_generated_constructor(each):
            return self._dataclass(each, rest, name)
        return None

    def _dataclass(
        self, cls: ClassRef, rest: Sequence[Ancestor], name: str
    ) -> CallSignature | UnknownRef:
        if _plain_dataclass(cls) is None:
            return UnknownRef(Ignorance.GENERATED, cls.name)
        fields: dict[str, CallParameter] = {}
        for each in reversed(rest):
            if isinstance(each, OpaqueBase):
                return UnknownRef(Ignorance.BASES, each.name)
            unknown = self._evaluation.classes.decorated(each)
            if unknown is not None:
                return unknown
            own = self._own_fields(each)
            if isinstance(own, UnknownRef):
                return own
            fields |= own
        return _generated(cls, name, list(fields.values()))

    def _own_fields(self, cls: ClassRef) -> dict[str, CallParameter] | UnknownRef:
        if not _has_generated_constructor(cls):
            return {}
        decorator = _plain_dataclass(cls)
        if decorator is None:
            return UnknownRef(Ignorance.GENERATED, cls.name)
        keyword_only = _flag(decorator, "kw_only")
        fields: dict[str, CallParameter] = {}
        for name, node in _annotated(cls.scope):
            annotation = ast.unparse(node.annotation).strip("'\"")
            if annotation.rpartition(".")[2] == "KW_ONLY":
                keyword_only = True
                continue
            if "ClassVar" in re.split(r"\W+", annotation):
                continue
            made = _dataclass_field(name, node, keyword_only=keyword_only)
            if made is not None:
                fields[name] = made
        return fields


def _has_generated_constructor(cls: ClassRef) -> bool:
    node = cls.scope.node
    if not isinstance(node, ast.ClassDef):
        return False
    # Any decorator that is left by now is `dataclass` or works like it.
    plain = {"final", "runtime_checkable", "total_ordering", "unique", "deprecated"}
    return bool(set(words(node)) - plain)


def _plain_dataclass(cls: ClassRef) -> ast.expr | None:
    """The decorator, if it is the standard library's own and makes an `__init__`."""
    node = cls.scope.node
    if not isinstance(node, ast.ClassDef):
        return None
    imported = cls.scope.root().bindings
    for decorator in node.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        top = ast.unparse(called).partition(".")[0]
        standard = any(
            "dataclasses" in {each.target, each.target or each.name}
            for each in imported.get(top, [])
        )
        if standard and ast.unparse(called).endswith("dataclass"):
            return None if _flag(decorator, "init", default=True) is False else decorator
    return None


def _flag(decorator: ast.expr, name: str, *, default: bool = False) -> bool:
    if isinstance(decorator, ast.Call):
        for keyword in decorator.keywords:
            if keyword.arg == name and isinstance(keyword.value, ast.Constant):
                return bool(keyword.value.value)
    return default


def _annotated(scope: NameScope) -> list[tuple[str, ast.AnnAssign]]:
    found: dict[str, ast.AnnAssign] = {}
    for name, bindings in scope.bindings.items():
        for binding in bindings:
            if isinstance(binding.node, ast.AnnAssign):
                found.setdefault(name, binding.node)
    return sorted(found.items(), key=lambda each: each[1].lineno)


def _dataclass_field(name: str, node: ast.AnnAssign, *, keyword_only: bool) -> CallParameter | None:
    """The parameter that a field becomes; None if the constructor does not take it."""
    value = node.value
    default = _text(value)
    if isinstance(value, ast.Call) and ast.unparse(value.func).rpartition(".")[2] == "field":
        if not _flag(value, "init", default=True):
            return None
        keyword_only = _flag(value, "kw_only", default=keyword_only)
        given = {each.arg for each in value.keywords}
        default = "..." if given & {"default", "default_factory"} else None
    kind = ParameterKind.KEYWORD_ONLY if keyword_only else ParameterKind.PLAIN
    return CallParameter(name=name, kind=kind, default=default)


def _generated(
    cls: ClassRef, name: str, fields: list[CallParameter], *, filled: int = 1
) -> CallSignature:
    return CallSignature(
        name=name,
        parameters=tuple(sorted(fields, key=lambda each: each.kind is not ParameterKind.PLAIN)),
        module=cls.scope.module,
        qualified=cls.scope.qualified,
        line=getattr(cls.scope.node, "lineno", 1),
        filled=filled,
    )


def _text(node: ast.expr | None) -> str | None:
    return None if node is None else ast.unparse(node)


def sentence(signature: CallSignature, mismatch: Mismatch) -> str:
    """What happens at the call, without a full stop."""
    name = f"{signature.name}()"
    names = ", ".join(f"`{each}`" for each in mismatch.names)
    match mismatch.misfit:
        case Misfit.TOO_MANY:
            # Python counts `self` too.
            least = sum(each.default is None for each in signature.positional()) + signature.filled
            most = mismatch.taken + signature.filled
            taken = f"{f'from {least} to ' if least < most else ''}{amount(most, 'positional argument')}"
            given = mismatch.given + signature.filled
            return f"{name} takes {taken}, and {given} {'was' if given == 1 else 'were'} given"
        case Misfit.TWICE:
            return f"{name} gets multiple values for {names}: by position and by keyword"
        case Misfit.UNKNOWN_KEYWORD:
            return f"{name} takes no keyword {names}"
        case Misfit.MISSING:
            return f"{name} needs {names}, which the call does not give"


def right_call(call: ast.Call, signature: CallSignature, mismatches: list[Mismatch]) -> str | None:
    """The call as the signature takes it, with the caller's own arguments; None if that is a guess.

    It is none if a positional argument only lost its place to a keyword, or if every surplus
    positional argument has the name of a keyword-only parameter.
    """
    if len(mismatches) != 1 or any(isinstance(each, ast.Starred) for each in call.args):
        return None
    if any(keyword.arg is None for keyword in call.keywords):
        return None
    only = mismatches[0]
    if only.misfit is Misfit.TOO_MANY:
        return _by_keyword(call, signature, only.taken)
    if only.misfit is Misfit.UNKNOWN_KEYWORD:
        return _renamed(call, signature, only)
    return None


def _by_keyword(call: ast.Call, signature: CallSignature, taken: int) -> str | None:
    """Surplus arguments become keywords, if they are variables of the keywords' names."""
    only = {each.name for each in signature.parameters if each.kind is ParameterKind.KEYWORD_ONLY}
    texts = [ast.unparse(each) for each in call.args]
    moved = []
    for text in texts[taken:]:
        name = text.rpartition(".")[2]
        if name not in only:
            return None
        moved.append(f"{name}={text}")
    return _rendered(call, [*texts[:taken], *moved])


def _renamed(call: ast.Call, signature: CallSignature, mismatch: Mismatch) -> str | None:
    """One unknown keyword, and one required parameter that nothing fills: it was renamed."""
    keywords = {each.arg for each in call.keywords}
    filled = {each.name for each in signature.positional()[: len(call.args)]}
    free = [
        each.name
        for each in signature.keywords().values()
        if each.default is None and each.name not in keywords | filled
    ]
    if len(mismatch.names) != 1 or len(free) != 1:
        return None
    # Two names share a word, so that one may be the other's new name.
    words = {word for word in mismatch.names[0].split("_") if len(word) > 2}
    if not words & set(free[0].split("_")):
        return None
    return _rendered(call, [ast.unparse(each) for each in call.args], {mismatch.names[0]: free[0]})


def _rendered(call: ast.Call, positional: list[str], renamed: dict[str, str] | None = None) -> str:
    texts = list(positional)
    for keyword in call.keywords:
        name = keyword.arg or ""
        texts.append(f"{(renamed or {}).get(name, name)}={ast.unparse(keyword.value)}")
    return f"{ast.unparse(call.func)}({', '.join(texts)})"
