# SPDX-License-Identifier: Apache-2.0
"""Reads the rules about log lines for what commands say of them: what one means, and what is wrong with one."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import tomli
from msgspec import Struct, structs

from ci_doctor.config.loading import line_of
from ci_doctor.decodable import decodable
from ci_doctor.diagnosis.conclusion import next_command
from ci_doctor.diagnosis.diagnosis import load_rules
from ci_doctor.diagnosis.log_rules import (
    NAMEABLE,
    LogRule,
    Role,
    RuleSet,
    check_rules,
)
from ci_doctor.diagnosis.log_text import clean_line
from ci_doctor.diagnosis.outside import retry_policy
from ci_doctor.diagnosis.rules import RULE_MISTAKE, rule_of
from ci_doctor.diagnosis.scan import strongest
from ci_doctor.errors import ConfigError
from ci_doctor.model.cause import FailureClass, RetryPolicy, about_retry, is_of_test, title_of
from ci_doctor.model.facts.diagnose import (
    LogRuleFacts,
    LogRulesFacts,
    RuleCheckFacts,
    RuleProblemFacts,
)
from ci_doctor.model.facts.preparing import ExplainFacts
from ci_doctor.model.outcome import Evidence, Outcome, Severity, Table, Verdict, row, text_table
from ci_doctor.render.formatting import amount
from ci_doctor.system.files.access import near_path, open_file_or_pipe

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
        matches = rules.matching(_naming(rules, line), clean.texts)
        index = strongest([rule for rule, _ in matches])
        if index is not None and (best is None or matches[index][0].points > best.rule.points):
            rule, fields = matches[index]
            best = Recognised(message=clean.message, rule=rule, fields=fields)
    return best


def _naming(rules: RuleSet, line: str) -> list[LogRule]:
    """The rules of which the line holds a literal, and which name the line itself, or noise."""
    return [
        rule
        for rule in rules.rules
        if rule.next_line is None
        and rule.role in {*NAMEABLE, Role.NOISE}
        and any(literal in line for literal in rule.literals)
    ]


_MOST_CHARACTERS = 300
_PERHAPS = (
    "Another run may pass. Whether the change is at fault, a message alone does not tell: "
    "`ci-doctor diagnose LOG` reads the whole log."
)
_NO_EXPLANATION = "A line that helps to read a log, and is never a cause."


def explain_log_rule(word: str, own: tuple[Path, ...]) -> Outcome | None:
    """What the log rule called `word` means, or the group of that name; None if there is none.

    `own`: the repository's rules files. Raises ConfigError if one has a mistake.
    """
    rules = load_rules(own).rules
    for rule in rules:
        if rule.id == word:
            return _explained(rule, rule.id, "", {})
    family = [rule.id for rule in rules if rule.id.startswith(f"{word}/")]
    if not family:
        return None
    listed = ", ".join(f"`{each}`" for each in family)
    meaning = f"a group of rules about log lines: {listed}."
    remedy = f"`ci-doctor explain {family[0]}`, and so on."
    return Outcome(
        verdict=None,
        summary=f"{word}: {meaning}",
        tables=(text_table("What to do", (remedy,)),),
        facts=ExplainFacts(meaning=meaning, remedy=remedy),
    )


def log_rule_ids(own: tuple[Path, ...]) -> tuple[str, ...]:
    """The ids of all rules about log lines."""
    return tuple(rule.id for rule in load_rules(own).rules)


def explain_text(text: str, own: tuple[Path, ...]) -> Outcome | None:
    """What an error message of one line or several means; None if no rule recognises it."""
    recognised = recognise(text, load_rules(own))
    if recognised is None:
        return None
    message = recognised.message
    return _explained(recognised.rule, message[:_MOST_CHARACTERS], message, recognised.fields)


def _explained(rule: LogRule, subject: str, message: str, fields: Mapping[str, str]) -> Outcome:
    """The Outcome of a rule, about the `subject`; the line `message` has the captures `fields`."""
    command = next_command(rule.next_command, fields)
    of_class = None if rule.class_ is None else rule_of(rule.class_).remedy
    remedy = rule.remedy or of_class or "Nothing."
    meaning = rule.explanation or _NO_EXPLANATION
    policy = rule.retry or retry_policy(rule.class_, message)
    # Of such a rule the exception in the line decides.
    if rule.retry is None and not message and rule.class_ is FailureClass.CODE_BUG:
        policy = RetryPolicy.ASK
    lines = [remedy]
    rows = [row("rule", rule.id)]
    if rule.class_ is not None:
        is_test = is_of_test(rule.class_, rule.id)
        # A pasted message proves nothing of a job: what else stands in its log, nobody knows.
        of_policy = about_retry(policy, is_proven=False, is_test=is_test)
        lines.append(_PERHAPS if policy is RetryPolicy.YES else of_policy)
        rows.append(row("class", f"{title_of(rule.class_)} ({rule.class_.value})"))
    if command is not None:
        lines.append(f"`{command}` goes on from here.")
    return Outcome(
        verdict=None,
        summary=f"{subject}: {meaning}",
        tables=(
            text_table("What to do", tuple(lines)),
            Table(title="Recognised by", rows=tuple(rows)),
        ),
        facts=ExplainFacts(
            meaning=meaning,
            remedy=remedy,
            rule=rule.id,
            failure_class=None if rule.class_ is None else rule.class_.value,
            retry=None if rule.class_ is None else policy.value,
            next_command=command,
        ),
    )


def rules_outcome(own: tuple[Path, ...]) -> Outcome:
    """All rules in a table, those of a repository's files `own` last. Raises ConfigError."""
    facts = tuple(
        LogRuleFacts(
            id=rule.id,
            role=rule.role.value,
            class_=None if rule.class_ is None else rule.class_.value,
            explanation=rule.explanation,
            remedy=rule.remedy,
        )
        for rule in load_rules(own).rules
    )
    rows = tuple(row(each.id, each.role, each.class_ or "", each.explanation) for each in facts)
    columns = ("role", "class", "explanation")
    return Outcome(
        verdict=None,
        summary=f"{len(facts)} rules; `ci-doctor explain ID` explains one",
        tables=(Table(title="Rules", columns=columns, rows=rows),),
        facts=LogRulesFacts(rules=facts),
    )


