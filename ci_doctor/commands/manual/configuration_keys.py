# SPDX-License-Identifier: Apache-2.0
"""Pure. The environment variable of each key of the configuration, with its default."""

import json
from collections.abc import Iterator
from enum import Enum
from typing import Any

import msgspec

from ci_doctor.config.decoding import variable_name
from ci_doctor.config.exit_codes import ExitCodes
from ci_doctor.configuration import SETTINGS, key_description


def configuration_keys() -> dict[str, tuple[str, str, str]]:
    """By variable: the key, its default as TOML writes it (empty without one), and its meaning."""
    return dict(_keys())


def _keys() -> Iterator[tuple[str, tuple[str, str, str]]]:
    sections: dict[str, type[msgspec.Struct]] = {**SETTINGS, "exit-codes": ExitCodes}
    for section, kind in sections.items():
        for field in msgspec.structs.fields(kind):
            meaning = key_description(section, field.encode_name) or ""
            key = f"[{section}] {field.encode_name}"
            name = variable_name(section, field.encode_name)
            yield name, (key, _default(field), meaning)


def _default(field: Any) -> str:
    value = field.default
    if value is msgspec.NODEFAULT and field.default_factory is not msgspec.NODEFAULT:
        value = field.default_factory()
    if value is msgspec.NODEFAULT or value is None or value in ((), [], {}):
        return ""
    if isinstance(value, Enum):
        value = value.value
    return json.dumps(msgspec.to_builtins(value), ensure_ascii=False)
