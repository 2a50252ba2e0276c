# SPDX-License-Identifier: Apache-2.0
"""Pure. A shell program as its rules see it, with the files that it sources and the options that hold."""

from __future__ import annotations

import bisect
import posixpath
import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Final, TypeVar, cast

from ci_doctor.lint.lint_rule import LONGEST_EXCERPT, Edit, Example, Place, Violation, excerpt_of
from ci_doctor.lint.source_files import ShellSource
from ci_doctor.syntax.shell_nodes import CommandWords, NodeKind, ShellNode, unquoted, unwrapped
from ci_doctor.syntax.shell_tree import syntax_tree

if TYPE_CHECKING:
    from ci_doctor.lint.lint_rule import LintRule
    from ci_doctor.model.outcome import Severity
    from ci_doctor.syntax.shell_tree import SyntaxTree

Answer = TypeVar("Answer")


class ShellProgram:
    """The tree of one source, with what is asked of it more than once."""

    def __init__(self, source: ShellSource, tree: SyntaxTree) -> None:
        self.source = source
        self.tree = tree
        self.text = tree.text
        self.root = tree.program
        # Something ends it after a time, as `timeout 60 bash -c` does.
        self.is_limited = False
        # Each `source` with the program it means, as far as that is known.
        self.sourced_at: tuple[tuple[ShellNode, ShellProgram], ...] = ()
        self._answers: dict[object, object] = {}
        self._words: dict[int, CommandWords] = {}
        self._exempt: dict[str, ShellNode | None] = {}
        self._depth = 0

    @cached_property
    def nodes(self) -> tuple[ShellNode, ...]:
        """All nodes, in the order of the text."""
        return tuple(self.root.descendants())

    @cached_property
    def commands(self) -> tuple[ShellNode, ...]:
        """All simple commands with a name."""
        return tuple(node for node in self.nodes if node.kind is NodeKind.COMMAND and node.word)

    @cached_property
    def by_name(self) -> dict[str, list[ShellNode]]:
        """The simple commands by the name as it is written."""
        names: dict[str, list[ShellNode]] = {}
        for node in self.commands:
            names.setdefault(node.word, []).append(node)
        return names

    @cached_property
    def functions(self) -> dict[str, ShellNode]:
        """The functions that this text defines; the last definition of a name holds."""
        return {node.word: node for node in self.nodes if node.kind is NodeKind.FUNCTION}

    def definition(self, name: str) -> tuple[ShellProgram, ShellNode] | None:
        """The function `name`, here or in a sourced file, with the program it stands in."""
        own = self.functions.get(name)
        if own is not None:
            return self, own
        for _, library in reversed(self.sourced_at):
            known = library.definition(name)
            if known is not None:
                return known
        return None

    @cached_property
    def errexit(self) -> OptionState:
        """Where errexit holds."""
        return OptionState(self, ShellOption.ERREXIT)

    @cached_property
    def pipefail(self) -> OptionState:
        """Where pipefail holds."""
        return OptionState(self, ShellOption.PIPEFAIL)

    @cached_property
    def traps_errors(self) -> bool:
        """Whether a handler of ERR decides about failures."""
        return bool(re.search(r"\btrap\b[^\n]*\bERR\b", self.text))

    def exempt_by(self, node: ShellNode) -> ShellNode | None:
        """The operator, condition or call that switches errexit off for `node`; None if nothing does."""
        current = node
        for parent in node.ancestors():
            if current.is_condition or parent.kind is NodeKind.NEGATION:
                return current
            if parent.kind is NodeKind.AND_OR and parent.children[-1] is not current:
                return parent
            if parent.kind is NodeKind.FUNCTION:
                return self._exempt_call(parent.word)
            current = parent
        return None

    def _exempt_call(self, name: str) -> ShellNode | None:
        """A call of the function `name` for which errexit is off; None if there is none."""
        if name in self._exempt or self._depth > _DEEPEST_CALLS:
            return self._exempt.get(name)
        self._exempt[name] = None  # a function that calls itself
        self._depth += 1
        calls = self.by_name.get(name, [])[:50]
        exempt = (call for call in calls if self.exempt_by(call) is not None)
        self._exempt[name] = next(exempt, None)
        self._depth -= 1
        return self._exempt[name]

    def once(self, make: Callable[[ShellProgram], Answer]) -> Answer:
        """What `make` says of this program, asked for once: the walks of all rules share it."""
        if make not in self._answers:
            self._answers[make] = make(self)
        return cast("Answer", self._answers[make])

    def of(self, *kinds: NodeKind) -> Iterator[ShellNode]:
        """All nodes of `kinds`."""
        return (node for node in self.nodes if node.kind in kinds)

    def words(self, node: ShellNode) -> CommandWords:
        """The command that `node` runs, without wrappers."""
        known = self._words.get(id(node))
        if known is None:
            written = self.written_words(node)
            known = (
                unwrapped(tuple(unquoted(word) for word in written))
                if written
                else CommandWords("", ())
            )
            self._words[id(node)] = known
        return known

    def written_words(self, node: ShellNode) -> list[str]:
        """The words of a command with their quotes, without assignments and redirections."""
        return [self.text[start:end] for start, end in node.words]

    def innermost(self, offset: int) -> ShellNode | None:
        """The smallest node around `offset`; None if it stands outside of the program."""
        node: ShellNode | None = self.root
        inner = None
        while node is not None:
            inner = node
            node = node.child_at(offset)
        return inner

    def of_node(self, node: ShellNode) -> str:
        """The text of `node`."""
        return self.text[node.start : node.end]

    def redirections(self, node: ShellNode) -> str:
        """The redirections of a command, as text."""
        return " ".join(self.text[start:end] for start, end in node.redirections)

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(match.end() for match in re.finditer("\n", self.text))]

    def own_line(self, offset: int) -> int:
        """The 1-based line of this text at `offset`."""
        return bisect.bisect_right(self._line_starts, offset)

    def line(self, offset: int) -> int:
        """The 1-based line of the file at `offset`."""
        own = self.own_line(offset)
        lines = self.source.lines
        if lines is None:
            return own
        return lines[min(own, len(lines)) - 1] if lines else 1

    def place(self, node: ShellNode) -> Place:
        """Where `node` stands."""
        last = max(node.start, node.end - 1)
        return Place(file=self.source.file, line=self.line(node.start), end_line=self.line(last))

    def excerpt(self, node: ShellNode) -> str:
        """The line on which `node` begins, as it stands."""
        first = self.text.rfind("\n", 0, node.start) + 1
        end = self.text.find("\n", node.start)
        end = len(self.text) if end < 0 else end
        if node.start - first > LONGEST_EXCERPT // 2:
            first = node.start
        return excerpt_of(self.source.text[first:end])

    def edits(self, *changes: tuple[int, int, str]) -> tuple[Edit, ...]:
        """Replacements of (start, end, text) in offsets of this text; none if it does not stand in its file as it is."""
        base = self.source.offset
        if base is None:
            return ()
        return tuple(
            Edit(file=self.source.file, start=base + start, end=base + end, text=text)
            for start, end, text in changes
        )


