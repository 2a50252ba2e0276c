# SPDX-License-Identifier: Apache-2.0
"""Pure. The rule that recognises an error message which a person pastes."""

from collections.abc import Mapping

from msgspec import Struct, structs

from ci_doctor.diagnosis.lines.clean_line import CleanLine, clean_line
from ci_doctor.diagnosis.log_rule import NAMEABLE, LogRule, Role
from ci_doctor.diagnosis.rule_set import RuleSet
from ci_doctor.diagnosis.strongest_match import strongest_match

_MOST_LINES = 2000
# What stands before a message where its program prints it.
_STARTS = (
    "ModuleNotFoundError: ",
    "ImportError: ",
    "TypeError: ",
    "TypeError: f() ",
    "AttributeError: ",
    "RuntimeError: CUDA error: an ",
    "RuntimeError: CUDA error: ",
    "RuntimeError: ",
    "ValueError: ",
    "OSError: ",
    "error: ",
)


class Recognised(Struct, frozen=True, kw_only=True):
    """A line without its prefixes, the rule that matches it, and what the rule captures."""

    message: str
    rule: LogRule
    fields: Mapping[str, str]


def recognise(text: str, rules: RuleSet) -> Recognised | None:
    """The line of `text` with the strongest rule, the first among equals; None without any.

    A message of one line may lack the exception's name, as people paste it.
    """
    best = _of_lines(text, rules)
    if best is not None or "\n" in text.strip():
        return best
    for start in _STARTS:
        completed = _of_lines(start + text.strip(), rules)
        # A rule about any exception of that name says nothing of the message.
        if completed is not None and completed.rule.role is Role.CAUSE:
            return structs.replace(completed, message=text.strip())
    return None


def _of_lines(text: str, rules: RuleSet) -> Recognised | None:
    best: Recognised | None = None
    for line in text.splitlines()[:_MOST_LINES]:
        clean = clean_line(line.encode(errors="replace"))
        recognised = _of_line(line, clean, rules)
        if recognised is None:
            continue
        if best is None or recognised.rule.points > best.rule.points:
            best = recognised
    return best


def _of_line(line: str, clean: CleanLine, rules: RuleSet) -> Recognised | None:
    indices = []
    for index, rule in enumerate(rules.rules):
        if any(literal in line for literal in rule.literals):
            indices.append(index)
    match = strongest_match(rules, indices, clean.texts, NAMEABLE)
    if match is None:
        return None
    return Recognised(message=clean.message, rule=match.rule, fields=match.fields)
