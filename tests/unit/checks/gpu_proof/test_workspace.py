# SPDX-License-Identifier: Apache-2.0
"""The starts with and without the variable, with torch's stand-in."""

from pathlib import Path
from typing import Any

from ci_doctor.checks.check import CheckResult, CheckStatus
from ci_doctor.checks.gpu_proof.workspace import CHECK
from tests.support.gpu_proof import proof_context, write_nvidia_smi


def prove(tmp_path: Path, **behaviour: Any) -> CheckResult:
    write_nvidia_smi(tmp_path / "bin")
    return CHECK.run(proof_context(tmp_path / "bin", **behaviour))


def test_products_that_vary_only_without_the_variable_end_the_starts_early(tmp_path: Path) -> None:
    result = prove(tmp_path, varying="without")

    assert [each.finding.rule for each in result.problems] == ["doctor/workspace-needed"]
    assert (result.figures["starts_without"], result.figures["starts_with"]) == (6, 6)


def test_products_that_always_vary_end_the_starts_at_once_on_one_gpu_of_each_model(
    tmp_path: Path,
) -> None:
    result = prove(tmp_path, varying="always", devices=4)

    assert "GPU 1" not in result.summary
    assert [each.finding.rule for each in result.problems] == ["doctor/products-vary"]
    assert result.figures["starts_without"] == 3


def test_a_gpu_without_room_is_unknown_after_three_starts(tmp_path: Path) -> None:
    result = prove(tmp_path, no_room=True)

    assert result.status is CheckStatus.UNKNOWN


def test_one_start_that_dies_leaves_the_whole_unknown_and_the_others_counted(
    tmp_path: Path,
) -> None:
    result = prove(tmp_path, varying="always", dies_once=str(tmp_path / "died"))

    assert result.status is CheckStatus.UNKNOWN
    assert "illegal memory access" in (result.unknown or "")
    assert (result.figures["starts_without"], result.figures["starts_with"]) == (3, 4)
