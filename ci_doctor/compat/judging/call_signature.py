# SPDX-License-Identifier: Apache-2.0
"""Pure. The parameters that a call can fill, as griffe reads them from the definition."""

import ast
from enum import StrEnum
from typing import Final

from msgspec import Struct

from ci_doctor.compat.meaning.refs import FunctionRef


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
    kept: list[CallParameter] = []
    skip = ref.skip
    for each in parameters:
        fills = each.kind in {ParameterKind.POSITIONAL_ONLY, ParameterKind.PLAIN}
        if skip and fills:
            skip -= 1
            continue
        kept.append(each)
    return CallSignature(
        name=name or ref.scope.qualified,
        parameters=tuple(kept),
        module=ref.scope.module,
        qualified=ref.scope.qualified,
        line=node.lineno,
        filled=len(parameters) - len(kept),
    )


_KINDS: Final = {kind.value: kind for kind in ParameterKind}


def read_parameters(arguments: ast.arguments) -> list[CallParameter]:
    """The parameters of a definition."""
    import griffe  # 50 ms, which a start of ci-doctor must not pay

    read = []
    for name, _annotation, kind, default in griffe.get_parameters(arguments):
        is_star = kind.value.startswith("variadic")
        text = None
        if default is not None and not is_star:
            text = default if isinstance(default, str) else ast.unparse(default)
        read.append(CallParameter(name=name, kind=_KINDS[kind.value], default=text))
    return read
