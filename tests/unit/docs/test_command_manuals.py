# SPDX-License-Identifier: Apache-2.0
"""Documentation read from the commands."""

import click
import pytest

from ci_doctor.cli import root
from ci_doctor.commands.listing import COMMANDS
from docs.site.command_manuals import command_at, manuals
from tests.support.example_lines import option_names

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
