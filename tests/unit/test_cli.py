# SPDX-License-Identifier: Apache-2.0
"""The table of commands; what a run of the command line does is in tests/integration/test_cli.py."""

import signal

import click
import pytest

from ci_doctor import cli
from ci_doctor.commands.listing import COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_the_table_is_there_under_its_name(name: str) -> None:
    command = cli.root.get_command(click.Context(cli.root), name)
    assert command is not None
    assert command.name == name


@pytest.mark.parametrize("name", [name for name, (group, _) in COMMANDS.items() if group])
def test_every_command_of_the_table_is_in_a_group_of_the_help(name: str) -> None:
    shown = cli.root.get_help(click.Context(cli.root))
    assert f"\n  {name} " in shown


def test_the_handler_of_sigterm_is_put_back(capsys: pytest.CaptureFixture[str]) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    assert cli.main(["--version"]) == 0
    assert cli.main(["nonsense"]) == 2
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before
    assert capsys.readouterr().out.startswith("ci-doctor ")
