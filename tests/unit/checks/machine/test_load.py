# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.checks.check import CheckStatus, UndeterminedError
from ci_doctor.checks.machine.load import CHECK, pressure_of
from ci_doctor.model.finding import Severity
from tests.support.checks import check_context
from tests.support.machine_trees import write_tree


def test_a_load_of_20_for_each_cpu_is_a_note_and_no_more(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"proc/loadavg": "99999.50 9 9 1/300 4000\n"})

    result = CHECK.run(check_context(tmp_path, root=root))

    assert result.status is CheckStatus.OK
    assert [each.finding.severity for each in result.problems] == [Severity.NOTE]


def test_processes_that_wait_for_memory_are_a_note(tmp_path: Path) -> None:
    some = "some avg10=34.50 avg60=9.00 avg300=1.00 total=5\nfull avg10=0.00 total=0\n"
    root = write_tree(
        tmp_path, {"proc/loadavg": "0.00 9 9 1/300 4000\n", "proc/pressure/memory": some}
    )

    result = CHECK.run(check_context(tmp_path, root=root))

    (finding,) = [each.finding for each in result.problems]
    assert finding.summary == "processes waited for memory in 34.5 % of the last ten seconds"
    assert finding.severity is Severity.NOTE


def test_a_kernel_without_pressure_figures_is_no_problem(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"proc/loadavg": "0.00 9 9 1/300 4000\n"})

    assert pressure_of(root / "proc/pressure/memory") is None
    assert CHECK.run(check_context(tmp_path, root=root)).status is CheckStatus.OK


def test_without_proc_the_load_is_unknown(tmp_path: Path) -> None:
    with pytest.raises(UndeterminedError):
        CHECK.run(check_context(tmp_path, root=tmp_path))
