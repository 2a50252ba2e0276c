# SPDX-License-Identifier: Apache-2.0
"""The table of commands; what a run of the command line does is in tests/integration/test_cli.py."""

import importlib
import os
import signal
from pathlib import Path

import click
import pytest

from ci_doctor import cli
from ci_doctor.commands.listing import BELOW, COMMANDS, GROUPS, SUBJECTS
from tests.support.tracked_files import tracked_files


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_the_table_is_there_under_its_name(name: str) -> None:
    command = cli.root.get_command(click.Context(cli.root), name)
    assert command is not None
    assert command.name == name


@pytest.mark.parametrize("name", [name for name, (group, _) in COMMANDS.items() if group in GROUPS])
def test_every_command_of_the_table_is_in_a_group_of_the_help(name: str) -> None:
    shown = cli.root.get_help(click.Context(cli.root))
    assert f"\n  {name} " in shown


def test_at_most_twenty_names_stand_in_the_help() -> None:
    assert len([group for group, _ in COMMANDS.values() if group in GROUPS]) <= 20
    assert "`ci-doctor preload`" in str(_command("setup-env").epilog)


def _command(line: str) -> click.Command:
    command: click.Command | None = cli.root
    for word in line.split():
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), word)
    assert command is not None
    return command


@pytest.mark.parametrize("name", [name for name, (group, _) in COMMANDS.items() if group])
def test_the_table_of_commands_below_another_one_holds_all_of_them(name: str) -> None:
    def below(line: str) -> dict[str, tuple[str, ...]]:
        command = _command(line)
        named = tuple(getattr(command, "below", {}))
        if not isinstance(command, click.Group):
            return {line: named} if named else {}
        names = command.list_commands(click.Context(command))
        found = {line: (*names, *named)}
        for each in names:
            found |= below(f"{line} {each}")
        return found

    listed = {line: names for line, names in BELOW.items() if line.split()[0] == name}
    assert below(name) == listed


@pytest.mark.parametrize(("group", "word"), [(g, w) for g, words in BELOW.items() for w in words])
def test_a_name_that_is_a_subcommand_elsewhere_leads_there(
    group: str, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if word in COMMANDS:
        return
    assert cli.main([word]) == 2
    assert f"`ci-doctor {group} {word}`" in capsys.readouterr().err


# They are about the project, or about all commands.
_OF_NO_COMMAND = {"design", "install", "recipes", "releasing", "tutorial"}


def test_the_name_of_each_page_leads_to_a_command() -> None:
    # The pages that are built with the site have other doors.
    tracked = map(Path, tracked_files())
    pages = {each.stem for each in tracked if each.match("docs/*.md")}
    below = {word for words in BELOW.values() for word in words}
    assert pages - _OF_NO_COMMAND <= {*COMMANDS, *below, *SUBJECTS}
    for line in (line for lines in SUBJECTS.values() for line in lines):
        group, _, word = line.partition(" ")
        assert group in COMMANDS
        assert not word or word in BELOW[group]


def test_a_slip_in_the_name_of_a_subcommand_leads_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["flakey"]) == 2
    assert "`ci-doctor history flaky`" in capsys.readouterr().err


SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_while_a_command_is_loaded_ends_it_with_a_report(
    number: signal.Signals,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    def arrives(*_: object) -> None:
        os.kill(os.getpid(), number)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "import_module", arrives)
    before = [signal.getsignal(each) for each in SIGNALS]
    # Where the handler is missing, the signal must end no test.
    for each in SIGNALS:
        signal.signal(each, lambda *_: None)
    try:
        assert cli.main(["launch"]) == 143
    finally:
        for each, handler in zip(SIGNALS, before, strict=True):
            signal.signal(each, handler)
    assert f"terminated ({number.name})" in capsys.readouterr().err


def test_a_hangup_that_nohup_has_ignored_stays_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def arrives(name: str) -> object:
        os.kill(os.getpid(), signal.SIGHUP)
        return importlib.import_module(name)

    monkeypatch.setattr(cli, "import_module", arrives)
    try:
        assert cli.main(["launch", "--help"]) == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_the_handler_of_sigterm_is_put_back(capsys: pytest.CaptureFixture[str]) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    assert cli.main(["--version"]) == 0
    assert cli.main(["nonsense"]) == 2
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before
    assert capsys.readouterr().out.startswith("ci-doctor ")
