# SPDX-License-Identifier: Apache-2.0
"""Pure. Binds the arguments of a call to parameters, as Python does, and names what cannot fit."""

import ast
from enum import StrEnum

from msgspec import Struct

from ci_doctor.compat.judging.call_signature import CallParameter, CallSignature, ParameterKind


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
    count = 0
    certain = 0
    has_star = False
    for argument in call.args:
        if isinstance(argument, ast.Starred):
            has_star = True
        else:
            count += 1
            certain += not has_star
    return Arguments(
        positional=certain if has_star else count,
        has_star=has_star,
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
