# SPDX-License-Identifier: Apache-2.0
"""Reads a rules file of a repository, and makes an outcome of what is wrong with its rules."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import tomli

from ci_doctor.config.toml_lines import line_of
from ci_doctor.diagnosis.diagnosis import load_rules
from ci_doctor.diagnosis.log_rule import LogRule
from ci_doctor.diagnosis.rule_checks import check_rules
from ci_doctor.diagnosis.rule_overlaps import overlaps
from ci_doctor.diagnosis.rule_set import RuleSet
from ci_doctor.diagnosis.rules import RULE_MISTAKE
from ci_doctor.errors import ConfigError
from ci_doctor.model.facts.diagnose import RuleCheckFacts, RuleProblemFacts
from ci_doctor.model.finding import Evidence, Finding, Severity
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.table import Table, row
from ci_doctor.model.verdict import Verdict
from ci_doctor.render.formatting import amount

_TABLE = "rule"
_FILE = "the file"  # what a mistake is about that belongs to no rule


def check_outcome(path: Path) -> Outcome:
    """`pass` if all rules in the file at `path` can be used, else `failed` with each mistake.

    Raises ConfigError if it cannot be read.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    name = str(path)
    tables, rules, problems = _checked(text, name)
    mistakes = [each for each in problems if each.is_mistake]
    if mistakes:
        verdict = Verdict.FAILED
        end = amount(len(mistakes), "mistake")
    else:
        verdict = Verdict.PASS
        end = "all examples hold"
    return Outcome(
        verdict=verdict,
        summary=f"{name}: {amount(tables, 'rule')}, {end}",
        findings=tuple(_finding(name, problem) for problem in problems),
        tables=tuple(_tables_of(rules)),
        facts=RuleCheckFacts(file=name, rules=tables, problems=tuple(problems)),
    )


def _finding(file: str, problem: RuleProblemFacts) -> Finding:
    return RULE_MISTAKE.finding(
        f"{problem.rule}: {problem.problem}",
        evidence=(Evidence(file=file, line=problem.line),),
        severity=Severity.ERROR if problem.is_mistake else Severity.WARNING,
    )


def _tables_of(rules: RuleSet | None) -> Iterator[Table]:
    """The other rules that match an example; none if a rule cannot be used."""
    if rules is None:
        return
    rows = []
    for rule in rules.own:
        for each in overlaps(rules, rule):
            counts = each.other.id if each.counts else rule.id
            class_ = "" if each.other.class_ is None else each.other.class_.value
            weight = str(each.other.points)
            rows.append(row(rule.id, each.other.id, weight, class_, counts, each.example))
    if rows:
        columns = ("also matches", "weight", "class", "what counts", "example")
        yield Table(title="Other rules that match the examples", columns=columns, rows=tuple(rows))


def _checked(text: str, name: str) -> tuple[int, RuleSet | None, list[RuleProblemFacts]]:
    """How many rules there are, those that can be used, and what is wrong with them."""
    try:
        content = tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        number = None if line is None else int(line[1])
        return 0, None, [RuleProblemFacts(rule=_FILE, line=number, problem=f"not TOML: {error}")]
    tables = _tables(content)
    rules, wrong = _decoded(tables, text)
    problems = [*_problems_of_file(content, text), *wrong]
    if problems:
        return len(tables), None, problems
    problems.extend(_problems_of_rules(rules, text, name))
    if any(each.is_mistake for each in problems):
        return len(tables), None, problems
    together = RuleSet(load_rules().rules, rules)
    problems.extend(_outweighed(together, text))
    return len(tables), together, problems


def _outweighed(rules: RuleSet, text: str) -> Iterator[RuleProblemFacts]:
    """A note for each rule that counts on an example of another rule, which is this file's."""
    for index, rule in enumerate(rules.own):
        heavier = {each.other.id: each for each in overlaps(rules, rule) if each.counts}
        for each in heavier.values():
            if each.other.id in rule.yields_to:
                continue
            yield RuleProblemFacts(
                rule=rule.id,
                line=line_of(text, (_TABLE, index, "id")),
                problem=f"match example {each.example!r}: {each.other.id} matches it too and counts "
                f"(weight {each.other.points}, not {rule.points}): raise `weight`, or list it in "
                "`instead_of`, or in `yields_to` with a reason",
                is_mistake=False,
            )


def _tables(content: Mapping[str, object]) -> Sequence[object]:
    """Those of `[[rule]]`; none if the key has a value of another kind."""
    tables = content.get(_TABLE)
    if not isinstance(tables, list):
        return ()
    return tables


def _problems_of_file(content: Mapping[str, object], text: str) -> Iterator[RuleProblemFacts]:
    for key in content:
        if key != _TABLE:
            line = line_of(text, (key,))
            yield RuleProblemFacts(rule=_FILE, line=line, problem=f"unknown key `{key}`")
    if not _tables(content):
        yield RuleProblemFacts(rule=_FILE, line=None, problem="no [[rule]] in it")


def _decoded(tables: Sequence[object], text: str) -> tuple[list[LogRule], list[RuleProblemFacts]]:
    """The rules that can be decoded, and what is wrong with the others.

    Each is decoded by itself: one must not hide the mistakes of the others.
    """
    rules: list[LogRule] = []
    problems: list[RuleProblemFacts] = []
    for index, table in enumerate(tables):
        try:
            rules.append(msgspec.convert(table, LogRule))
        except msgspec.ValidationError as error:
            name = f"rule {index + 1}"
            if isinstance(table, dict) and isinstance(table.get("id"), str):
                name = table["id"]
            line = line_of(text, (_TABLE, index, "id"))
            problems.append(RuleProblemFacts(rule=name, line=line, problem=str(error)))
    return rules, problems


def _problems_of_rules(
    rules: Sequence[LogRule], text: str, name: str
) -> Iterator[RuleProblemFacts]:
    lines = {}
    for index, rule in enumerate(rules):
        # The last of several rules with one id: it is the one to rename.
        lines[rule.id] = line_of(text, (_TABLE, index, "id"))
    taken = frozenset(rule.id for rule in load_rules().rules)
    mistakes = check_rules(rules, name, taken=taken)
    for problem in mistakes:
        yield RuleProblemFacts(
            rule=problem.rule, line=lines.get(problem.rule), problem=problem.text
        )
