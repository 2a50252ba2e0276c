# SPDX-License-Identifier: Apache-2.0
import json
from pathlib import Path

import click
import pytest

from ci_doctor.commands.exports_output import print_failing_statement
from ci_doctor.commands.failure import fail
from ci_doctor.commands.run import run
from ci_doctor.commands.setup_env import setup_env
from ci_doctor.errors import UsageError
from ci_doctor.session.invocation import Invocation
from ci_doctor.session.session import Session


@pytest.mark.parametrize(
    ("argv", "statement"),
    [
        (("setup-env", "--nonsense"), "(exit 2)\n"),
        (("setup_env",), "(exit 2)\n"),
        (("set-env",), "(exit 2)\n"),
        (("--json", "setup-env"), ""),
        (("plugin", "pre-command"), "(exit 2)\n"),
        (("setup-env", "--dry-run=true"), "(exit 2)\n"),
        (("setup-env", "--json=1"), "(exit 2)\n"),
        (("plugin", "pre-command", "--json=1"), "(exit 2)\n"),
        (("config", "show"), ""),
        (("setup-env", "--format", "dotenv"), ""),
        (("settings",), ""),
        (("env",), ""),
        (("explain", "setup-env"), ""),
    ],
)
def test_only_what_a_shell_evaluates_gets_a_statement_that_fails(
    argv: tuple[str, ...], statement: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    print_failing_statement(argv, 2)

    assert capfdbinary.readouterr().out.decode() == statement


def test_with_output_earlier_exports_are_replaced_or_deleted_in_another_format(
    tmp_path: Path,
) -> None:
    exports = tmp_path / "exports"
    exports.write_text("export A=1\n")

    print_failing_statement(("setup-env", "--nonsense", "--output", str(exports)), 2)

    assert exports.read_text() == "(exit 2)\n"
    print_failing_statement(("setup-env", "--format", "dotenv", "--output", str(exports)), 2)
    assert not exports.exists()


def a_session(*argv: str) -> Session:
    return Session(Invocation.begin(argv))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (click.UsageError("M."), 2),
        (click.BadParameter("M"), 2),
        (click.FileError("f"), 2),
        (click.Abort(), 130),
    ],
)
def test_an_error_of_clicks_has_its_documented_code(error: BaseException, code: int) -> None:
    assert fail(error, a_session("config", "show")) == code


@pytest.mark.parametrize(
    ("command", "option", "hint"),
    [
        (setup_env, "--projct", "did you mean --project?"),
        (setup_env, "--frobnicate", "see `ci-doctor setup-env --help`"),
        (setup_env, "--budget", "--budget is an option of `ci-doctor"),
        (run, "--frobnicate", "after `--`"),
    ],
)
def test_an_unknown_option_comes_with_what_to_do(
    command: click.Command, option: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    context = click.Context(command, info_name=f"ci-doctor {command.name}")

    fail(click.NoSuchOption(option, ctx=context), a_session(str(command.name)))

    assert hint in " ".join(capsys.readouterr().err.split())


def test_a_line_that_cannot_be_parsed_still_says_where_its_report_goes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = str(tmp_path / "r")
    session = a_session("wait", "--nonsense", "--json", "--report-dir", directory, "--", "--x")

    fail(click.NoSuchOption("--nonsense"), session)

    assert json.loads(capsys.readouterr().out)["exit_code"] == 2
    assert (tmp_path / "r" / "report.json").exists()


def test_other_commands_print_nothing_to_evaluate(capsys: pytest.CaptureFixture[str]) -> None:
    fail(UsageError("m"), a_session("config", "show"))

    assert capsys.readouterr().out == ""