# Whether errexit and pipefail hold at a place of a program, by the `set` that stands before it.
#
# A place inside a function takes the option from the function's calls. True and False are certain; None is unknown: a
# function that nobody calls here, or that some calls reach with and some without.

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


# Which files of the repository a `source` may mean.

# Spellings of "the directory of this script", with what they need after them.
_DIRNAME: Final = r"\$\(\s*dirname\s+(?:--\s+)?(?:\$\(\s*(?:realpath|readlink)[^()]*\)|[^()]*)\s*\)"
_OWN_DIRECTORY: Final = re.compile(
    rf"""\$\(\s*cd\s+[^()]*?(?:{_DIRNAME}|\$\{{(?:BASH_SOURCE(?:\[0\])?|0)%/\*\}})[^()]*\)
    | {_DIRNAME}
    | \$\{{(?:BASH_SOURCE(?:\[0\])?|0)%/\*\}}
    """,
    re.VERBOSE,
)
_VARIABLE: Final = re.compile(r"^\$\{?(\w+)\}?")
_ASSIGNMENT: Final = (
    r"(?m)^[ \t]*(?:readonly\s+|export\s+|local\s+|declare\s+(?:-\w+\s+)?)?{}=(.+)$"
)


def candidates(word: str, text: str, file: str) -> Iterator[str]:
    """Paths, relative to the root, that `source word` in `text` of `file` may mean, most likely first."""
    path = _expanded(word.strip(), text)
    if path is None:
        return
    directory = posixpath.dirname(file)
    if path.startswith("\0"):
        yield from _inside(posixpath.join(directory, path[1:].lstrip("/") or "."))
    elif path.startswith("/"):
        # A mounted checkout: `/workspace/benchmarks/lib.sh` ends with a path of the repository.
        parts = path.strip("/").split("/")
        for index in range(1, len(parts)):
            yield "/".join(parts[index:])
    elif "$" not in path:
        yield from _inside(path)
        yield from _inside(posixpath.join(directory, path))


