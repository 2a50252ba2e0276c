# SPDX-License-Identifier: Apache-2.0
"""Pure. What Python would say, and the call that would be right."""

import ast

from ci_doctor.compat.judging.binding import Misfit, Mismatch
from ci_doctor.compat.judging.call_signature import CallParameter, CallSignature, ParameterKind


def sentence(signature: CallSignature, mismatch: Mismatch) -> str:
    """What happens at the call, without a full stop."""
    name = f"{signature.name}()"
    names = ", ".join(f"`{each}`" for each in mismatch.names)
    match mismatch.misfit:
        case Misfit.TOO_MANY:
            return f"{name} takes {_taken(signature, mismatch)}, and {_given(signature, mismatch)}"
        case Misfit.TWICE:
            return f"{name} gets multiple values for {names}: by position and by keyword"
        case Misfit.UNKNOWN_KEYWORD:
            return f"{name} takes no keyword {names}"
        case Misfit.MISSING:
            return f"{name} needs {names}, which the call does not give"


def _taken(signature: CallSignature, mismatch: Mismatch) -> str:
    """How many positional arguments Python says that the definition takes: it counts `self` too."""
    least = sum(each.default is None for each in signature.positional()) + signature.filled
    most = mismatch.taken + signature.filled
    if least < most:
        return f"from {least} to {_amount(most, 'positional argument')}"
    return _amount(most, "positional argument")


def _given(signature: CallSignature, mismatch: Mismatch) -> str:
    count = mismatch.given + signature.filled
    return f"{count} was given" if count == 1 else f"{count} were given"


def _amount(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


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
    if len(mismatch.names) != 1:
        return None
    keywords = {each.arg for each in call.keywords}
    filled = {each.name for each in signature.positional()[: len(call.args)]}
    free = [
        each
        for each in signature.keywords().values()
        if each.default is None and each.name not in keywords | filled
    ]
    if len(free) != 1 or not _alike(free[0], mismatch.names[0]):
        return None
    return _rendered(
        call, [ast.unparse(each) for each in call.args], {mismatch.names[0]: free[0].name}
    )


def _alike(parameter: CallParameter, name: str) -> bool:
    """Whether two names share a word, so that one may be the other's new name."""
    words = {word for word in name.split("_") if len(word) > 2}
    return bool(words & set(parameter.name.split("_")))


def _rendered(call: ast.Call, positional: list[str], renamed: dict[str, str] | None = None) -> str:
    texts = list(positional)
    for keyword in call.keywords:
        name = keyword.arg or ""
        texts.append(f"{(renamed or {}).get(name, name)}={ast.unparse(keyword.value)}")
    return f"{ast.unparse(call.func)}({', '.join(texts)})"
