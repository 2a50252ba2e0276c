# SPDX-License-Identifier: Apache-2.0
"""Reads the rule files of a repository, and finds mistakes in rules about log lines."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from ci_doctor.diagnosis.lines import clean_line
from ci_doctor.diagnosis.log_rules import (
    NAMEABLE,
    ORDINARY_LINES,
    BoundedRegex,
    LogRule,
    Pattern,
    Role,
    parse_rules,
)
from ci_doctor.diagnosis.scan import MARKS
from ci_doctor.errors import ConfigError

# RE2 takes at most (length of the line) x (size of the program) steps. For the 2,000 characters of
# LONGEST_TEXT this size keeps them below 30 ms.
_MOST_INSTRUCTIONS = 1000


def regex_problem(regex: str, *, is_foreign: bool) -> str | None:
    """Why `regex` cannot be used, as a sentence; None if it can.

    It must be valid in both engines, so that a rule reads the same wherever it stands. The size of
    one that `is_foreign` is limited; a house rule's time is measured by a test instead.
    """
    import re2

    try:
        re.compile(regex)
    except (re.error, OverflowError, RecursionError) as error:
        return f"regex {regex!r}: {error}"
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(regex, options)
    except re2.error as error:
        reason = error.args[0]
        if isinstance(reason, bytes):
            reason = reason.decode(errors="replace")
        return f"regex {regex!r}: RE2 does not take it: {reason}"
    if is_foreign and compiled.programsize > _MOST_INSTRUCTIONS:
        return (
            f"regex {regex!r}: too large ({compiled.programsize} instructions, "
            f"at most {_MOST_INSTRUCTIONS}): a line could take more than 50 ms, "
            "use smaller repeats {m,n} or fewer alternatives"
        )
    return None


# Shorter ones stand in most lines.
_SHORTEST_LITERAL_BYTES = 3
_ID = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*/[a-z0-9]+(?:-[a-z0-9]+)*")
# A literal may end with the end of a line, and may hold a tab or the start of a colour.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]|[\r\n](?!\n?\Z)")
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


class RuleProblem(Struct, frozen=True, kw_only=True):
    """rule: the id of the rule. text: what is wrong and what to do."""

    file: str
    rule: str
    text: str

    def __str__(self) -> str:
        """`file: rule: text`, as it is printed."""
        return f"{self.file}: {self.rule}: {self.text}"


def check_rules(
    rules: Sequence[LogRule], file: str, *, is_house: bool = False, taken: Collection[str] = ()
) -> list[RuleProblem]:
    """What is wrong with the `rules` of the file `file`; empty if nothing is.

    is_house: their regexes run on `re`, which may backtrack. taken: ids of other rules.
    """
    problems = []
    counts = Counter(rule.id for rule in rules)
    for rule in rules:
        texts = list(_mistakes(rule, is_house=is_house))
        if counts[rule.id] > 1 or rule.id in taken:
            texts.append("another rule has this id: choose a different one")
        problems += [RuleProblem(file=file, rule=rule.id, text=each) for each in texts]
    return problems


def _mistakes(rule: LogRule, *, is_house: bool) -> Iterator[str]:
    yield from _field_problems(rule)
    for literal in rule.literals:
        yield from _literal_problems(literal)
        # A scan leaves out frequent marks that stand alone (`LiteralSearch`).
        if rule.role not in MARKS:
            yield from _frequency_problems(literal)
    regexes = [rule.regex]
    if rule.next_line is not None:
        regexes.append(rule.next_line)
    is_valid = True
    for regex in regexes:
        problem = regex_problem(regex, is_foreign=not is_house)
        if problem is not None:
            is_valid = False
            yield problem
    if is_valid:
        yield from _placeholder_problems(rule)
        yield from _example_problems(rule, BoundedRegex(rule.regex, is_foreign=not is_house))


def _field_problems(rule: LogRule) -> Iterator[str]:
    if _ID.fullmatch(rule.id) is None:
        yield "the id is not of the form family/what-happened: use a-z, 0-9 and - only"
    if not rule.literals:
        yield "no literals: give strings of which every matching line holds one"
    if not rule.match:
        yield "no example in match: give a line that the rule must match"
    if rule.weight is not None and not 0 <= rule.weight <= 100:
        yield f"weight {rule.weight}: use 0 to 100"
    if rule.role in NAMEABLE:
        yield from _problems_of_a_cause(rule)


def _problems_of_a_cause(rule: LogRule) -> Iterator[str]:
    # What follows from a cause has the class of that.
    if rule.class_ is None and rule.role is not Role.SYMPTOM:
        yield f"no class: a rule with role {rule.role} needs one"
    if not rule.explanation:
        yield "no explanation: say in a sentence what happened"
    if not rule.remedy:
        yield "no remedy: say in a sentence what to do"


def _literal_problems(literal: str) -> Iterator[str]:
    if _CONTROL.search(literal):
        yield f"literal {literal!r}: a line holds no such character, remove it"
    if len(literal.encode()) < _SHORTEST_LITERAL_BYTES:
        yield f"literal {literal!r}: shorter than {_SHORTEST_LITERAL_BYTES} bytes, use a longer part"


def _frequency_problems(literal: str) -> Iterator[str]:
    for line in ORDINARY_LINES:
        if literal in line:
            yield (
                f"literal {literal!r}: stands in ordinary lines such as {line!r}, "
                "use a part that only the failure has"
            )
            return


def _placeholder_problems(rule: LogRule) -> Iterator[str]:
    groups = re.compile(rule.regex).groupindex
    for name in _PLACEHOLDER.findall(rule.next_command or ""):
        if name not in groups:
            yield f"next_command: {{{name}}} is no named group of the regex"


def _example_problems(rule: LogRule, pattern: Pattern) -> Iterator[str]:
    for example in rule.match:
        if not _holds_literal(rule, example):
            yield f"match example {example!r}: it holds none of the literals, add one that it holds"
        elif not _matches(pattern, example):
            yield f"match example {example!r}: the regex does not match it"
    for example in rule.no_match:
        if _holds_literal(rule, example) and _matches(pattern, example):
            yield f"no_match example {example!r}: the regex matches it"


def _holds_literal(rule: LogRule, example: str) -> bool:
    return any(literal in f"{example}\n" for literal in rule.literals)


def _matches(pattern: Pattern, example: str) -> bool:
    return any(pattern.search(text) for text in clean_line(example.encode()).texts)


def repository_rules(paths: Sequence[Path], taken: Collection[str] = ()) -> tuple[LogRule, ...]:
    """The rules in the TOML files `paths`. `taken`: ids of other rules, which they may not have.

    Raises ConfigError if a file cannot be read, or for every mistake in one: a line for each, which
    names the file and the rule. A rule is never left out silently.
    """
    rules: list[LogRule] = []
    for path in paths:
        name = str(path)
        added = parse_rules(_text(path), name)
        earlier = {rule.id for rule in rules}
        mistakes = check_rules(added, name, taken=earlier.union(taken))
        if mistakes:
            raise ConfigError("\n".join(str(mistake) for mistake in mistakes))
        rules.extend(added)
    return tuple(rules)


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
