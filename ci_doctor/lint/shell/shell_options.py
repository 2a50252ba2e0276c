# SPDX-License-Identifier: Apache-2.0
"""Pure. Whether errexit and pipefail hold at a place of a program, by the `set` that stands before it.

A place inside a function takes the option from the function's calls. True and False are certain;
None is unknown: a function that nobody calls here, or that some calls reach with and some without.
"""

from __future__ import annotations

import bisect
import re
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from ci_doctor.lint.shell.shell_node import NodeKind, ShellNode

if TYPE_CHECKING:
    from ci_doctor.lint.shell.shell_program import ShellProgram

_SHEBANG: Final = re.compile(r"#![^\n]*\b(?:ba|da|k|z)?sh\b([^\n]*)")
_MOST_CALLS: Final = 20
_DEEPEST_CALLS: Final = 30
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
        self._depth = 0
        self._functions: dict[int, bool | None] = {}
        self._changes: dict[int | None, list[tuple[int, bool]]] = {}
        for start, scope, value in sorted(self._all_changes(), key=lambda each: each[0]):
            self._changes.setdefault(scope, []).append((start, value))
        self._inherits = "inherit_errexit" in program.text or "set -o posix" in program.text

    def at(self, node: ShellNode) -> bool | None:
        """Whether the option holds when `node` runs."""
        around = [each for each in node.ancestors() if each.kind in _SCOPES]
        function = next((each for each in around if each.kind is NodeKind.FUNCTION), None)
        scopes: list[int | None] = [id(each) for each in around]
        if function is None:
            scopes.append(None)
        changes = [change for scope in scopes if (change := self._last_before(scope, node.start))]
        place, state = max(changes, default=(-1, None))
        if self._is_cleared_after(around, place):
            return False
        if state is not None:
            return state
        if function is not None:
            return self._in_function(function)
        return self._initial

    def _last_before(self, scope: int | None, start: int) -> tuple[int, bool] | None:
        changes = self._changes.get(scope)
        place = bisect.bisect_left(changes, (start,)) if changes else 0
        return changes[place - 1] if changes and place else None

    def _is_cleared_after(self, around: list[ShellNode], place: int) -> bool:
        """Bash clears errexit in a command substitution."""
        if self._option is not ShellOption.ERREXIT or self._inherits:
            return False
        return any(each.kind is NodeKind.SUBSTITUTION and each.start > place for each in around)

    def _in_function(self, function: ShellNode) -> bool | None:
        """What all calls of `function` say; None if they differ, or if it calls itself."""
        key = id(function)
        if key not in self._functions:
            if self._depth > _DEEPEST_CALLS:
                return None
            self._depth += 1
            self._functions[key] = None
            calls = self._program.by_name.get(function.word, [])
            states = {self.at(call) for call in calls[:_MOST_CALLS]}
            self._functions[key] = states.pop() if len(states) == 1 else None
            self._depth -= 1
        return self._functions[key]

    def _at_start(self) -> bool:
        source = self._program.source
        if self._option is ShellOption.PIPEFAIL:
            return source.pipefail or bool(re.match(r"#![^\n]*pipefail", source.text[:200]))
        shebang = _SHEBANG.match(source.text[:200])
        flags = shebang[1].split() if shebang else []
        return source.errexit or any(re.fullmatch(r"-[a-z]*e[a-z]*", flag) for flag in flags)

    def _all_changes(self) -> list[tuple[int, int | None, bool]]:
        """Where something sets the option, in which scope, and to what."""
        changes = []
        for node in self._program.by_name.get("set", []):
            value = setting(self._program.words(node).arguments, self._option)
            if value is not None:
                changes.append((node.start, _scope(node), value))
        for node, library in self._program.sourced_at:
            value = OptionState(library, self._option).at_end()
            if value is not None:
                changes.append((node.start, _scope(node), value))
        return changes

    def at_end(self) -> bool | None:
        """What the program as a sourced file makes of the option; None if it leaves it alone."""
        changes = self._changes.get(None)
        return changes[-1][1] if changes else None


def _scope(node: ShellNode) -> int | None:
    """The id of the subshell or function to which a `set` is confined; None for the whole program."""
    return next((id(each) for each in node.ancestors() if each.kind in _SCOPES), None)
