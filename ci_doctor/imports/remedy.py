# SPDX-License-Identifier: Apache-2.0
"""Pure. What ends a hazard: a rule, or an import to move before the line that starts the thread."""

import shlex
from collections.abc import Mapping
from typing import Final

from ci_doctor.errors import UsageError
from ci_doctor.imports.hazards import kind_of
from ci_doctor.model.facts.import_race import Hazard, Remedy, RuleStanding
from ci_doctor.preload.preload_rule import Preload, PreloadRule, format_rule, parse_rule

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
    rule = rule_of(hazard)
    standing = (known or {}).get(format_rule(rule), RuleStanding.UNTRIED) if rule else None
    if rule is not None and standing in {RuleStanding.WON, RuleStanding.UNTRIED}:
        words = shlex.quote(format_rule(rule))
        text = (
            f"import it before {rule.trigger} starts the thread: "
            f"`ci-doctor preload install --rule {words}`, "
            f"or for one run `ci-doctor run --preload {words} -- CMD`. {_STANDINGS[standing]}"
        )
        return Remedy(rule=format_rule(rule), move=None, text=text, rule_standing=standing)
    move = _move(hazard)
    return Remedy(rule=None, move=move, text=move)


def rule_of(hazard: Hazard) -> PreloadRule | None:
    """The preload rule that would end the hazard, if there is one, whether it can fire or not.

    It preloads before the module whose code starts the thread.
    """
    started_at = hazard.first.thread_started_at or hazard.second.thread_started_at
    if started_at is None or not kind_of(hazard).is_preloadable:
        return None
    # A script has no module name that an import could trigger; with `-m a.b` it has (`Site`).
    trigger = started_at.module.removeprefix(_MAIN + ":")
    if trigger == _MAIN:
        return None
    rule = PreloadRule(trigger=trigger, preloads=_preloads(hazard))
    # There and back: a name that the form of rules cannot hold is refused now, not when pasted.
    try:
        return parse_rule(format_rule(rule))
    except UsageError:
        return None


def _preloads(hazard: Hazard) -> tuple[Preload, ...]:
    """The imports, with the names that both sides take: a lazy attribute loads more."""
    preloads = []
    for module in hazard.modules:
        sides = [side for side in (hazard.first, hazard.second) if side.name == module]
        names = [name for side in sides for name in side.names]
        # A rule lists each name once, in the order of the statements. `*` is none, and rules are
        # ASCII.
        attributes = [
            name for name in dict.fromkeys(names) if name.isascii() and name.isidentifier()
        ]
        preloads.append(Preload(module=module, attributes=tuple(attributes)))
    return tuple(preloads)


def _move(hazard: Hazard) -> str:
    started_at = hazard.first.thread_started_at or hazard.second.thread_started_at
    statements = "; ".join(
        f"from {each.module} import {', '.join(each.attributes)}"
        if each.attributes
        else f"import {each.module}"
        for each in _preloads(hazard)
    )
    if started_at is None:
        return f"write `{statements}` where the program starts, before its first thread"
    return (
        f"write `{statements}` in {started_at.file} before line {started_at.line}, "
        "which starts the thread"
    )