def _inside(path: str) -> Iterator[str]:
    normal = posixpath.normpath(path)
    if not normal.startswith(("../", "/")) and normal != "..":
        yield normal


def _expanded(word: str, text: str) -> str | None:
    """`word` with the script's own directory as NUL; None if it cannot be known."""
    plain = word.replace('"', "").replace("'", "")
    own = _OWN_DIRECTORY.match(plain)
    if own:
        return "\0" + plain[own.end() :]
    named = _VARIABLE.match(plain)
    if named is None:
        return plain
    rest = plain[named.end() :]
    values = re.findall(_ASSIGNMENT.format(re.escape(named[1])), text[:200_000])
    if not values:
        # A root of the checkout that the environment names, such as $GITHUB_WORKSPACE.
        return rest.lstrip("/") if rest.startswith("/") else None
    value = values[-1].replace('"', "").replace("'", "")
    own = _OWN_DIRECTORY.match(value)
    if own:
        above = re.search(r"/(\.\.(?:/\.\.)*)", own[0])
        up = "/" + above[1] if above else ""
        tail = re.split(r"[\s;&]", value[own.end() :])[0]
        return "\0" + up + tail + rest
    return None if "$" in value else value + rest


# A program together with the files that it sources, as far as `read` has them.

Read = Callable[[str], str | None]

_DEPTH: Final = 4


def read_program(source: ShellSource, read: Read, *, is_limited: bool = False) -> ShellProgram:
    """`source` with what it sources, to a depth of four files."""
    program = ShellProgram(source, syntax_tree(source.text))
    _link(program, read, frozenset({source.file}))
    program.is_limited = is_limited
    return program


@lru_cache(maxsize=64)
def _library(file: str, text: str) -> ShellProgram:
    """A sourced file: hundreds of scripts source the same one, and it is parsed once."""
    return ShellProgram(ShellSource(file=file, text=text), syntax_tree(text))


def _link(program: ShellProgram, read: Read, known: frozenset[str]) -> None:
    if len(known) > _DEPTH:
        return
    sourced = []
    for name in ("source", "."):
        for node in program.by_name.get(name, []):
            library = _sourced(program, node, read, known)
            if library is not None:
                sourced.append((node, library))
    program.sourced_at = tuple(sourced)


def _sourced(
    program: ShellProgram, node: ShellNode, read: Read, known: frozenset[str]
) -> ShellProgram | None:
    words = program.written_words(node)
    if len(words) < 2:
        return None
    for path in candidates(words[1], program.text, program.source.file):
        text = None if path in known else read(path)
        if text is None or "\0" in text:
            continue
        library = _library(path, text)
        if "source" in library.by_name or "." in library.by_name:
            # What it sources depends on `read`, so that it is not shared.
            library = ShellProgram(library.source, library.tree)
            _link(library, read, known | {path})
        return library
    return None


# What a rule of shell scripts says about a statement, and small scripts as its examples.


def script(text: str) -> tuple[Example, ...]:
    """An example of one script."""
    return (Example(file="run.sh", text="#!/bin/bash\n" + text),)


def violation(  # noqa: PLR0913 - the fields of Violation by their names
    program: ShellProgram,
    rule: LintRule,
    node: ShellNode,
    summary: str,
    *,
    remedy: str | None = None,
    severity: Severity | None = None,
    related: tuple[Place, ...] = (),
    edits: tuple[Edit, ...] = (),
) -> Violation:
    """`rule` reports `node`. The fields are those of Violation."""
    return Violation(
        rule=rule,
        place=program.place(node),
        summary=summary,
        excerpt=program.excerpt(node),
        remedy=remedy,
        severity=severity,
        related=related,
        edits=edits,
    )
