# SPDX-License-Identifier: Apache-2.0
import errno
import json
from pathlib import Path

import click
import pytest

from ci_doctor.commands.failure import describe, fail
from ci_doctor.commands.invocation import Invocation
from ci_doctor.errors import ConfigError, InfraError, PreparationError, Terminated, UsageError
from ci_doctor.model.finding import Finding, Severity

INVOCATION = Invocation.begin(["config", "show"])


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("m"), 2),
        (ConfigError("m"), 2),
        (PreparationError("m"), 1),
        (InfraError("m"), 75),
        (click.UsageError("M."), 2),
        (click.BadParameter("M"), 2),
        (click.FileError("f"), 2),
        (KeyboardInterrupt(), 130),
        (click.Abort(), 130),
        (Terminated(), 143),
        (OSError(errno.ENOSPC, "full"), 75),
        (OSError(errno.EIO, "broken"), 70),
        (OSError(errno.ENAMETOOLONG, "File name too long", "aaa"), 2),
        (PermissionError(errno.EACCES, "Permission denied", "/root/x"), 2),
        (PermissionError(errno.EPERM, "Operation not permitted"), 70),
        (ValueError("m"), 70),
        (SystemExit(0), 70),
        (MemoryError(), 70),
        (RecursionError(), 70),
    ],
)
def test_every_error_has_its_documented_code(error: BaseException, code: int) -> None:
    failure, found = describe(error, INVOCATION)
    assert found == code
    assert failure.message
    assert not failure.message.endswith(".")
    assert (failure.detail is not None) == (code == 70)


def test_a_bug_is_told_so_that_it_can_be_pasted() -> None:
    error = ValueError("on purpose")
    error.__cause__ = KeyError("first")
    failure, _ = describe(error, INVOCATION)
    assert failure.detail is not None
    for part in (
        "ci-doctor ",
        "Python 3",
        "command: ci-doctor config show",
        "ValueError: on purpose",
        "KeyError: 'first'",
    ):
        assert part in failure.detail
    assert "nothing about your change" in str(failure.hint)


@pytest.mark.parametrize(
    ("command", "near", "hint"),
    [
        ("setup-env", ["--project"], "did you mean --project?"),
        ("run", [], "after `--`"),
        ("setup-env", [], "--help"),
    ],
)
def test_an_unknown_option_comes_with_what_to_do(command: str, near: list[str], hint: str) -> None:
    error = click.NoSuchOption("--projct", possibilities=near)
    failure, _ = describe(error, Invocation.begin([command]))
    assert hint in str(failure.hint)


class TestFailing:
    def test_the_report_has_no_verdict_and_keeps_the_findings(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        finding = Finding(rule="a/b", severity=Severity.ERROR, summary="s")
        invocation = Invocation.begin(["config", "show", "--report-dir", str(tmp_path)])
        assert fail(PreparationError("m", hint="h", findings=(finding,)), invocation) == 1
        written = json.loads((tmp_path / "report.json").read_text())
        assert (written["verdict"], written["error"]["message"], written["exit_code"]) == (
            None,
            "m",
            1,
        )
        assert [each["rule"] for each in written["findings"]] == ["a/b"]
        assert "hint: h" in capsys.readouterr().err

    @pytest.mark.parametrize("below", ["", "/below"])
    def test_a_report_directory_that_cannot_be_is_no_second_error(
        self, below: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "file").write_text("")
        invocation = Invocation.begin(["config", "show", "--report-dir", f"{tmp_path}/file{below}"])
        assert fail(UsageError("what happened"), invocation) == 2
        assert "what happened" in capsys.readouterr().err

    def test_other_commands_print_nothing_to_evaluate(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        fail(UsageError("m"), INVOCATION)
        assert capsys.readouterr().out == ""
