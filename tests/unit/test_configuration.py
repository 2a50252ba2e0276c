"""The schema for editors knows every key that ci-doctor knows, and what it means."""

import tomllib

import jsonschema
import msgspec
import pytest

from ci_doctor.config.decoding import ExitCodes
from ci_doctor.config.loading import SECTIONS
from ci_doctor.configuration import (
    SETTINGS,
    configuration_schema,
    description,
    key_description,
    reference_text,
)
from ci_doctor.services.spec import ServiceSpec

TYPES: dict[str, type[msgspec.Struct]] = {
    **SETTINGS,
    "exit-codes": ExitCodes,
    "services": ServiceSpec,
}
SCHEMA = configuration_schema()
VALIDATOR = jsonschema.Draft7Validator(SCHEMA)


def problems(text: str) -> list[str]:
    return [error.message for error in VALIDATOR.iter_errors(tomllib.loads(text))]


def test_it_is_a_valid_schema_of_every_section() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)

    assert set(SCHEMA["properties"]) == set(SECTIONS) == set(TYPES)


def test_the_example_of_every_section_is_valid() -> None:
    assert problems(reference_text()) == []


@pytest.mark.parametrize("section", sorted(TYPES))
def test_every_key_says_what_it_means(section: str) -> None:
    keys = [field.encode_name for field in msgspec.structs.fields(TYPES[section])]

    assert [key for key in keys if key_description(section, key) is None] == []


@pytest.mark.parametrize(
    "text",
    [
        "[correctnes]",
        "[correctness]\nretires = 3",
        '[correctness]\nretries = "three"',
        '[correctness]\ncaches = "cold"',
        "[services.vllm]\ncommnd = 'x'",
        '[correctness.baseline]\nservice = ["a"]',
    ],
)
def test_a_mistake_is_underlined(text: str) -> None:
    assert problems(text) != []


def test_null_is_no_choice_because_toml_has_none() -> None:
    assert '"null"' not in msgspec.json.encode(SCHEMA).decode()


def test_a_key_that_the_example_lacks_has_no_description() -> None:
    assert description("correctness", "retires") is None
    assert description("correctness", "retries") is not None
