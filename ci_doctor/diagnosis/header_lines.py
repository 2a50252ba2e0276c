# SPDX-License-Identifier: Apache-2.0
"""Reads the line below a header: `There was 1 failure:` says that a list begins, not what failed."""

import re
from collections.abc import Iterable

from ci_doctor.diagnosis.bounded_regex import fields_of
from ci_doctor.diagnosis.lines.clean_line import CleanLine, clean_line
from ci_doctor.diagnosis.reading.log_text import LogText, TextLine
from ci_doctor.diagnosis.rule_set import RuleSet
from ci_doctor.diagnosis.scanning.scan import Hit

# Between a header and its list stand blank lines, rules of dashes, a marker of stars, apt's steps.
_LINES_BELOW = 9
_STEPS_OF_APT = re.compile(
    r"(?:Reading (?:package lists|state information)|Building dependency tree)"
)


def named_lines(log: LogText, hits: Iterable[Hit], rules: RuleSet) -> tuple[Hit, ...]:
    """The hits in the order of the lines that they name; a header without its list is none."""
    named = []
    for hit in hits:
        pattern = rules.next_line_pattern(hit.rule)
        if pattern is None:
            named.append(hit)
            continue
        below = _line_below(log, hit.line)
        if below is None:
            continue
        line, clean = below
        match = pattern.search(clean.message)
        if match is not None:
            fields = {**hit.fields, **fields_of(match)}
            named.append(Hit(rule=hit.rule, line=line, clean=clean, fields=fields))
    named.sort(key=lambda hit: (hit.line.offset, hit.rule))
    return tuple(named)


def _line_below(log: LogText, header: TextLine) -> tuple[TextLine, CleanLine] | None:
    """The next line with a letter or digit; None if there is none near."""
    for line in log.after(header, _LINES_BELOW)[1:]:
        clean = clean_line(line.content)
        if _STEPS_OF_APT.match(clean.message) is not None:
            continue
        if any(character.isalnum() for character in clean.message):
            return line, clean
    return None
