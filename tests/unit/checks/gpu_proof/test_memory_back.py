# SPDX-License-Identifier: Apache-2.0
"""A process that takes memory and is killed, with torch's stand-in."""

from pathlib import Path

from ci_doctor.checks.gpu_proof.memory_back import CHECK

from ci_doctor.checks.check import CheckStatus
from tests.support.gpu_proof import proof_context, write_nvidia_smi

GIB = 2**30


def test_memory_is_back_and_the_time_since_the_kill_is_given(tmp_path: Path) -> None:
    write_nvidia_smi(tmp_path / "bin")

    result = CHECK.run(proof_context(tmp_path / "bin", free=4 * GIB))

    assert result.status is CheckStatus.OK, result
    assert result.figures["held_bytes"] == 2 * GIB
    within = result.figures["back_within_s"]
    assert isinstance(within, float)
    assert within > 0


def test_a_gpu_without_room_is_unknown(tmp_path: Path) -> None:
    write_nvidia_smi(tmp_path / "bin")

    result = CHECK.run(proof_context(tmp_path / "bin", no_room=True))

    assert result.status is CheckStatus.UNKNOWN


def test_little_free_memory_is_unknown(tmp_path: Path) -> None:
    write_nvidia_smi(tmp_path / "bin")

    result = CHECK.run(proof_context(tmp_path / "bin", free=2**20))

    assert result.status is CheckStatus.UNKNOWN
    assert "were free to be taken" in result.summary
