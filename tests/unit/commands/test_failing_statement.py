# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.commands.exports_output import print_failing_statement


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


def test_with_output_the_statement_replaces_earlier_exports(tmp_path: Path) -> None:
    exports = tmp_path / "exports"
    exports.write_text("export A=1\n")

    print_failing_statement(("setup-env", "--nonsense", "--output", str(exports)), 2)

    assert exports.read_text() == "(exit 2)\n"


def test_exports_in_another_format_are_deleted(tmp_path: Path) -> None:
    exports = tmp_path / "exports"
    exports.write_text("A=1\n")

    print_failing_statement(("setup-env", "--format", "dotenv", "--output", str(exports)), 2)

    assert not exports.exists()
