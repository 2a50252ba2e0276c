# SPDX-License-Identifier: Apache-2.0
"""Reads the rule files that ship with ci-doctor."""

from pathlib import Path

import msgspec
import tomli  # compiled: three times as fast as tomllib, which would be half of a short diagnosis
from msgspec import Struct

from ci_doctor.diagnosis.log_rule import LogRule
from ci_doctor.errors import ConfigError

# Not by importlib.resources, whose import takes longer than to read the files.
_FOLDER = Path(__file__).with_name("rules")


class RuleFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of one TOML file: `[[rule]]` tables."""

    rule: tuple[LogRule, ...] = ()


def house_rules() -> tuple[LogRule, ...]:
    """The rules of `diagnosis/rules/*.toml`, by name of file and in the order of each file."""
    rules: list[LogRule] = []
    for file in sorted(_FOLDER.glob("*.toml")):
        rules.extend(parse_rules(file.read_text("utf-8"), file.name))
    return tuple(rules)


def parse_rules(text: str, name: str) -> tuple[LogRule, ...]:
    """The rules in the TOML `text` of the file `name`; raises ConfigError if it has a mistake."""
    try:
        content = tomli.loads(text)
        return msgspec.convert(content, RuleFile).rule
    except (tomli.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ConfigError(f"{name}: {error}") from error
