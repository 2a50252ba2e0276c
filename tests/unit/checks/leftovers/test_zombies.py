"""Processes that nobody waits for."""

import subprocess
import sys
from pathlib import Path

from ci_doctor.checks.check import CheckStatus
from ci_doctor.checks.leftovers.zombies import CHECK
from tests.support.checks import check_context

# A shell that becomes a sleeper does not wait for what it has started.
MANY = "for i in $(seq 25); do true & done; exec " + sys.executable + " -c 'print(); input()'"


def test_a_parent_that_does_not_wait_is_named(tmp_path: Path) -> None:
    with subprocess.Popen(
        ["sh", "-c", MANY], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        result = CHECK.run(check_context(tmp_path))

    (found,) = result.problems
    assert result.status is CheckStatus.OK
    assert found.finding.rule == "doctor/zombies"
    assert f"pid {parent.pid}" in found.finding.summary


def test_few_are_ok(tmp_path: Path) -> None:
    folder = tmp_path / "proc" / "7"
    folder.mkdir(parents=True)
    (tmp_path / "proc" / "uptime").write_text("9.0 9.0\n")
    (folder / "stat").write_text(f"7 (a) Z 1 {'0 ' * 15}1 0 100 0\n")
    (folder / "cmdline").write_text("")

    result = CHECK.run(check_context(tmp_path, root=tmp_path))

    assert (result.summary, result.problems) == ("1 zombie among 1 processes", ())
