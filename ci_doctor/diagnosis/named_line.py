# SPDX-License-Identifier: Apache-2.0
"""Reads the line that a failure report's header is about: the next one with words."""

from collections.abc import Iterable

from ci_doctor.diagnosis.lines.clean_line import clean_line
from ci_doctor.diagnosis.log_rule import PointsTo
from ci_doctor.diagnosis.reading.log_text import LogText
from ci_doctor.diagnosis.rule_set import RuleSet
from ci_doctor.diagnosis.scanning.scan import Hit

# Below a header: blank lines, rules of dashes, a marker of stars.
_LINES_BELOW_HEADER = 6


def named_lines(log: LogText, hits: Iterable[Hit], rules: RuleSet) -> tuple[Hit, ...]:
    """The hits in the order of the lines that they name."""
    named = []
    for hit in hits:
        if rules.rules[hit.rule].points_to is PointsTo.NEXT_LINE:
            named.append(_below(log, hit))
        else:
            named.append(hit)
    named.sort(key=lambda hit: (hit.line.offset, hit.rule))
    return tuple(named)


def _below(log: LogText, header: Hit) -> Hit:
    """The next line with a letter or digit, as a hit; the header itself if there is none near."""
    for line in log.after(header.line, _LINES_BELOW_HEADER)[1:]:
        clean = clean_line(line.content)
        if any(character.isalnum() for character in clean.message):
            return Hit(rule=header.rule, line=line, clean=clean, fields=header.fields)
    return header