def overlaps(rules: RuleSet, rule: LogRule) -> Iterator[tuple[str, LogRule, bool]]:
    """Each example of `rule` that another rule matches, that one, and whether it names such a line.

    None if the rule, which is one of `rules`, names no line or another one.
    """
    if rule.role not in NAMEABLE or rule.next_line is not None:
        return
    for example in rule.match:
        candidates = _naming(rules, f"{example}\n")
        for other, _ in rules.matching(candidates, clean_line(example.encode()).texts):
            if other.id != rule.id:
                # Of equal ones the order of files would decide: that is no decision.
                yield example, other, strongest([other, rule]) != 1


_TABLE = "rule"
_FILE = "the file"  # what a mistake is about that belongs to no rule


def check_outcome(path: Path) -> Outcome:
    """`pass` if all rules in the file at `path` can be used, else `failed` with each mistake.

    Raises ConfigError if it cannot be read.
    """
    try:
        with open_file_or_pipe(path) as file:
            text = file.read().decode()
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or error
        hint = near_path(path) if isinstance(error, FileNotFoundError) else None
        raise ConfigError(f"{path}: cannot be read: {why}", hint=hint) from error
    name = str(path)
    count, rules, problems = _checked(text)
    mistakes = sum(each.is_mistake for each in problems)
    end = amount(mistakes, "mistake") if mistakes else "all examples hold"
    findings = [
        RULE_MISTAKE.finding(
            f"{problem.rule}: {problem.problem}",
            evidence=(Evidence(file=name, line=problem.line),),
            severity=Severity.ERROR if problem.is_mistake else Severity.WARNING,
        )
        for problem in problems
    ]
    # The other rules that match an example; none if a rule cannot be used.
    rows = []
    for rule in () if rules is None else rules.own:
        for example, other, other_counts in overlaps(rules or load_rules(), rule):
            counts = other.id if other_counts else rule.id
            class_ = "" if other.class_ is None else other.class_.value
            rows.append(row(rule.id, other.id, str(other.points), class_, counts, example))
    columns = ("also matches", "weight", "class", "what counts", "example")
    title = "Other rules that match the examples"
    return Outcome(
        verdict=Verdict.FAILED if mistakes else Verdict.PASS,
        summary=f"{name}: {amount(count, 'rule')}, {end}",
        findings=tuple(findings),
        tables=(Table(title=title, columns=columns, rows=tuple(rows)),) if rows else (),
        facts=RuleCheckFacts(file=name, rules=count, problems=tuple(problems)),
    )


