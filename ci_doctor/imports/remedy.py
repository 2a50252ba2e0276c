# SPDX-License-Identifier: Apache-2.0
"""Reads the script that starts a thread: what ends a hazard, a rule or an import to move."""

import ast
import shlex
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ci_doctor.errors import UsageError
from ci_doctor.imports.kinds import kind_of
from ci_doctor.model.facts.import_race import Hazard, Remedy, RuleStanding, Site
from ci_doctor.preload.preload_rule import Preload, PreloadRule, format_rule, parse_rule

# What makes more modules importable than were at the start.
_EXTENDS: Final = ("sys.path", "site.addsitedir", "site.main", "sys.meta_path", "sys.path_hooks")


def place_for_import(file: str, before: int) -> str:
    """Where in `file` to write an import that must run before line `before`, as words.

    The top of the file is wrong if a later line extends sys.path, or comes before
    `from __future__`.
    """
    line, reason = _last_obstacle(file, before)
    if line is None:
        return f"at the top of {file}"
    return f"in {file} right after line {line}, {reason}"


def _last_obstacle(file: str, before: int) -> tuple[int | None, str]:
    place: tuple[int | None, str] = (None, "")
    for statement in _statements(file):
        end = statement.end_lineno or statement.lineno
        if end >= before:
            break
        if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
            place = (end, "the import from __future__")
        elif _extends_path(statement):
            place = (end, "which extends sys.path")
    return place


def _statements(file: str) -> list[ast.stmt]:
    try:
        source = Path(file).read_bytes()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source).body
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _extends_path(statement: ast.stmt) -> bool:
    """Whether it changes where modules are found; what a function would do counts when called."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return False
    for node in ast.walk(statement):
        changed: list[ast.expr] = []
        if isinstance(node, ast.Call):
            changed = [node.func]
        elif isinstance(node, ast.Assign):
            changed = node.targets
        elif isinstance(node, ast.AugAssign):
            changed = [node.target]
        if any(ast.unparse(each).startswith(_EXTENDS) for each in changed):
            return True
    return False


_MAIN = "__main__"
_STANDINGS: Final = {
    RuleStanding.WON: "With this rule the race did not fire under the same delay",
    RuleStanding.UNTRIED: "This rule was NOT seen to win: no run was made with it. "
    "`import-race --confirm` makes one if the race fires",
}


def remedy(hazard: Hazard, known: Mapping[str, RuleStanding] | None = None) -> Remedy:
    """What keeps both imports apart: all modules are imported before one of the threads starts.

    `known` has the standing of rules by their text, as `rule_standings` gives it. A rule that cannot
    fire or has lost is not offered.
    """
    kind = kind_of(hazard)
    if kind.advice is not None:
        text = kind.advice.format(first=hazard.modules[0])
        return Remedy(rule=None, move=text, text=text)
    started_at = hazard.first.thread_started_at or hazard.second.thread_started_at
    preloads = tuple(_preload(name, hazard) for name in hazard.modules)
    rule = rule_of(hazard)
    standing = (known or {}).get(format_rule(rule), RuleStanding.UNTRIED) if rule else None
    if rule is not None and standing in {RuleStanding.WON, RuleStanding.UNTRIED}:
        text = f"{_install(rule)}. {_STANDINGS[standing]}"
        return Remedy(rule=format_rule(rule), move=None, text=text, rule_standing=standing)
    move = _move(started_at, preloads)
    return Remedy(rule=None, move=move, text=move)


def rule_of(hazard: Hazard) -> PreloadRule | None:
    """The preload rule that would end the hazard, if there is one, whether it can fire or not."""
    started_at = hazard.first.thread_started_at or hazard.second.thread_started_at
    if started_at is None or not kind_of(hazard).is_preloadable:
        return None
    return _rule(started_at, tuple(_preload(name, hazard) for name in hazard.modules))


def _preload(module: str, hazard: Hazard) -> Preload:
    """The import of `module` with the names that both sides take: a lazy attribute loads more."""
    # A dict, because a rule lists each name once, and in the order of the statements.
    attributes: dict[str, None] = {}
    for side in (hazard.first, hazard.second):
        if side.name == module:
            attributes.update(dict.fromkeys(filter(_is_attribute, side.names)))
    return Preload(module=module, attributes=tuple(attributes))


def _is_attribute(name: str) -> bool:
    """Whether a rule can name it: `*` is none, and rules are ASCII."""
    return name.isascii() and name.isidentifier()


def _rule(started_at: Site, preloads: tuple[Preload, ...]) -> PreloadRule | None:
    """A preload before the module whose code starts the thread; None if no rule can express it."""
    # A script has no module name that an import could trigger; with `-m a.b` it has (events.py).
    trigger = started_at.module.removeprefix(_MAIN + ":")
    if trigger == _MAIN:
        return None
    rule = PreloadRule(trigger=trigger, preloads=preloads)
    # There and back: a name that the form of rules cannot hold is refused now, not when pasted.
    try:
        return parse_rule(format_rule(rule))
    except UsageError:
        return None


def _install(rule: PreloadRule) -> str:
    words = shlex.quote(format_rule(rule))
    return (
        f"import it before {rule.trigger} starts the thread: "
        f"`ci-doctor preload install --rule {words}`, "
        f"or for one run `ci-doctor run --preload {words} -- CMD`"
    )


def _move(started_at: Site | None, preloads: Sequence[Preload]) -> str:
    statements = "; ".join(map(_statement, preloads))
    if started_at is None:
        return f"write `{statements}` where the program starts, before its first thread"
    return (
        f"write `{statements}` {place_for_import(started_at.file, started_at.line)}, "
        f"before line {started_at.line} starts the thread"
    )


def _statement(preload: Preload) -> str:
    if preload.attributes:
        return f"from {preload.module} import {', '.join(preload.attributes)}"
    return f"import {preload.module}"
