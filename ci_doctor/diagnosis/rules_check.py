# SPDX-License-Identifier: Apache-2.0
"""Reads a rules file of a repository, and makes an outcome of what is wrong with its rules."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from ci_doctor.config.toml_lines import line_of
from ci_doctor.diagnosis.log_rule import LogRule
from ci_doctor.diagnosis.rule_checks import check_rules
from ci_doctor.diagnosis.rule_files import house_rules
from ci_doctor.diagnosis.rules import RULE_MISTAKE
from ci_doctor.errors import ConfigError
from ci_doctor.model.facts.diagnose import RuleCheckFacts, RuleProblemFacts
from ci_doctor.model.finding import Evidence, Finding, Severity
from ci_doctor.model.outcome import Outcome
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
    rules, problems = _checked(text, name)
    mistakes = [each for each in problems if each.is_mistake]
    if mistakes:
        verdict = Verdict.FAILED
        end = amount(len(mistakes), "mistake")
    else:
        verdict = Verdict.PASS
        end = "all examples hold"
    return Outcome(
        verdict=verdict,
        summary=f"{name}: {amount(rules, 'rule')}, {end}",
        findings=tuple(_finding(name, problem) for problem in problems),
        facts=RuleCheckFacts(file=name, rules=rules, problems=tuple(problems)),
    )


def _finding(file: str, problem: RuleProblemFacts) -> Finding:
    return RULE_MISTAKE.finding(
        f"{problem.rule}: {problem.problem}",
        evidence=(Evidence(file=file, line=problem.line),),
        severity=Severity.ERROR if problem.is_mistake else Severity.WARNING,
    )


def _checked(text: str, name: str) -> tuple[int, list[RuleProblemFacts]]:
    """How many rules there are, and what is wrong with them."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        number = None if line is None else int(line[1])
        return 0, [RuleProblemFacts(rule=_FILE, line=number, problem=f"not TOML: {error}")]
    problems = [*_problems_of_file(content, text), *_wrong_fields(content, text)]
    tables = content.get(_TABLE)
    count = len(tables) if isinstance(tables, list) else 0
    if not problems:
        problems.extend(_problems_of_rules(text, name))
    return count, problems


def _problems_of_file(content: dict[str, Any], text: str) -> Iterator[RuleProblemFacts]:
    for key in content:
        if key != _TABLE:
            line = line_of(text, (key,))
            yield RuleProblemFacts(rule=_FILE, line=line, problem=f"unknown key `{key}`")
    if not isinstance(content.get(_TABLE), list) or not content[_TABLE]:
        yield RuleProblemFacts(rule=_FILE, line=None, problem="no [[rule]] in it")


def _wrong_fields(content: dict[str, Any], text: str) -> Iterator[RuleProblemFacts]:
    """Rules that cannot be decoded, each by itself: one must not hide the others."""
    tables = content.get(_TABLE)
    if not isinstance(tables, list):
        return
    for index, table in enumerate(tables):
        try:
            msgspec.convert(table, LogRule)
        except msgspec.ValidationError as error:
            name = f"rule {index + 1}"
            if isinstance(table, dict) and isinstance(table.get("id"), str):
                name = table["id"]
            line = line_of(text, (_TABLE, index, "id"))
            yield RuleProblemFacts(rule=name, line=line, problem=str(error))


def _problems_of_rules(text: str, name: str) -> Iterator[RuleProblemFacts]:
    lines = {}
    for index, table in enumerate(tomllib.loads(text)[_TABLE]):
        # The last of several rules with one id: it is the one to rename.
        lines[table["id"]] = line_of(text, (_TABLE, index, "id"))
    taken = frozenset(rule.id for rule in house_rules())
    for problem in check_rules(text, name, taken=taken):
        yield RuleProblemFacts(
            rule=problem.rule or _FILE,
            line=lines.get(problem.rule),
            problem=problem.text,
            is_mistake=problem.is_mistake,
        )
