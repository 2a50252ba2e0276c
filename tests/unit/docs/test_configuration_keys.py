# SPDX-License-Identifier: Apache-2.0
"""The environment variables of configuration keys."""

import tomllib
from typing import Any

import msgspec
import pytest

from ci_doctor.config.decoding import ExitCodes, decode_section
from ci_doctor.config.loading import Config
from ci_doctor.configuration import SETTINGS, reference_text
from docs.site.reference_pages import configuration_keys

TYPES: dict[str, type[msgspec.Struct]] = {**SETTINGS, "exit-codes": ExitCodes}
KEYS = configuration_keys()
EXAMPLE: dict[str, dict[str, Any]] = tomllib.loads(reference_text())


def test_every_key_has_one_and_a_meaning() -> None:
    expected = {
        f"[{section}] {field.encode_name}"
        for section, kind in TYPES.items()
        for field in msgspec.structs.fields(kind)
    }

    assert {key for key, _, _ in KEYS.values()} == expected
    assert [name for name, (_, _, meaning) in KEYS.items() if not meaning] == []


@pytest.mark.parametrize("variable", KEYS)
def test_a_variable_with_the_value_of_the_example_sets_its_key(variable: str) -> None:
    section, _, key = KEYS[variable][0].removeprefix("[").partition("] ")
    value = EXAMPLE[section][key]
    # A list or a table is JSON, and all else is written as it is.
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()

    _, origins = decode_section(
        Config(path=None, tables={}), section, TYPES[section], environ={variable: text}, flags={}
    )

    assert origins[key] == f"environment {variable}"


def test_a_default_is_written_as_toml_has_it() -> None:
    assert KEYS["CI_DOCTOR_CORRECTNESS_RETRIES"][:2] == ("[correctness] retries", "3")
    assert KEYS["CI_DOCTOR_SETUP_ENV_DETERMINISM"][1] == '"default"'
    assert KEYS["CI_DOCTOR_CACHE_STORE"][1] == ""
    assert KEYS["CI_DOCTOR_EXIT_CODES_INFRA"][1] == "75"
