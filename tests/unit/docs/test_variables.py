# SPDX-License-Identifier: Apache-2.0
"""The table of environment variables holds what the code reads, and the documentation is that of the commands and of the keys."""

import tomllib
from typing import Any

import click
import msgspec
import pytest

from ci_doctor.cli import root
from ci_doctor.commands.listing import COMMANDS
from ci_doctor.config.decoding import ExitCodes, decode_section
from ci_doctor.config.loading import Config
from ci_doctor.configuration import SETTINGS, reference_text
from docs.site import variables
from docs.site.command_manuals import command_at, manuals
from docs.site.reference_pages import configuration_keys
from tests.support.example_lines import option_names
from tests.support.read_variables import read_by_hooks, read_by_python

TABLES = (
    *(variables.SWITCHES, variables.OF_THE_JOB, variables.OF_THE_PLUGIN),
    *(variables.OF_THE_MACHINE, variables.OF_OTHER_PROGRAMS, variables.OWN),
)
LISTED = {name for table in TABLES for name in table}
# Set for a process and never read, or no name of a variable of ours.
NOT_READ = {
    "COVERAGE_FILE",
    "GIT_OPTIONAL_LOCKS",
    "FLASK_APP",  # of a server that `init` proposes
    "GITHUB_PAT",  # in the patterns of secrets
    "MODEL_ID",  # of a server that `init` proposes
    "CUBLAS_WORKSPACE_CONFIG",  # what a constant is called that other modules have, too
}
# A shell variable: the library sets it before it reads it.
OF_ONE_HOOK = {"CI_DOCTOR_VENV_DIR"}


def test_the_variables_that_are_listed_are_those_that_the_code_reads() -> None:
    read = read_by_python()

    assert {name: read[name] for name in set(read) - LISTED - NOT_READ} == {}
    assert LISTED - set(read) - read_by_hooks() == set()


def test_every_variable_that_the_hooks_of_the_plugin_read_is_listed() -> None:
    assert read_by_hooks() - LISTED == OF_ONE_HOOK


def test_no_variable_is_listed_twice() -> None:
    keys = configuration_keys()

    assert sum(map(len, (*TABLES, keys))) == len({*LISTED, *keys})


def test_the_commands_that_read_one_are_commands() -> None:
    named = {command for row in variables.SWITCHES.values() for command in row.commands}

    assert named <= set(COMMANDS)


MANUALS = {manual.words: manual for manual in manuals(root)}


def test_every_command_that_people_type_has_one() -> None:
    first = {words[1] for words in MANUALS if len(words) > 1}

    assert first == {name for name, (group, _) in COMMANDS.items() if group}


def test_words_that_a_command_takes_for_commands_have_one() -> None:
    assert {
        ("ci-doctor", "diagnose", "rules"),
        ("ci-doctor", "import-race", "probe"),
        ("ci-doctor", "history", "quarantine", "suggest"),
    } <= set(MANUALS)


def test_every_option_stands_in_it() -> None:
    context = click.Context(root, info_name="ci-doctor", **root.context_settings)
    for words, manual in MANUALS.items():
        command = command_at(context, words[1:]).command
        listed = {name for group in manual.options for each in group.options for name in each.names}
        assert {*option_names(command), "-h", "--help"} == listed, manual.page


def test_an_option_says_which_key_and_variable_it_overrides() -> None:
    manual = MANUALS["ci-doctor", "correctness"]
    options = {each.names[0]: each for group in manual.options for each in group.options}

    retries = options["--retries"]
    assert retries.key == "[correctness] retries"
    assert retries.variable == "CI_DOCTOR_CORRECTNESS_RETRIES"
    assert (retries.default, retries.value) == ("3", "N")
    assert options["--only"].key is None


def test_the_default_of_a_condition_says_the_condition() -> None:
    manual = MANUALS["ci-doctor", "history", "ingest"]
    options = {each.names[0]: each for group in manual.options for each in group.options}

    assert options["--about"].default == "that job in a Buildkite job"


def test_exit_codes_are_those_of_the_command_and_those_of_every_command() -> None:
    exits = MANUALS["ci-doctor", "wait"].exits

    assert list(exits) == [0, 1, 2, 70, 75, 130, 143]
    assert exits[1] == "Died, or not ready in time."
    assert exits[70].startswith("A bug in ci-doctor")


def test_a_part_of_the_tree_is_read_alone() -> None:
    pages = [manual.page for manual in manuals(root, ("env",))]

    assert pages == ["ci-doctor-env", "ci-doctor-env-snapshot", "ci-doctor-env-diff"]


def test_a_command_that_there_is_not_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        list(manuals(root, ("env", "snapshots")))


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
