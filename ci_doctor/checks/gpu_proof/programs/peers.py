# SPDX-License-Identifier: Apache-2.0
"""Acts on GPUs: copies from each to each other one, compared byte by byte and timed.

Runs in the job's interpreter (launch.py).
"""

import itertools
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

COPIES = 10


def measure(torch: "Any", request: "Any") -> "dict[str, Any]":
    """For each ordered pair of `devices`: whether it has peer access, and what a copy gave.

    `size` is that of a copy, bytes. `rate` is bytes a second that arrived.
    """
    pairs = []
    for source, target in itertools.permutations(request["devices"], 2):
        pair = _pair(torch, source, target, request["size"])
        pairs.append(pair)
    return {"pairs": pairs}


def _pair(torch: "Any", source: int, target: int, size: int) -> "dict[str, Any]":
    sent = _pattern(torch, source, size)
    arrived = torch.zeros(size, dtype=torch.uint8, device=f"cuda:{target}")
    _wait(torch, source, target)
    # The first copy of a pair turns peer access on and loads what it needs: not timed.
    arrived.copy_(sent)
    _wait(torch, source, target)
    is_equal = bool(torch.equal(arrived.cpu(), sent.cpu()))
    began = time.perf_counter()
    for _ in range(COPIES):
        arrived.copy_(sent, non_blocking=True)
    # A copy runs on the stream of its source, and the target's stream waits for it.
    _wait(torch, source, target)
    elapsed = time.perf_counter() - began
    return {
        "source": source,
        "target": target,
        "has_access": bool(torch.cuda.can_device_access_peer(source, target)),
        "is_equal": is_equal,
        "rate": COPIES * size / elapsed,
    }


def _pattern(torch: "Any", device: int, size: int) -> "Any":
    """Bytes that differ from pair to pair, so that what an earlier copy left is no match."""
    generator = torch.Generator(device=f"cuda:{device}")
    generator.seed()
    return torch.randint(
        0, 256, (size,), dtype=torch.uint8, device=f"cuda:{device}", generator=generator
    )


def _wait(torch: "Any", source: int, target: int) -> None:
    torch.cuda.synchronize(source)
    torch.cuda.synchronize(target)
