# SPDX-License-Identifier: Apache-2.0
"""Acts on GPUs: takes memory of one and is killed there (SIGKILL), as a server is that a job kills.

Runs in the job's interpreter (launch.py). The answer is printed before the end.
"""

import json
import os
import signal
import subprocess
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def measure(torch: "Any", request: "Any") -> "dict[str, Any]":
    """Take `size` bytes, or half of what is free if that is less, and die.

    `request`: `device`, `size`, and `applications`: the command that lists who holds memory, run
    while this process holds it. `killed_at` is CLOCK_MONOTONIC, one clock for all processes.
    """
    index = request["device"]
    torch.cuda.set_device(index)
    free, _ = torch.cuda.mem_get_info(index)
    size = min(request["size"], free // 2)
    held = torch.empty(size, dtype=torch.uint8, device=f"cuda:{index}")
    # Written to, so that it is really there.
    held.fill_(1)
    torch.cuda.synchronize(index)
    free_after, _ = torch.cuda.mem_get_info(index)
    answer = {
        "held": held.numel(),
        "free_before": free,
        "free_after": free_after,
        "applications": _lines(request["applications"]),
        "killed_at": time.monotonic(),
    }
    sys.stdout.write("\n" + json.dumps({"values": answer}) + "\n")
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


def _lines(command: "list[str]") -> "list[str] | None":
    try:
        ran = subprocess.run(command, stdout=subprocess.PIPE, timeout=15, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return ran.stdout.decode("utf-8", "replace").splitlines()
