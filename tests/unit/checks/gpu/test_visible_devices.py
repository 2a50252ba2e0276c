# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.checks.gpu.smi_log import SmiGpu
from ci_doctor.checks.gpu.visible_devices import visible_gpus

GPUS = [
    SmiGpu(index=index, bus_id=f"{index}", name="NVIDIA L4", uuid=f"GPU-{index}abc")
    for index in range(3)
]


@pytest.mark.parametrize(
    ("value", "indices", "missing"),
    [
        pytest.param(None, [0, 1, 2], None, id="unset"),
        pytest.param("", [], "", id="empty"),
        pytest.param("-1", [], "-1", id="minus-one"),
        pytest.param("2,0", [2, 0], None, id="order"),
        pytest.param("0,7,1", [0], "7", id="ends-at-the-first-that-is-missing"),
        pytest.param("GPU-1", [1], None, id="beginning-of-a-uuid"),
        pytest.param("GPU-", [], "GPU-", id="ambiguous-uuid"),
        pytest.param("1gpu2", [1], None, id="an-index-as-strtoul-reads-it"),
        pytest.param("NoDevFiles", [], "NoDevFiles", id="a-word"),
        pytest.param("9" * 5000, [], "9" * 5000, id="more-digits-than-a-number-has"),
    ],
)
def test_a_program_sees_what_cuda_says(
    value: str | None, indices: list[int], missing: str | None
) -> None:
    visible = visible_gpus(GPUS, value)

    assert [gpu.index for gpu in visible.gpus] == indices
    assert visible.missing == missing


def test_parts_are_counted_and_not_looked_up() -> None:
    visible = visible_gpus(GPUS, "MIG-aaaa,MIG-bbbb")

    assert visible.parts == ("MIG-aaaa", "MIG-bbbb")
    assert visible.count == 2


@pytest.mark.parametrize("value", ["0,0", "1,0,1", "GPU-1,1"])
def test_an_entry_that_comes_twice_leaves_no_gpu(value: str) -> None:
    visible = visible_gpus(GPUS, value)

    assert (visible.count, visible.repeated) == (0, value.rpartition(",")[2])
