# SPDX-License-Identifier: Apache-2.0
"""Pure. What is wrong with a rule about log lines: its regex, its literals, its examples."""

import re
from collections.abc import Iterator

from ci_doctor.diagnosis.lines.clean_line import clean_line
from ci_doctor.diagnosis.log_rule import LogRule, Role
from ci_doctor.diagnosis.rule_set import Pattern, RuleSet

_ID = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*/[a-z0-9]+(?:-[a-z0-9]+)*")
_NAMED = frozenset({Role.CAUSE, Role.FAILURE, Role.ERROR, Role.SYMPTOM})
_SHORTEST_LITERAL = 3
_HEAVIEST = 100


def rule_mistakes(rule: LogRule) -> list[str]:
    """Sentences on what is wrong with `rule` of a repository; none if nothing is."""
    mistakes = [*_of_fields(rule), *_of_literals(rule)]
    try:
        pattern = RuleSet((), (rule,)).pattern(0)
    except Exception as error:  # noqa: BLE001 - RE2 has an error of its own, and `re` another
        reason = error.args[0] if error.args else error
        if isinstance(reason, bytes):
            reason = reason.decode(errors="replace")
        return [*mistakes, f"the regex cannot be compiled: {reason}"]
    return [*mistakes, *_of_examples(rule, pattern)]


def _of_fields(rule: LogRule) -> Iterator[str]:
    if _ID.fullmatch(rule.id) is None:
        yield "the id is not of the form `family/what-happened`"
    if rule.role in _NAMED and rule.class_ is None:
        yield f"a rule of the role `{rule.role}` needs a class"
    if rule.role in _NAMED and not rule.explanation:
        yield "it has no explanation"
    if rule.weight is not None and not 0 <= rule.weight <= _HEAVIEST:
        yield f"the weight {rule.weight} is not from 0 to 100"
    if not rule.match:
        yield "it has no example in `match`"


def _of_literals(rule: LogRule) -> Iterator[str]:
    if not rule.literals:
        yield "it has no literals: no line would ever be tried"
    for literal in rule.literals:
        if len(literal) < _SHORTEST_LITERAL or "\n" in literal or "\0" in literal:
            yield f"the literal {literal!r} is too short, or holds a line end"


def _of_examples(rule: LogRule, pattern: Pattern) -> Iterator[str]:
    for example in rule.match:
        if not _matches(pattern, example):
            yield f"the regex does not match the example {example!r}"
        elif rule.literals and not any(literal in example for literal in rule.literals):
            yield f"the example {example!r} holds none of the literals"
    for example in rule.no_match:
        has_literal = any(literal in example for literal in rule.literals)
        if has_literal and _matches(pattern, example):
            yield f"it matches {example!r}, which stands in `no_match`"


def _matches(pattern: Pattern, example: str) -> bool:
    texts = clean_line(example.encode(errors="replace")).texts
    return any(pattern.search(text) is not None for text in texts)
