# SPDX-License-Identifier: Apache-2.0
"""Acts on a GPU: how fast its memory is copied, and what passes between host and device.

Runs in the job's interpreter (launch.py).
"""

import subprocess
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MIB = 2**20
ROUNDS = 5
COPIES = 10


def measure(torch: "Any", request: "Any") -> "dict[str, Any]":
    """Rates in bytes a second, of the best of some rounds: what the device can do.

    `request`: `device`, `size` (the largest copy within the device, bytes), `host_size`, and `link`:
    the command that prints the state of the PCIe link, run while copies run, because an idle link
    slows down to save power. A copy within the device counts twice, read and written.
    """
    index = request["device"]
    device = f"cuda:{index}"
    with torch.cuda.device(index):
        size = _size(torch, index, request["size"])
        within = _within(torch, device, size)
        host_size = min(request["host_size"], size)
        # Pinned: the device reads it by itself. Filled, and allocated outside the timed part.
        host = torch.ones(host_size, dtype=torch.uint8, pin_memory=True)
        block = torch.ones(host_size, dtype=torch.uint8, device=device)
        to_device = _rates(torch, lambda: block.copy_(host, non_blocking=True), host_size)
        link = _link_under_load(torch, lambda: block.copy_(host, non_blocking=True), request)
        to_host = _rates(torch, lambda: host.copy_(block, non_blocking=True), host_size)
    return {
        "size": size,
        "within": within,
        "to_device": to_device,
        "to_host": to_host,
        "link": link,
    }


def _size(torch: "Any", index: int, largest: int) -> int:
    """A quarter of what is free at most: two such blocks are held."""
    free, _ = torch.cuda.mem_get_info(index)
    return int(min(largest, free // 4) // MIB * MIB)


def _within(torch: "Any", device: str, size: int) -> "list[float]":
    source = torch.ones(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return _rates(torch, lambda: target.copy_(source), 2 * size)


def _rates(torch: "Any", copy: "Callable[[], Any]", count: int) -> "list[float]":
    """Bytes a second of each round, by the clock of the device; the first copies are not timed."""
    for _ in range(COPIES):
        copy()
    torch.cuda.synchronize()
    rates = []
    for _ in range(ROUNDS):
        begin = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(COPIES):
            copy()
        end.record()
        torch.cuda.synchronize()
        # elapsed_time is in milliseconds.
        rates.append(COPIES * count / (begin.elapsed_time(end) / 1000))
    return rates


def _link_under_load(torch: "Any", copy: "Callable[[], Any]", request: "Any") -> "str | None":
    """What the command prints while the link is busy; None if it fails or does not end."""
    if not request["link"]:
        return None
    try:
        process = subprocess.Popen(
            request["link"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    except OSError:
        return None
    deadline = time.monotonic() + 15
    while process.poll() is None and time.monotonic() < deadline:
        copy()
        torch.cuda.synchronize()
    if process.poll() is None:
        # It may hang in the driver, where no signal reaches it: it is not waited for.
        process.kill()
        return None
    output, _ = process.communicate()
    return output.decode("utf-8", "replace") if process.returncode == 0 else None
