# SPDX-License-Identifier: Apache-2.0
"""Copies between GPUs, with torch's stand-in."""

from pathlib import Path
from typing import Any

from ci_doctor.checks.gpu_proof.peer_access import CHECK

from ci_doctor.checks.check import CheckResult, CheckStatus
from tests.support.gpu_proof import proof_context, write_nvidia_smi

TWO = "0, GPU-00000000-0000-0000-0000-000000000000, NVIDIA H200, 4\n1, GPU-00000000-0000-0000-0000-000000000001, NVIDIA H200, 4"
NVLINK = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV18\t0-15\nGPU1\tNV18\t X \t0-15"


def prove(tmp_path: Path, **behaviour: Any) -> CheckResult:
    write_nvidia_smi(tmp_path / "bin", {"memory.used": TWO, "topo": NVLINK})
    return CHECK.run(proof_context(tmp_path / "bin", **{"devices": 2, **behaviour}))


def test_two_gpus_with_access(tmp_path: Path) -> None:
    result = prove(tmp_path)

    assert result.status is CheckStatus.OK
    assert result.summary.startswith("2 of 2 pairs of GPUs have peer access, 2 NVLink")


def test_nvlink_without_access(tmp_path: Path) -> None:
    result = prove(tmp_path, no_peers=True)

    assert [each.finding.rule for each in result.problems] == ["doctor/peer-access-missing"]


def test_copies_that_arrive_otherwise(tmp_path: Path) -> None:
    result = prove(tmp_path, wrong_copies=True)

    assert [each.finding.rule for each in result.problems] == ["doctor/peer-copy-wrong"]


def test_a_single_gpu_has_no_peer(tmp_path: Path) -> None:
    assert prove(tmp_path, devices=1).status is CheckStatus.OK
