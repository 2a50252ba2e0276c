# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.checks.check import CheckStatus, UndeterminedError
from ci_doctor.checks.machine.umask import CHECK
from ci_doctor.model.finding import Severity
from tests.support.checks import check_context
from tests.support.machine_trees import write_tree


@pytest.mark.parametrize(
    ("mask", "severities"),
    [
        ("0022", []),
        ("0077", []),
        ("0002", []),
        ("0000", [Severity.NOTE]),
        ("0777", [Severity.WARNING]),
        ("0122", [Severity.WARNING]),
    ],
)
def test_a_mask_that_closes_files_to_their_owner_warns(
    tmp_path: Path, mask: str, severities: list[Severity]
) -> None:
    root = write_tree(tmp_path, {"proc/self/status": f"Name:\tx\nUmask:\t{mask}\n"})

    result = CHECK.run(check_context(tmp_path, root=root))

    assert [each.finding.severity for each in result.problems] == severities
    assert result.figures == {"umask": mask[1:]}


def test_the_mask_of_this_process_is_read_and_not_changed(tmp_path: Path) -> None:
    result = CHECK.run(check_context(tmp_path))

    assert result.status is not CheckStatus.UNKNOWN
    assert CHECK.run(check_context(tmp_path)).figures == result.figures


def test_a_kernel_that_does_not_name_it_is_unknown(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"proc/self/status": "Name:\tx\n"})

    with pytest.raises(UndeterminedError):
        CHECK.run(check_context(tmp_path, root=root))
