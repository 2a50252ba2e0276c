# SPDX-License-Identifier: Apache-2.0
"""Reads a rules file of a repository, and says what is wrong with each of its rules."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from ci_doctor.config.toml_lines import line_of
from ci_doctor.diagnosis.log_rule import LogRule
from ci_doctor.diagnosis.rule_mistakes import rule_mistakes
from ci_doctor.diagnosis.rules import RULE_MISTAKE
from ci_doctor.errors import ConfigError
from ci_doctor.model.facts.diagnose import RuleCheckFacts, RuleProblemFacts
from ci_doctor.model.finding import Evidence, Finding
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.verdict import Verdict
from ci_doctor.render.formatting import amount

_TABLE = "rule"


class _Checked(Struct, frozen=True):
    rules: int
    problems: tuple[RuleProblemFacts, ...]


def check_outcome(path: Path) -> Outcome:
    """`pass` if all rules in the file at `path` are right, else `failed` with each mistake.

    Raises ConfigError if it cannot be read.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    checked = _checked(text)
    name = str(path)
    count = amount(checked.rules, "rule")
    if not checked.problems:
        verdict = Verdict.PASS
        summary = f"{name}: {count}, all examples hold"
    else:
        verdict = Verdict.FAILED
        summary = f"{name}: {count}, {amount(len(checked.problems), 'mistake')}"
    return Outcome(
        verdict=verdict,
        summary=summary,
        findings=tuple(_finding(name, problem) for problem in checked.problems),
        facts=RuleCheckFacts(file=name, rules=checked.rules, problems=checked.problems),
    )


def _finding(file: str, problem: RuleProblemFacts) -> Finding:
    evidence = Evidence(file=file, line=problem.line)
    return RULE_MISTAKE.finding(f"{problem.rule}: {problem.problem}", evidence=(evidence,))


def _checked(text: str) -> _Checked:
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        number = None if line is None else int(line[1])
        problem = RuleProblemFacts(rule="the file", line=number, problem=f"not TOML: {error}")
        return _Checked(0, (problem,))
    tables = content.get(_TABLE, [])
    problems = list(_problems_of_file(content, text))
    if isinstance(tables, list):
        for index, table in enumerate(tables):
            problems.extend(_problems_of_rule(table, index, text))
        problems.extend(_repeated_ids(tables, text))
        return _Checked(len(tables), tuple(problems))
    return _Checked(0, tuple(problems))


def _problems_of_file(content: dict[str, Any], text: str) -> Iterator[RuleProblemFacts]:
    for key in content:
        if key != _TABLE:
            line = line_of(text, (key,))
            yield RuleProblemFacts(rule="the file", line=line, problem=f"unknown key `{key}`")
    if not isinstance(content.get(_TABLE), list) or not content[_TABLE]:
        yield RuleProblemFacts(rule="the file", line=None, problem="no [[rule]] in it")


def _problems_of_rule(table: Any, index: int, text: str) -> Iterator[RuleProblemFacts]:
    name = f"rule {index + 1}"
    if isinstance(table, dict) and isinstance(table.get("id"), str):
        name = table["id"]
    line = line_of(text, (_TABLE, index, "id")) or line_of(text, (_TABLE, index))
    try:
        rule = msgspec.convert(table, LogRule)
    except msgspec.ValidationError as error:
        yield RuleProblemFacts(rule=name, line=line, problem=str(error))
        return
    for mistake in rule_mistakes(rule):
        yield RuleProblemFacts(rule=name, line=line, problem=mistake)


def _repeated_ids(tables: list[Any], text: str) -> Iterator[RuleProblemFacts]:
    known: set[str] = set()
    for index, table in enumerate(tables):
        name = table.get("id") if isinstance(table, dict) else None
        if not isinstance(name, str):
            continue
        if name in known:
            line = line_of(text, (_TABLE, index, "id"))
            yield RuleProblemFacts(rule=name, line=line, problem="another rule has this id")
        known.add(name)
