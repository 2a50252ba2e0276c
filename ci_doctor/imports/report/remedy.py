# SPDX-License-Identifier: Apache-2.0
"""What ends a hazard: a preload rule, or an import to move. Pure."""

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_doctor.errors import UsageError
from ci_doctor.imports.record.events import Site
from ci_doctor.preload.preload_rule import Preload, PreloadRule, format_rule, parse_rule

if TYPE_CHECKING:
    from ci_doctor.imports.analyse.hazard import Import

_MAIN = "__main__"


class Remedy(Struct, frozen=True, kw_only=True):
    """What to do. `rule` is ready for `ci-doctor preload install`, `move` says which import to write where.

    At least one of the two is there; `text` is the whole advice, with commands to paste.
    """

    rule: PreloadRule | None
    move: str | None
    text: str


def remedy(
    first: "Import", second: "Import", modules: Sequence[str], *, movable_only: bool = False
) -> Remedy:
    """What keeps `first` and `second` apart: all `modules` are imported before the thread of one of them starts.

    movable_only: a preload would not help.
    """
    started = first.thread_started_at or second.thread_started_at
    preloads = tuple(_preload(name, (first, second)) for name in modules)
    rule = _rule(started, preloads) if started is not None and not movable_only else None
    if rule is not None:
        return Remedy(rule=rule, move=None, text=_install(rule))
    move = _move(started, preloads)
    return Remedy(rule=None, move=move, text=move)


def _preload(name: str, imports: Sequence["Import"]) -> Preload:
    """The import of `name`, with what both sides take from it: a lazy attribute loads more."""
    names = dict.fromkeys(
        attribute
        for side in imports
        if side.name == name
        for attribute in side.names
        if attribute.isascii() and attribute.isidentifier()
    )
    return Preload(module=name, attributes=tuple(names))


def _rule(started: Site, preloads: tuple[Preload, ...]) -> PreloadRule | None:
    """Preload before the module is loaded whose code starts the thread; None where no rule can do that."""
    trigger = started.module.removeprefix(_MAIN + ":")
    if trigger == _MAIN:
        return None
    rule = PreloadRule(trigger=trigger, preloads=preloads)
    try:
        return parse_rule(format_rule(rule))
    except UsageError:
        return None


def _install(rule: PreloadRule) -> str:
    words = shlex.quote(format_rule(rule))
    return (
        f"import it before {rule.trigger} starts the thread: `ci-doctor preload install --rule {words}`, "
        f"or for one run `ci-doctor run --preload {words} -- CMD`"
    )


def _move(started: Site | None, preloads: Sequence[Preload]) -> str:
    statements = "; ".join(_statement(preload) for preload in preloads)
    if started is None:
        return f"write `{statements}` where the program starts, before its first thread"
    return f"write `{statements}` at the top of {started.file}, before line {started.line} starts the thread"


def _statement(preload: Preload) -> str:
    if preload.attributes:
        return f"from {preload.module} import {', '.join(preload.attributes)}"
    return f"import {preload.module}"
