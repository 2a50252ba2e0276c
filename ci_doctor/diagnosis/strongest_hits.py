# SPDX-License-Identifier: Apache-2.0
"""Pure. Of all hits of a log, the one for each line that can be named as a cause."""

from collections.abc import Iterable

from ci_doctor.diagnosis.log_rule import NAMEABLE, Role
from ci_doctor.diagnosis.rule_set import RuleSet
from ci_doctor.diagnosis.scanning.scan import Hit
from ci_doctor.diagnosis.strongest_match import strongest

_COUNTING = NAMEABLE | {Role.NOISE}


def strongest_hits(hits: Iterable[Hit], rules: RuleSet) -> dict[int, Hit]:
    """From the offset of each line to its hit whose rule has the most points.

    A line that is noise has none; `strongest` says which of several counts.
    """
    by_line: dict[int, list[Hit]] = {}
    for hit in hits:
        if rules.rules[hit.rule].role in _COUNTING:
            by_line.setdefault(hit.line.offset, []).append(hit)
    best: dict[int, Hit] = {}
    for offset, on_line in by_line.items():
        index = strongest([rules.rules[hit.rule] for hit in on_line])
        if index is not None:
            best[offset] = on_line[index]
    return best


def offsets_of(hits: Iterable[Hit], rules: RuleSet, *roles: Role) -> set[int]:
    """The offsets of the lines with a hit of one of `roles`."""
    return {hit.line.offset for hit in hits if rules.rules[hit.rule].role in roles}
