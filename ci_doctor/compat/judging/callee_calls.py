# SPDX-License-Identifier: Apache-2.0
"""Reads the callee for calls of methods that a caller overrides."""

import ast
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from ci_doctor.compat.judging.binding import arguments_of, mismatches
from ci_doctor.compat.judging.breakage import SourceLine
from ci_doctor.compat.judging.call_signature import CallSignature
from ci_doctor.compat.judging.doubt_check import DoubtCheck
from ci_doctor.compat.judging.excerpts import excerpt
from ci_doctor.compat.meaning.bases import Ancestor
from ci_doctor.compat.meaning.evaluation import Evaluation
from ci_doctor.compat.meaning.life import Caught, Life
from ci_doctor.compat.meaning.refs import InstanceRef
from ci_doctor.compat.reading.name_scope import UseKind
from ci_doctor.compat.reading.parsed_module import ReadModule

_LONGEST_CALL: Final = 4_000
# A name that stands in more files is a word of every program, such as `get`: reading all of them costs more
# than all the rest.
_MOST_FILES: Final = 30


class CalleeCall(Struct, frozen=True, kw_only=True, eq=False):
    """A call of a method in the callee's own code."""

    node: ast.Call
    at: SourceLine


class CalleeCalls:
    """Finds calls that do not fit an override, on receivers that may surely be one."""

    def __init__(self, evaluation: Evaluation, doubts: DoubtCheck) -> None:
        self._evaluation = evaluation
        self._doubts = doubts

    def misfits(
        self, own: CallSignature, above: Sequence[Ancestor], name: str
    ) -> list[CalleeCall] | None:
        """The calls of `name` on classes in `above` that `own` does not take; None if nobody knows.

        The text of each call decides first whether its file is worth parsing.
        """
        modules = self._doubts.modules_that_call(
            name, lambda text: _may_misfit(text, name, own), most=_MOST_FILES
        )
        if modules is None:
            return None
        calls = [call for module in modules for call in self._calls(module, above, name)]
        return [call for call in calls if mismatches(own, arguments_of(call.node))]

    def _calls(
        self, module: ReadModule, above: Sequence[Ancestor], name: str
    ) -> Iterator[CalleeCall]:
        for site in module.sites:
            node = site.node
            if site.kind is not UseKind.CALL or not isinstance(node, ast.Call):
                continue
            if not isinstance(node.func, ast.Attribute) or node.func.attr != name:
                continue
            receiver = self._evaluation.value(node.func.value, site.scope)
            if not isinstance(receiver, InstanceRef) or receiver.is_exact:
                continue
            if receiver.cls not in above:
                continue
            if self._evaluation.runs(site.guards, site.scope) < Life.SOMETIMES:
                continue
            if self._evaluation.caught(site.guards, "TypeError") is not Caught.NOT:
                continue
            line = node.lineno
            at = SourceLine(file=module.path, line=line, text=excerpt(module, node, line))
            yield CalleeCall(node=node, at=at)


def _may_misfit(text: str, name: str, own: CallSignature) -> bool:
    """Whether a call of the method in this text does not fit, or cannot be cut out of it."""
    start = text.find(f".{name}(")
    while start >= 0:
        opening = start + len(name) + 1
        try:
            node = ast.parse(f"f{_bracketed(text, opening)}", mode="eval").body
        except (SyntaxError, ValueError):
            return True
        if not isinstance(node, ast.Call) or mismatches(own, arguments_of(node)):
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
