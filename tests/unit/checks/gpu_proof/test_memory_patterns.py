# SPDX-License-Identifier: Apache-2.0
"""Patterns in a GPU's memory, with torch's stand-in."""

from pathlib import Path
from typing import Any

import pytest
from ci_doctor.checks.gpu_proof.memory_patterns import CHECK

from ci_doctor.checks.check import CheckResult, CheckStatus
from tests.support.gpu_proof import proof_context, write_nvidia_smi

GIB = 2**30


def prove(tmp_path: Path, answers: dict[str, str] | None = None, **behaviour: Any) -> CheckResult:
    write_nvidia_smi(tmp_path / "bin", answers)
    return CHECK.run(proof_context(tmp_path / "bin", **{"free": 4 * GIB, **behaviour}))


def test_memory_that_keeps_what_is_written(tmp_path: Path) -> None:
    result = prove(tmp_path)

    assert result.status is CheckStatus.OK
    assert result.figures["tested_bytes"] == 3 * GIB
    assert result.summary.endswith("ECC counts on GPU 0 of nvidia-smi")


def test_memory_that_does_not(tmp_path: Path) -> None:
    result = prove(tmp_path, flips=True)

    assert [each.finding.rule for each in result.problems] == ["doctor/gpu-memory-corrupt"]


def test_beside_others_little_is_taken(tmp_path: Path) -> None:
    uuid = "GPU-00000000-0000-0000-0000-000000000000"

    result = prove(tmp_path, {"uuid,memory.used": f"{uuid}, 60000"})

    assert result.figures["tested_bytes"] == GIB


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        pytest.param("GPU-a, 0, [N/A], [N/A], [N/A]", "no GPU has ECC", id="no-ecc"),
        pytest.param("GPU-a, 0, Disabled, [N/A], [N/A]", "no GPU has ECC", id="off"),
    ],
)
def test_a_card_without_ecc_is_ok(tmp_path: Path, answer: str, words: str) -> None:
    result = prove(tmp_path, {"ecc.mode": answer})

    assert result.status is CheckStatus.OK
    assert words in result.summary


def test_little_free_memory_is_unknown(tmp_path: Path) -> None:
    assert prove(tmp_path, free=2**20).status is CheckStatus.UNKNOWN
