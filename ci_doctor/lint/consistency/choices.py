# SPDX-License-Identifier: Apache-2.0
"""Pure. The options of an argparse parser that accept only values of a list."""

import ast
from collections import defaultdict

from msgspec import Struct

from ci_doctor.lint.python.program import PythonProgram
from ci_doctor.lint.violation import Place


class OptionChoices(Struct, frozen=True, kw_only=True):
    """An option, the values that it accepts, and the names of the results of `parse_args`."""

    option: str
    accepted: frozenset[str]
    namespaces: frozenset[str]
    place: Place


def option_choices(program: PythonProgram) -> dict[str, OptionChoices]:
    """By attribute of the parsed arguments. An option whose list is computed is left out."""
    calls: dict[str, list[ast.Call]] = defaultdict(list)
    for call in program.calls:
        if isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument":
            option = _option(call)
            if option is not None:
                calls[_attribute(call, option)].append(call)
    namespaces = _namespaces(program)
    assigned = _assigned(program)
    known: dict[str, OptionChoices] = {}
    for attribute, added in calls.items():
        accepted = _accepted(added)
        option = _option(added[0])
        if accepted is None or option is None or attribute in assigned:
            continue
        known[attribute] = OptionChoices(
            option=option,
            accepted=accepted,
            namespaces=namespaces,
            place=program.place(added[0]),
        )
    return known


def _accepted(calls: list[ast.Call]) -> frozenset[str] | None:
    """What all parsers of the program accept together; None if one accepts anything."""
    accepted: set[str] = set()
    for call in calls:
        keywords = {each.arg: each.value for each in call.keywords}
        listed = _listed(keywords)
        if listed is None:
            return None
        accepted |= listed
        for word in ("default", "const"):
            value = keywords.get(word)
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                accepted.add(value.value)
    return frozenset(accepted)


def _listed(keywords: dict[str | None, ast.expr]) -> set[str] | None:
    """The constants of `choices`; None if one is computed, or a `type` changes what is compared."""
    listed = keywords.get("choices")
    kind = keywords.get("type")
    is_text = kind is None or (isinstance(kind, ast.Name) and kind.id == "str")
    if not is_text or not isinstance(listed, ast.List | ast.Tuple | ast.Set):
        return None
    values = {each.value for each in listed.elts if isinstance(each, ast.Constant)}
    texts = {value for value in values if isinstance(value, str)}
    return texts if len(texts) == len(listed.elts) else None


def _option(call: ast.Call) -> str | None:
    """The long option; None for a positional argument."""
    words = [
        each.value
        for each in call.args
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]
    return next((word for word in words if word.startswith("--")), None)


def _attribute(call: ast.Call, option: str) -> str:
    for keyword in call.keywords:
        if keyword.arg == "dest" and isinstance(keyword.value, ast.Constant):
            return str(keyword.value.value)
    return option.lstrip("-").replace("-", "_")


def _namespaces(program: PythonProgram) -> frozenset[str]:
    """The names that the program gives to the results of `parse_args`."""
    names: set[str] = set()
    for node in program.nodes:
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        called = node.value.func
        if not isinstance(called, ast.Attribute):
            continue
        target = node.targets[0]
        if called.attr == "parse_args" and isinstance(target, ast.Name):
            names.add(target.id)
        elif called.attr == "parse_known_args" and isinstance(target, ast.Tuple):
            first = target.elts[0]
            names |= {first.id} if isinstance(first, ast.Name) else set()
    return frozenset(names)


def _assigned(program: PythonProgram) -> set[str]:
    """Attributes that the program itself sets: they may hold what no parser accepts."""
    return {
        node.attr
        for node in program.nodes
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
