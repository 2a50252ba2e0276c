# SPDX-License-Identifier: Apache-2.0
"""Pure. Calls: the parameters of what is called, the arguments that do not fit, and what Python says."""

import ast
import inspect
import re
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Final

from msgspec import Struct

from ci_doctor.compat.classes import Ancestor, OpaqueBase, words
from ci_doctor.compat.evaluation import Evaluation
from ci_doctor.compat.scopes import NameScope
from ci_doctor.compat.world import UNKNOWN, ClassRef, FunctionRef, UnknownRef
from ci_doctor.render.formatting import amount

_POSITIONAL_ONLY: Final = inspect.Parameter.POSITIONAL_ONLY
_PLAIN: Final = inspect.Parameter.POSITIONAL_OR_KEYWORD
_STAR: Final = inspect.Parameter.VAR_POSITIONAL
_KEYWORD_ONLY: Final = inspect.Parameter.KEYWORD_ONLY
_STARS: Final = inspect.Parameter.VAR_KEYWORD
_EMPTY: Final = inspect.Parameter.empty


class _Source(str):
    """The text of a default value, which a signature prints as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        """The text."""
        return str(self)


class CallSignature(Struct, frozen=True, kw_only=True):
    """What can be called, and with what.

    name: as a reader calls it. module, qualified, line: where the definition stands. filled: how many
    parameters Python fills itself (self, cls) and counts in its messages.
    """

    name: str
    parameters: tuple[inspect.Parameter, ...]
    module: str
    qualified: str
    line: int
    filled: int = 0

    @property
    def text(self) -> str:
        """`name(a, b=1, *, c)`."""
        return f"{self.name}{inspect.Signature(self.parameters, __validate_parameters__=False)}"

    def of(self, *kinds: object) -> list[inspect.Parameter]:
        """The parameters of these kinds, in order."""
        return [each for each in self.parameters if each.kind in kinds]


def of_function(ref: FunctionRef, *, name: str | None = None) -> CallSignature:
    """The signature of a function, without the parameters that are filled already."""
    node = ref.scope.node
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)  # noqa: S101
    arguments = node.args
    plain = [*arguments.posonlyargs, *arguments.args]
    # The defaults are those of the last parameters.
    defaults = [None] * (len(plain) - len(arguments.defaults)) + list(arguments.defaults)
    parameters = [
        _parameter(
            each.arg,
            _POSITIONAL_ONLY if position < len(arguments.posonlyargs) else _PLAIN,
            defaults[position],
        )
        for position, each in enumerate(plain)
    ][ref.skip :]
    if arguments.vararg is not None:
        parameters.append(_parameter(arguments.vararg.arg, _STAR))
    for each, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        parameters.append(_parameter(each.arg, _KEYWORD_ONLY, value))
    if arguments.kwarg is not None:
        parameters.append(_parameter(arguments.kwarg.arg, _STARS))
    return CallSignature(
        name=name or ref.scope.qualified,
        parameters=tuple(parameters),
        module=ref.scope.module,
        qualified=ref.scope.qualified,
        line=node.lineno,
        filled=min(ref.skip, len(plain)),
    )


def _parameter(
    name: str, kind: "inspect._ParameterKind", default: ast.expr | None = None
) -> inspect.Parameter:
    text = _EMPTY if default is None else _Source(ast.unparse(default))
    return inspect.Parameter(name, kind, default=text)


def mismatches(signature: CallSignature, call: ast.Call) -> list[str]:
    """Why the call surely fails, in sentences without full stops; empty if it may succeed.

    Only arguments before the first `*` have a certain position.
    """
    name = f"{signature.name}()"
    positional = signature.of(_POSITIONAL_ONLY, _PLAIN)
    given = len(list(takewhile(lambda each: not isinstance(each, ast.Starred), call.args)))
    keywords = [each.arg for each in call.keywords]
    filled = [each.name for each in positional[:given]]
    misfits = []
    if given > len(positional) and not signature.of(_STAR):
        # Python counts `self` too.
        least = sum(each.default is _EMPTY for each in positional) + signature.filled
        most = len(positional) + signature.filled
        taken = (
            f"{f'from {least} to ' if least < most else ''}{amount(most, 'positional argument')}"
        )
        counted = given + signature.filled
        were = "was" if counted == 1 else "were"
        misfits.append(f"{name} takes {taken}, and {counted} {were} given")
    twice = [each.name for each in signature.of(_PLAIN) if each.name in filled]
    if names := _listed(each for each in twice if each in keywords):
        misfits.append(f"{name} gets multiple values for {names}: by position and by keyword")
    if names := _listed(unknown_keywords(signature, call)):
        misfits.append(f"{name} takes no keyword {names}")
    if misfits or None in keywords:
        return misfits
    # What a `*` may fill.
    open_ = () if given == len(call.args) else (_POSITIONAL_ONLY, _PLAIN)
    names = _listed(
        each.name
        for each in signature.parameters
        if each.default is _EMPTY
        and each.kind not in {_STAR, _STARS, *open_}
        and each.name not in {*filled, *keywords}
    )
    return [f"{name} needs {names}, which the call does not give"] if names else []


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{each}`" for each in names)


def unknown_keywords(signature: CallSignature, call: ast.Call) -> list[str]:
    """The keywords of the call that no parameter takes."""
    known = {each.name for each in signature.of(_PLAIN, _KEYWORD_ONLY)}
    named = [each.arg for each in call.keywords if each.arg is not None]
    return [] if signature.of(_STARS) else [each for each in named if each not in known]


def right_call(call: ast.Call, signature: CallSignature) -> str | None:
    """The call with the new name of its one unknown keyword; None if that is a guess.

    It is none if one required parameter is not filled, and both names share a word.
    """
    unknown = unknown_keywords(signature, call)
    keywords = [each.arg for each in call.keywords]
    filled = {each.name for each in signature.of(_POSITIONAL_ONLY, _PLAIN)[: len(call.args)]}
    free = [
        each.name
        for each in signature.of(_PLAIN, _KEYWORD_ONLY)
        if each.default is _EMPTY and each.name not in {*filled, *keywords}
    ]
    is_whole = None not in keywords and not any(isinstance(each, ast.Starred) for each in call.args)
    if not is_whole or len(unknown) != 1 or len(free) != 1:
        return None
    if not {word for word in unknown[0].split("_") if len(word) > 2} & set(free[0].split("_")):
        return None
    texts = [ast.unparse(each) for each in call.args]
    for each in call.keywords:
        name = free[0] if each.arg == unknown[0] else each.arg
        texts.append(f"{name}={ast.unparse(each.value)}")
    return f"{ast.unparse(call.func)}({', '.join(texts)})"


_NAMED_TUPLES: Final = frozenset({"typing.NamedTuple", "typing_extensions.NamedTuple"})


class Constructors:
    """Finds the signature by which a class is called."""

    def __init__(self, evaluation: Evaluation) -> None:
        self._evaluation = evaluation

    def signature(self, cls: ClassRef) -> CallSignature | UnknownRef:
        """The parameters of a call of `cls`, or why nobody knows them."""
        order = self._evaluation.classes.bases.order(cls)
        if any(isinstance(each, OpaqueBase) and each.is_metaclass for each in order):
            return UNKNOWN
        found = self._through(cls, order)
        # A `__new__` beside an `__init__`: both see the arguments.
        bound = {
            name for each in order if isinstance(each, ClassRef) for name in each.scope.bindings
        }
        if isinstance(found, CallSignature) and {"__new__", "__init__"} <= bound:
            return UNKNOWN
        return found

    def _through(self, cls: ClassRef, order: Sequence[Ancestor]) -> CallSignature | UnknownRef:
        for position, each in enumerate(order):
            if isinstance(each, OpaqueBase) or self._evaluation.classes.may_be_replaced(each):
                return UNKNOWN
            found = self._of_class(each, order[position:], cls.scope.name)
            if found is not None:
                return found
        if not any(
            "__new__" in each.scope.bindings for each in order if isinstance(each, ClassRef)
        ):
            return _generated(cls, cls.scope.qualified, [], filled=0)
        ref = self._evaluation.classes.member(cls, "__new__")
        if isinstance(ref, FunctionRef):
            return of_function(FunctionRef(ref.scope, skip=1), name=cls.scope.name)
        return UNKNOWN

    def _of_class(
        self, each: ClassRef, rest: Sequence[Ancestor], name: str
    ) -> CallSignature | UnknownRef | None:
        """What this class says of the call; None if it says nothing."""
        base = rest[1] if len(rest) > 1 else None
        if isinstance(base, OpaqueBase) and base.name in _NAMED_TUPLES:
            fields = [
                _parameter(field, _PLAIN, node.value) for field, node in _annotated(each.scope)
            ]
            return _generated(each, each.scope.name, fields)
        if "__init__" in each.scope.bindings:
            ref = self._evaluation.bound("__init__", each.scope)
            if isinstance(ref, FunctionRef):
                return of_function(FunctionRef(ref.scope, skip=1), name=name)
            return UNKNOWN
        if _has_generated_constructor(each):
            return self._dataclass(each, rest, name)
        return None

    def _dataclass(
        self, cls: ClassRef, rest: Sequence[Ancestor], name: str
    ) -> CallSignature | UnknownRef:
        fields: dict[str, inspect.Parameter] = {}
        for each in reversed(rest):
            if isinstance(each, OpaqueBase) or self._evaluation.classes.may_be_replaced(each):
                return UNKNOWN
            decorator = _plain_dataclass(each)
            if decorator is not None:
                fields |= _own_fields(each, decorator)
            elif _has_generated_constructor(each):
                return UNKNOWN
        return _generated(cls, name, list(fields.values()))


def _own_fields(cls: ClassRef, decorator: ast.expr) -> dict[str, inspect.Parameter]:
    keyword_only = _flag(decorator, "kw_only")
    fields: dict[str, inspect.Parameter] = {}
    for name, node in _annotated(cls.scope):
        annotation = ast.unparse(node.annotation).strip("'\"")
        if annotation.rpartition(".")[2] == "KW_ONLY":
            keyword_only = True
        elif "ClassVar" not in re.split(r"\W+", annotation):
            made = _dataclass_field(name, node, keyword_only=keyword_only)
            fields |= {} if made is None else {name: made}
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


def _dataclass_field(
    name: str, node: ast.AnnAssign, *, keyword_only: bool
) -> inspect.Parameter | None:
    """The parameter that a field becomes; None if the constructor does not take it."""
    value = node.value
    default = value
    if isinstance(value, ast.Call) and ast.unparse(value.func).rpartition(".")[2] == "field":
        if not _flag(value, "init", default=True):
            return None
        keyword_only = _flag(value, "kw_only", default=keyword_only)
        given = {each.arg for each in value.keywords}
        default = ast.Constant(...) if given & {"default", "default_factory"} else None
    return _parameter(name, _KEYWORD_ONLY if keyword_only else _PLAIN, default)


def _generated(
    cls: ClassRef, name: str, fields: list[inspect.Parameter], *, filled: int = 1
) -> CallSignature:
    return CallSignature(
        name=name,
        parameters=tuple(sorted(fields, key=lambda each: each.kind)),
        module=cls.scope.module,
        qualified=cls.scope.qualified,
        line=getattr(cls.scope.node, "lineno", 1),
        filled=filled,
    )
