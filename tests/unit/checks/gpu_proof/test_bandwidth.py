# SPDX-License-Identifier: Apache-2.0
"""Copies within GPUs and to the host, with torch's stand-in."""

from pathlib import Path

from ci_doctor.checks.gpu_proof.bandwidth import CHECK

from ci_doctor.checks.check import CheckStatus
from tests.support.gpu_proof import proof_context, write_nvidia_smi


def test_the_link_is_read_while_copies_run(tmp_path: Path) -> None:
    uuid = "GPU-00000000-0000-0000-0000-000000000000"
    write_nvidia_smi(tmp_path / "bin", {"pcie": f"{uuid}, 5, 4, 16"})

    result = CHECK.run(proof_context(tmp_path / "bin"))

    rules = [each.finding.rule for each in result.problems]
    assert "doctor/pcie-link-narrow" in rules
    assert (result.figures["pcie_generation"], result.figures["pcie_lanes"]) == (5, 4)


def test_a_driver_that_does_not_know_links_leaves_them_unknown(tmp_path: Path) -> None:
    write_nvidia_smi(tmp_path / "bin", {"pcie": ""})

    result = CHECK.run(proof_context(tmp_path / "bin"))

    assert result.status is CheckStatus.UNKNOWN
    assert "how its PCIe link runs" in (result.unknown or "")


def test_a_gpu_without_room_is_unknown(tmp_path: Path) -> None:
    write_nvidia_smi(tmp_path / "bin")

    assert CHECK.run(proof_context(tmp_path / "bin", no_room=True)).status is CheckStatus.UNKNOWN
