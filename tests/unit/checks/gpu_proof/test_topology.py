# SPDX-License-Identifier: Apache-2.0
"""The matrix of `nvidia-smi topo -m`, in its two layouts."""

import pytest

from ci_doctor.checks.gpu_proof.topology import is_nvlink, parse_topology

TABS = (
    "\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV18\tPIX\t0-47\t0\t\tN/A\n"
    "GPU1\tNV18\t X \tSYS\t48-95\t1\t\tN/A\n"
    "NIC0\tPIX\tSYS\t X \n"
    "\nLegend:\n\n  X    = Self\n"
)
COLUMNS = """\
        GPU0    GPU1    GPU2    mlx5_0  CPU Affinity
GPU0     X      PHB     SYS     PHB     0-9
GPU1    PHB      X      SYS     PHB     0-9
GPU2    SYS     SYS      X      SYS     10-19
mlx5_0  PHB     PHB     SYS      X
"""


def test_matrix_with_tabs_and_underlined_header() -> None:
    assert parse_topology(TABS) == {(0, 1): "NV18", (1, 0): "NV18"}


def test_matrix_with_columns() -> None:
    connections = parse_topology(COLUMNS)

    assert len(connections) == 6
    assert connections[0, 1] == "PHB"
    assert connections[2, 0] == "SYS"


@pytest.mark.parametrize("text", ["", "No devices were found\n", "Legend:\n  X    = Self\n"])
def test_text_without_a_matrix_has_no_connections(text: str) -> None:
    assert parse_topology(text) == {}


@pytest.mark.parametrize(("word", "nvlink"), [("NV18", True), ("NODE", False), (None, False)])
def test_nvlink(word: str | None, nvlink: bool) -> None:
    assert is_nvlink(word) is nvlink
