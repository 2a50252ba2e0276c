# SPDX-License-Identifier: Apache-2.0
"""Reads the rule files that ship with ci-doctor."""

import tomllib
from importlib import resources

import msgspec
from msgspec import Struct

from ci_doctor.diagnosis.log_rule import LogRule
from ci_doctor.errors import ConfigError


class RuleFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of one TOML file: `[[rule]]` tables."""

    rule: tuple[LogRule, ...] = ()


def house_rules() -> tuple[LogRule, ...]:
    """The rules of `diagnosis/rules/*.toml`, by name of file and in the order of each file."""
    folder = resources.files("ci_doctor.diagnosis") / "rules"
    files = [each for each in folder.iterdir() if each.name.endswith(".toml")]
    rules: list[LogRule] = []
    for file in sorted(files, key=lambda each: each.name):
        rules.extend(parse_rules(file.read_text("utf-8"), file.name))
    return tuple(rules)


def parse_rules(text: str, name: str) -> tuple[LogRule, ...]:
    """The rules in the TOML `text` of the file `name`; raises ConfigError if it has a mistake."""
    try:
        content = tomllib.loads(text)
        return msgspec.convert(content, RuleFile).rule
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ConfigError(f"{name}: {error}") from error
