# SPDX-License-Identifier: Apache-2.0
"""The table of environment variables holds what the code reads, and nothing else."""

import pytest

from ci_doctor.commands.listing import COMMANDS
from docs.site import variables
from docs.site.reference_pages import configuration_keys
from tests.support.read_variables import read_by_hooks, read_by_python

LISTED = {
    *variables.SWITCHES,
    *variables.OF_THE_JOB,
    *variables.OF_THE_PLUGIN,
    *variables.OF_THE_MACHINE,
    *variables.OF_OTHER_PROGRAMS,
    *variables.OWN,
}
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


@pytest.mark.slow
def test_the_variables_that_are_listed_are_those_that_the_code_reads() -> None:
    read = read_by_python()

    assert {name: read[name] for name in set(read) - LISTED - NOT_READ} == {}
    assert LISTED - set(read) - read_by_hooks() == set()


def test_every_variable_that_the_hooks_of_the_plugin_read_is_listed() -> None:
    assert read_by_hooks() - LISTED == OF_ONE_HOOK


def test_no_variable_is_listed_twice() -> None:
    tables = (
        variables.SWITCHES,
        variables.OF_THE_JOB,
        variables.OF_THE_PLUGIN,
        variables.OF_THE_MACHINE,
        variables.OF_OTHER_PROGRAMS,
        variables.OWN,
        configuration_keys(),
    )

    assert sum(map(len, tables)) == len({name for table in tables for name in table})


def test_the_commands_that_read_one_are_commands() -> None:
    named = {command for row in variables.SWITCHES.values() for command in row.commands}

    assert named <= set(COMMANDS)
