# SPDX-License-Identifier: Apache-2.0
"""Reads the rule files of a repository."""

from collections.abc import Collection, Sequence
from pathlib import Path

from ci_doctor.diagnosis.log_rule import LogRule
from ci_doctor.diagnosis.rule_checks import check_rules
from ci_doctor.diagnosis.rule_files import parse_rules
from ci_doctor.errors import ConfigError


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