def _checked(text: str) -> tuple[int, RuleSet | None, list[RuleProblemFacts]]:
    """How many rules there are, those that can be used, and what is wrong with them."""
    try:
        content = tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        number = None if line is None else int(line[1])
        return 0, None, [RuleProblemFacts(rule=_FILE, line=number, problem=f"not TOML: {error}")]
    tables = _entries(content)
    rules, wrong = _decoded(tables, text)
    problems = [
        RuleProblemFacts(rule=_FILE, line=line_of(text, (key,)), problem=f"unknown key `{key}`")
        for key in content
        if key != _TABLE
    ]
    if not tables:
        problems.append(RuleProblemFacts(rule=_FILE, line=None, problem="no [[rule]] in it"))
    problems += wrong
    if problems:
        return len(tables), None, problems
    problems.extend(_problems_of_rules(rules, text))
    if any(each.is_mistake for each in problems):
        return len(tables), None, problems
    together = RuleSet(load_rules().rules, rules)
    problems.extend(_outweighed(together, text))
    return len(tables), together, problems


def _outweighed(rules: RuleSet, text: str) -> Iterator[RuleProblemFacts]:
    """A note for each rule that counts on an example of another rule, which is this file's."""
    for index, rule in enumerate(rules.own):
        heavier = {
            other.id: (example, other) for example, other, counts in overlaps(rules, rule) if counts
        }
        for example, other in heavier.values():
            if other.id in rule.yields_to:
                continue
            yield RuleProblemFacts(
                rule=rule.id,
                line=line_of(text, (_TABLE, index, "id")),
                problem=f"match example {example!r}: {other.id} matches it too and counts "
                f"(weight {other.points}, not {rule.points}): raise `weight`, or list it in "
                "`instead_of`, or in `yields_to` with a reason",
                is_mistake=False,
            )


def _entries(content: Mapping[str, object]) -> Sequence[object]:
    """Those of `[[rule]]`; none if the key has a value of another kind."""
    tables = content.get(_TABLE)
    return tables if isinstance(tables, list) else ()


def _decoded(tables: Sequence[object], text: str) -> tuple[list[LogRule], list[RuleProblemFacts]]:
    """The rules that can be decoded, and what is wrong with the others.

    Each is decoded by itself: one must not hide the mistakes of the others.
    """
    rules: list[LogRule] = []
    problems: list[RuleProblemFacts] = []
    for index, table in enumerate(tables):
        try:
            rules.append(msgspec.convert(table, decodable(LogRule)))
        except msgspec.ValidationError as error:
            name = f"rule {index + 1}"
            if isinstance(table, dict) and isinstance(table.get("id"), str):
                name = table["id"]
            line = line_of(text, (_TABLE, index, "id"))
            problems.append(RuleProblemFacts(rule=name, line=line, problem=str(error)))
    return rules, problems


def _problems_of_rules(rules: Sequence[LogRule], text: str) -> Iterator[RuleProblemFacts]:
    # The last of several rules with one id: it is the one to rename.
    lines = {rule.id: line_of(text, (_TABLE, index, "id")) for index, rule in enumerate(rules)}
    taken = frozenset(rule.id for rule in load_rules().rules)
    for rule, problem in check_rules(rules, taken=taken):
        yield RuleProblemFacts(rule=rule, line=lines.get(rule), problem=problem)
