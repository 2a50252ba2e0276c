# SPDX-License-Identifier: Apache-2.0
"""Acts on GPUs: which ones torch can use, each by a small computation on it.

Runs in the job's interpreter (launch.py).
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def measure(torch: "Any", request: "Any") -> "dict[str, Any]":  # noqa: ARG001
    """Every device that CUDA_VISIBLE_DEVICES leaves: its name, and whether it works."""
    devices = [_device(torch, index) for index in range(torch.cuda.device_count())]
    return {"devices": devices}


def _device(torch: "Any", index: int) -> "dict[str, Any]":
    row = {
        "index": index,
        "name": torch.cuda.get_device_properties(index).name,
        "failed": None,
    }
    try:
        # A kernel, and a copy back that waits for it: 0 + 1 + ... + 4095.
        total = int(torch.arange(4096, device=f"cuda:{index}").sum().item())
    except Exception as error:  # noqa: BLE001
        lines = str(error).strip().splitlines() or [type(error).__name__]
        row["failed"] = lines[0][:300]
        return row
    if total != 4095 * 4096 // 2:
        row["failed"] = f"the sum of 0 to 4095 came out as {total}"
    return row
