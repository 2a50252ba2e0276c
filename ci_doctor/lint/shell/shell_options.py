# SPDX-License-Identifier: Apache-2.0
"""Pure. Whether errexit and pipefail hold at a place of a program, by the `set` that stands before it.

A place inside a function takes the option from the function's calls. True and False are certain;
None is unknown: a function that nobody calls here, or that some calls reach with and some without.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from ci_doctor.lint.shell.shell_node import NodeKind, ShellNode

if TYPE_CHECKING:
    from ci_doctor.lint.shell.shell_program import ShellProgram

_SHEBANG: Final = re.compile(r"#![^\n]*\b(?:ba|da|k|z)?sh\b([^\n]*)")
_DEPTH: Final = 6
_SCOPES: Final = (NodeKind.SUBSHELL, NodeKind.SUBSTITUTION, NodeKind.FUNCTION)


class ShellOption(StrEnum):
    """An option of `set` by its long name."""

    ERREXIT = "errexit"
    PIPEFAIL = "pipefail"


def setting(words: tuple[str, ...], option: ShellOption) -> bool | None:
    """What `set` with these arguments makes of `option`; None if it leaves it alone."""
    value = None
    letter = "e" if option is ShellOption.ERREXIT else ""
    for index, word in enumerate(words):
        if word in ("--", "-") or word[:1] not in "-+":
            # The word after `-o` is its value, and `-euo pipefail` is one as well.
            if index and "o" in words[index - 1][1:] and words[index - 1][0] in "-+":
                if word == option:
                    value = words[index - 1][0] == "-"
                continue
            break
        if letter and letter in word[1:] and not word.startswith("--"):
            value = word[0] == "-"
    return value


class OptionState:
    """Answers for one program; each `set` is read once."""

    def __init__(self, program: ShellProgram, option: ShellOption) -> None:
        self._program = program
        self._option = option
        self._initial = self._at_start()
        self._changes = self._all_changes()
        self._inherits = "inherit_errexit" in program.text or "set -o posix" in program.text

    def at(self, node: ShellNode, depth: int = 0) -> bool | None:
        """Whether the option holds when `node` runs."""
        scopes = {id(each): each for each in node.ancestors() if each.kind in _SCOPES}
        function = next((each for each in node.ancestors() if each.kind is NodeKind.FUNCTION), None)
        state: bool | None = None
        place = -1
        for change, scope, value in self._changes:
            if change.start >= node.start:
                break
            if (scope is None and function is None) or (scope is not None and id(scope) in scopes):
                state, place = value, change.start
        cleared = self._cleared_after(node, place)
        if cleared:
            return False
        if state is not None:
            return state
        if function is not None:
            return self._in_function(function, depth)
        return self._initial

    def _cleared_after(self, node: ShellNode, place: int) -> bool:
        """Bash clears errexit in a command substitution."""
        if self._option is not ShellOption.ERREXIT or self._inherits:
            return False
        return any(
            each.kind is NodeKind.SUBSTITUTION and each.start > place for each in node.ancestors()
        )

    def _in_function(self, function: ShellNode, depth: int) -> bool | None:
        calls = self._program.by_name.get(function.word, [])
        if not calls or depth > _DEPTH:
            return None
        states = {self.at(call, depth + 1) for call in calls[:20]}
        return states.pop() if len(states) == 1 else None

    def _at_start(self) -> bool:
        source = self._program.source
        if self._option is ShellOption.PIPEFAIL:
            return source.pipefail or bool(re.match(r"#![^\n]*pipefail", source.text[:200]))
        shebang = _SHEBANG.match(source.text[:200])
        flags = shebang[1].split() if shebang else []
        return source.errexit or any(re.fullmatch(r"-[a-z]*e[a-z]*", flag) for flag in flags)

    def _all_changes(self) -> list[tuple[ShellNode, ShellNode | None, bool]]:
        changes = []
        for node in self._program.by_name.get("set", []):
            value = setting(self._program.words(node).arguments, self._option)
            if value is not None:
                changes.append((node, _scope(node), value))
        for node, library in self._program.sourced_at:
            value = OptionState(library, self._option).at_end()
            if value is not None:
                changes.append((node, _scope(node), value))
        changes.sort(key=lambda each: each[0].start)
        return changes

    def at_end(self) -> bool | None:
        """What the program as a sourced file makes of the option; None if it leaves it alone."""
        values = [value for _, scope, value in self._changes if scope is None]
        return values[-1] if values else None


def _scope(node: ShellNode) -> ShellNode | None:
    return next((each for each in node.ancestors() if each.kind in _SCOPES), None)
